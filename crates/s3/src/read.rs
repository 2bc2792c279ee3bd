//! Objects that are read where they lie.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::read_store::{Entry, Part, ReadStore, entries_of};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStoreExt};

use crate::client::Client;

/// A folder of a bucket or of a web server.
#[derive(Debug)]
pub(crate) struct Remote {
    client: Client,
    listed: Mutex<Option<Listed>>,
}

/// Key and length of all objects; `None` if the server does not tell.
type Listed = Option<Arc<BTreeMap<String, u64>>>;

impl Remote {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, listed: Mutex::default() }
    }

    /// All objects, which are asked for once.
    fn listed(&self) -> Result<Listed> {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listed) = listed.as_ref() {
            return Ok(listed.clone());
        }
        let found = match self.client.address.server.lists.then(|| self.client.list(ErrorKind::Read)) {
            Some(Ok(found)) => Some(Arc::new(found)),
            // Who may not list may still read.
            Some(Err(refused)) if refused.is_denied => None,
            Some(Err(refused)) => return Err(refused.into()),
            None => None,
        };
        Ok(listed.insert(found).clone())
    }

    /// Length of an object, if there is one.
    fn length(&self, path: &Path) -> Result<Option<u64>> {
        self.found(self.client.runtime.wait(self.client.objects.head(path)).map(|object| object.size))
    }

    /// `None` for an object that is not there.
    fn found<T>(&self, result: object_store::Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ object_store::Error::NotFound { .. }) => {
                let error = self.client.failed(&error, ErrorKind::Read);
                // A bucket that is not there is more than an object that is not.
                if error.message().contains("bucket") { Err(error) } else { Ok(None) }
            }
            Err(error) => Err(self.client.failed(&error, ErrorKind::Read)),
        }
    }
}

/// True if the server may have the object, but not this part of it. Of empty objects some send all.
fn may_be_outside(error: &object_store::Error) -> bool {
    let text = error.to_string();
    let said = ["status code: 416", "Wanted range starting at", "Received non-partial response"];
    matches!(error, object_store::Error::NotSupported { .. }) || said.iter().any(|said| text.contains(said))
}

impl ReadStore for Remote {
    fn place(&self) -> String {
        self.client.address.url.clone()
    }

    fn get(&self, key: &str, part: Part, out: &mut Vec<u8>) -> Result<Option<u64>> {
        let place = |error: Error| error.at(key);
        let path = self.client.path(key)?;
        out.clear();
        let range = match part {
            Part::Whole { .. } => None,
            Part::At { length: 0, .. } | Part::Last { length: 0 } => return self.length(&path).map_err(place),
            Part::At { offset, length } => Some(GetRange::Bounded(offset..offset.saturating_add(length))),
            Part::Last { length } => Some(GetRange::Suffix(length)),
        };
        let options = GetOptions { range, ..GetOptions::default() };
        let fetch = async {
            let answer = self.client.objects.get_opts(&path, options).await?;
            let held = answer.meta.size;
            // What is not wanted is not waited for.
            let bytes = if part.within(held).is_some() { Some(answer.bytes().await?) } else { None };
            Ok((held, bytes))
        };
        let answer = match self.client.runtime.wait(fetch) {
            Err(error) if may_be_outside(&error) => {
                let held = self.length(&path).map_err(place)?;
                return match held.and_then(|held| part.within(held)) {
                    Some(_) => Err(place(self.client.failed(&error, ErrorKind::Read))),
                    None => Ok(held),
                };
            }
            answer => self.found(answer).map_err(place)?,
        };
        let Some((held, bytes)) = answer else { return Ok(None) };
        if let (Some(bytes), Some((_, length))) = (bytes, part.within(held)) {
            if bytes.len() as u64 != length {
                return Err(place(
                    Error::new(ErrorKind::Read, format!("{} bytes came of {length}", bytes.len()))
                        .hint("the connection was lost: repeat this"),
                ));
            }
            // Whole objects are not held twice.
            if out.capacity() < bytes.len() {
                *out = bytes.into();
            } else {
                out.extend_from_slice(&bytes);
            }
        }
        Ok(Some(held))
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn has(&self, key: &str) -> Result<bool> {
        match self.listed()? {
            Some(objects) => Ok(objects.contains_key(key)),
            None => Ok(self.length(&self.client.path(key)?).map_err(|error| error.at(key))?.is_some()),
        }
    }

    fn list(&self, folder: &str) -> Result<Option<Vec<Entry>>> {
        let Some(objects) = self.listed()? else { return Ok(None) };
        let from = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let below = objects.range(from.clone()..).take_while(|(key, _)| key.starts_with(&from));
        Ok(Some(entries_of(below.map(|(key, length)| (key.as_str(), *length)), folder)))
    }
}
