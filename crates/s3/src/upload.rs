//! A store of objects being written. S3 cannot rename: objects get their final keys, and what makes a store of them comes last.
//!
//! 1. The first object that is written is [`MARK`]. It says whose the place is, and lets go of what an earlier program left.
//! 2. Objects are sent while the caller makes more of them.
//! 3. When all are acknowledged and the server lists them, the descriptions follow: those of single arrays and groups, at
//!    last that of the store. Before it nobody finds a store.
//! 4. The mark is removed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use futures_util::{StreamExt, TryStreamExt};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::output::{Store, is_of_running, temporary_name};
use knarr_flow::urls::Contents;
use object_store::{ObjectStoreExt, PutMode, PutPayload};

use crate::client::Client;
use crate::parts::{Growing, PART, Unfinished, put};
use crate::sending::Sending;

/// Key of the object that is there while a store is written. What has it and is no store was left by a killed program.
const MARK: &str = ".knarr-unfinished";
/// Larger objects are sent in parts.
const AT_ONCE: usize = 4 * PART;
/// Time that requests of a failed output have to come to an end, and that removing may take of what they wrote.
const ENDING: Duration = Duration::from_secs(5);
const REMOVING: Duration = Duration::from_secs(20);
/// How often the mark of a whole store is removed that stays.
const FEW: usize = 3;

/// A store being written to a bucket.
#[derive(Debug)]
pub(crate) struct Upload {
    client: Client,
    contents: Contents,
    force: bool,
    sending: Sending,
    /// What the mark says if the place is ours; `None` before anything is written.
    begun: Option<String>,
    /// Nothing is there that is not to be replaced: what is there may be removed.
    is_ours: bool,
    /// Key and length of every object that was sent, or whose sending was begun.
    sent: BTreeMap<String, u64>,
    growing: BTreeMap<String, Growing>,
    unfinished: Vec<Unfinished>,
    descriptions: BTreeMap<String, Vec<u8>>,
    published: bool,
}

impl Upload {
    /// # Errors
    /// `Exists` if objects are there and may not be replaced; `Read` if that cannot be found out.
    pub(crate) fn create(client: Client, contents: Contents, force: bool) -> Result<Self> {
        let sending = Sending::new(&client);
        let upload = Self {
            client,
            contents,
            force,
            sending,
            begun: None,
            is_ours: false,
            sent: BTreeMap::new(),
            growing: BTreeMap::new(),
            unfinished: Vec::new(),
            descriptions: BTreeMap::new(),
            published: false,
        };
        upload.replaceable().map_err(|error| upload.here(error))?;
        Ok(upload)
    }

    fn here(&self, error: Error) -> Error {
        error.at_once(&self.client.address.url)
    }

    /// Keys of what is there and would be replaced.
    fn replaceable(&self) -> Result<Vec<String>> {
        let found = self.client.list(ErrorKind::Write)?;
        let Contents { noun, descriptions, is_mark } = self.contents;
        let at_top = || found.keys().filter(|key| !key.contains('/'));
        let exists = |what: String, hint: &str| Err(Error::new(ErrorKind::Exists, what).hint(hint));
        let (is_store, is_left) = (at_top().any(|key| is_mark(key)), found.contains_key(MARK));
        if found.is_empty() {
            return Ok(Vec::new());
        }
        if !self.force {
            if is_left && !found.contains_key(descriptions) {
                // Whether somebody still writes there, the mark tells when something is to be written.
                return Ok(Vec::new());
            }
            if is_store {
                return exists("the output exists".to_owned(), "give another name, or --force to replace it");
            }
        }
        if !is_store && !is_left {
            return exists(
                format!("objects are there that are no {noun}"),
                "give another name, or remove them yourself",
            );
        }
        match at_top().find(|key| !is_mark(key) && *key != MARK) {
            Some(foreign) => exists(
                format!("'{foreign}' is not of the {noun}"),
                "move it elsewhere: what is replaced goes with all it holds",
            ),
            None => Ok(found.into_keys().collect()),
        }
    }

    /// Takes the place, if it is not taken yet.
    fn begin(&mut self) -> Result<()> {
        if self.begun.is_some() {
            return Ok(());
        }
        if self.force {
            self.refuse_running()?;
        }
        let name = own_name();
        let mark = self.client.path(MARK)?;
        let mode = if self.force { PutMode::Overwrite } else { PutMode::Create };
        let put = |mode: PutMode| {
            let payload = PutPayload::from(name.clone().into_bytes());
            self.client.runtime.wait(self.client.objects.put_opts(&mark, payload, mode.into()))
        };
        let placed = match put(mode) {
            // A server that knows no conditions.
            Err(error) if error.to_string().contains("status code: 501") => put(PutMode::Overwrite),
            placed => placed,
        };
        match placed {
            // A repeated attempt may meet the first.
            Err(object_store::Error::AlreadyExists { .. }) if self.marked_by(&name)? => {}
            Err(object_store::Error::AlreadyExists { .. }) => {
                return Err(Error::new(ErrorKind::Exists, "another program writes there, or was killed while it did")
                    .hint("give another name, or --force to replace what it wrote"));
            }
            Err(error) => return Err(self.client.failed(&error, ErrorKind::Write)),
            Ok(_) => {}
        }
        self.begun = Some(name);
        let mut old = self.replaceable_but_mark()?;
        self.is_ours = true;
        // Without its description it is no store any more, whenever this is interrupted.
        if let Some(at) = old.iter().position(|key| key == self.contents.descriptions) {
            let description = self.client.path(&old.swap_remove(at))?;
            let removed = self.client.runtime.wait(self.client.objects.delete(&description));
            removed.map_err(|error| self.client.failed(&error, ErrorKind::Write))?;
        }
        self.client
            .runtime
            .wait(remove(&self.client, old))
            .map_err(|error| self.client.failed(&error, ErrorKind::Write))
    }

    /// Refuses to take the place of a program on this machine that still writes there: both would be lost.
    fn refuse_running(&self) -> Result<()> {
        let marked = self
            .client
            .runtime
            .wait(marked(&self.client))
            .map_err(|error| self.client.failed(&error, ErrorKind::Write))?;
        let by = marked.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        match by.rsplit_once(", ") {
            Some((who, name)) if is_of_running(name.as_ref()) => {
                Err(Error::new(ErrorKind::Exists, format!("another program writes there: {who}"))
                    .hint("wait until it has ended, or give another name"))
            }
            _ => Ok(()),
        }
    }

    /// What is to be replaced. Others may have come since this was looked at first.
    fn replaceable_but_mark(&self) -> Result<Vec<String>> {
        if self.force {
            return Ok(self.replaceable()?.into_iter().filter(|key| key != MARK).collect());
        }
        let found = self.client.list(ErrorKind::Write)?;
        if found.keys().all(|key| key == MARK) {
            return Ok(Vec::new());
        }
        Err(Error::new(ErrorKind::Exists, "the output exists").hint("give another name, or --force to replace it"))
    }

    /// True if the mark says that this program writes here.
    fn marked_by(&self, name: &str) -> Result<bool> {
        let marked = self.client.runtime.wait(is_marked_by(&self.client, name));
        marked.map_err(|error| self.client.failed(&error, ErrorKind::Write))
    }

    fn is_description(&self, key: &str) -> bool {
        key.rsplit('/').next() == Some(self.contents.descriptions)
    }

    fn is_known(&self, key: &str) -> bool {
        self.sent.contains_key(key) || self.growing.contains_key(key) || self.descriptions.contains_key(key)
    }

    fn write_here(&mut self, key: &str, bytes: &[u8]) -> Result<()> {
        if self.is_known(key) {
            return Err(Error::internal(format!("'{key}' was written twice")));
        }
        if self.is_description(key) {
            self.descriptions.insert(key.to_owned(), bytes.to_vec());
            return Ok(());
        }
        if bytes.len() > AT_ONCE {
            self.append_here(key, bytes)?;
            return self.finish_here(key);
        }
        self.begin()?;
        self.sent.insert(key.to_owned(), bytes.len() as u64);
        put(&self.client, &mut self.sending, key, bytes.to_vec())
    }

    fn append_here(&mut self, key: &str, bytes: &[u8]) -> Result<u64> {
        if self.sent.contains_key(key) || self.is_description(key) {
            return Err(Error::internal(format!("'{key}' is finished")));
        }
        self.begin()?;
        let growing = self.growing.entry(key.to_owned()).or_insert_with(|| Growing::new(key));
        let (offset, had) = (growing.length, growing.unfinished().is_some());
        growing.push(&self.client, &mut self.sending, bytes)?;
        if !had && let Some(unfinished) = growing.unfinished() {
            self.unfinished.push(unfinished);
        }
        Ok(offset)
    }

    fn finish_here(&mut self, key: &str) -> Result<()> {
        let Some(growing) = self.growing.remove(key) else { return Ok(()) };
        self.sent.insert(key.to_owned(), growing.length);
        growing.finish(&self.client, &mut self.sending)
    }

    fn copy_here(&mut self, from: &Path, key: &str) -> Result<()> {
        let mut file = File::open(from).map_err(|error| Error::read(from, &error))?;
        let mut piece = Vec::new();
        loop {
            piece.clear();
            let read = (&mut file).take(PART as u64).read_to_end(&mut piece);
            // An empty file is an object, too.
            let is_end = read.map_err(|error| Error::read(from, &error))? == 0;
            if is_end && self.growing.contains_key(key) {
                return self.finish_here(key);
            }
            self.append_here(key, &piece)?;
        }
    }

    /// Shows the store. Returns its bytes.
    fn publish_here(&mut self) -> Result<u64> {
        self.begin()?;
        let open: Vec<String> = self.growing.keys().cloned().collect();
        open.iter().try_for_each(|key| self.finish_here(key))?;
        self.sending.wait()?;
        let mut descriptions = std::mem::take(&mut self.descriptions);
        let last = descriptions.remove_entry(self.contents.descriptions);
        for (key, bytes) in descriptions {
            self.sent.insert(key.clone(), bytes.len() as u64);
            put(&self.client, &mut self.sending, &key, bytes)?;
        }
        self.sending.wait()?;
        self.check_ours()?;
        if let Some((key, bytes)) = last {
            self.sent.insert(key.clone(), bytes.len() as u64);
            put(&self.client, &mut self.sending, &key, bytes)?;
            self.sending.wait()?;
        }
        self.published = true;
        let mark = self.client.path(MARK)?;
        // Not all that goes wrong on the way does the library try again. A mark that stays beside a whole store does no harm.
        let begin = Instant::now();
        let removed =
            |_| self.client.runtime.wait(self.client.objects.delete(&mark)).is_ok() || begin.elapsed() > ENDING;
        let _ = (0..FEW).any(removed);
        Ok(self.sent.values().sum())
    }

    /// Refuses to show a store from which somebody took objects, or to which somebody added some.
    fn check_ours(&self) -> Result<()> {
        let changed = |what: &str| {
            Err(Error::new(ErrorKind::Write, what)
                .hint("repeat this when no other program writes or removes things there"))
        };
        if !self.marked_by(self.begun.as_deref().unwrap_or_default())? {
            return changed("another program has taken the place meanwhile");
        }
        let mut found = self.client.list(ErrorKind::Write)?;
        found.remove(MARK);
        if found != self.sent { changed("objects were removed or changed while it was written") } else { Ok(()) }
    }

    /// Removes everything that is there if it is ours, what makes a store of it first, and the mark last.
    fn remove(&mut self) {
        let Some(name) = self.begun.take() else { return };
        // What a server has got whole it may keep after the connection is closed.
        self.sending.stop(ENDING);
        let (client, unfinished) = (self.client.clone(), std::mem::take(&mut self.unfinished));
        let (descriptions, is_ours) = (self.contents.descriptions, self.is_ours);
        let removing = async {
            // What another program has taken is its own.
            if !is_marked_by(&client, &name).await? {
                return Ok(());
            }
            for upload in unfinished {
                if let Some(mut upload) = upload.lock().await.take() {
                    let _ = upload.abort().await;
                }
            }
            if is_ours {
                remove(&client, vec![descriptions.to_owned()]).await?;
                let left = client.listed().await?.into_keys();
                remove(&client, left.filter(|key| key != MARK && key != descriptions).collect()).await?;
            }
            remove(&client, vec![MARK.to_owned()]).await
        };
        // Nothing is left to report a failure to. What stays has a mark and is no store.
        let removing = async { tokio::time::timeout(REMOVING, removing).await };
        let _: Result<object_store::Result<()>, _> = self.client.runtime.wait(removing);
    }
}

/// What the mark of this program says: no other one's says the same.
fn own_name() -> String {
    let uname = rustix::system::uname();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let node = uname.nodename().to_string_lossy();
    // By the last part others on this machine see whether this process goes on.
    let running = temporary_name("mark".as_ref());
    let (process, seconds, nanos) = (std::process::id(), now.as_secs(), now.subsec_nanos());
    format!("{node}, process {process}, {seconds}.{nanos:09}, {}", running.to_string_lossy())
}

async fn is_marked_by(client: &Client, name: &str) -> object_store::Result<bool> {
    Ok(marked(client).await?.is_some_and(|marked| marked == name.as_bytes()))
}

/// What the mark says, if there is one.
async fn marked(client: &Client) -> object_store::Result<Option<Vec<u8>>> {
    let mark = object_store::path::Path::from_iter(client.address.prefix.parts().chain([MARK.into()]));
    match client.objects.get(&mark).await {
        Ok(found) => Ok(Some(found.bytes().await?.into())),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes objects, if they are there.
async fn remove(client: &Client, keys: Vec<String>) -> object_store::Result<()> {
    let paths: Vec<_> = keys.iter().filter_map(|key| client.path(key).ok()).map(Ok).collect();
    let mut removed = client.objects.delete_stream(futures_util::stream::iter(paths).boxed());
    loop {
        match removed.try_next().await {
            Ok(None) => return Ok(()),
            Ok(Some(_)) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

impl Store for Upload {
    fn place(&self) -> String {
        self.client.address.url.clone()
    }

    fn write(&mut self, key: &str, bytes: &[u8]) -> Result<()> {
        self.write_here(key, bytes).map_err(|error| self.here(error))
    }

    fn append(&mut self, key: &str, bytes: &[u8]) -> Result<u64> {
        self.append_here(key, bytes).map_err(|error| self.here(error))
    }

    fn finish(&mut self, key: &str) -> Result<()> {
        self.finish_here(key).map_err(|error| self.here(error))
    }

    fn copy(&mut self, from: &Path, key: &str) -> Result<()> {
        if self.is_known(key) {
            return Err(Error::internal(format!("'{key}' was written twice")));
        }
        self.copy_here(from, key).map_err(|error| self.here(error))
    }

    fn publish(mut self: Box<Self>) -> Result<u64> {
        self.publish_here().map_err(|error| self.here(error))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.published {
            self.remove();
        }
    }
}
