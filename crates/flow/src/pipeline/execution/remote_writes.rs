//! Other nodes write chunks that they have encoded: they are sent the offsets. A chunk that a node cannot write is encoded again
//! and written here; the bytes are the same.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use crate::offload::remote_encoder::{PendingChunk, RemoteEncoder};
use crate::offload::reserved::ReservedOffset;
use crate::output::path_to_be;
use knarr_array::error::{Error, Result};

/// Chunks that wait for one node, at most: it has them in memory.
const WAITING: usize = 256;
/// Bytes that a node is told to write at once, about.
const AT_ONCE: u64 = 16 << 20;

/// A chunk that is to be written.
pub(in crate::pipeline) struct RemoteWrite {
    /// Its number among all chunks.
    pub(in crate::pipeline) number: u64,
    pub(in crate::pipeline) kept: PendingChunk,
    pub(in crate::pipeline) reserved: ReservedOffset,
}

/// Who tells the nodes, a thread for each of them that has something to write.
pub(in crate::pipeline) struct RemoteWrites<'scope, 'env, F> {
    scope: &'scope Scope<'scope, 'env>,
    others: &'scope dyn RemoteEncoder,
    again: &'scope F,
    threads: BTreeMap<usize, Writer<'scope>>,
}

/// A thread that tells one node.
struct Writer<'scope> {
    chunks: SyncSender<RemoteWrite>,
    /// Gives the numbers of those that were made again.
    thread: ScopedJoinHandle<'scope, Result<Vec<u64>>>,
}

impl<'scope, 'env, F: Fn(u64) -> Result<Vec<u8>> + Sync> RemoteWrites<'scope, 'env, F> {
    /// `again` makes the bytes of a chunk once more.
    pub(in crate::pipeline) fn new(
        scope: &'scope Scope<'scope, 'env>,
        others: &'scope dyn RemoteEncoder,
        again: &'scope F,
    ) -> Self {
        Self { scope, others, again, threads: BTreeMap::new() }
    }

    /// Has a node write a chunk that it keeps.
    ///
    /// # Errors
    /// What has become of earlier ones; `Unsupported` if no thread can be started.
    pub(in crate::pipeline) fn send(&mut self, node: usize, chunk: RemoteWrite) -> Result<()> {
        if !self.threads.contains_key(&node) {
            let (send, chunks) = sync_channel(WAITING);
            let (others, again) = (self.others, self.again);
            let work = move || serve(node, &chunks, others, again);
            let started = std::thread::Builder::new().name("remote-writes".to_owned()).spawn_scoped(self.scope, work);
            let thread = started.map_err(|error| Error::unsupported(format!("no thread can be started: {error}")))?;
            self.threads.insert(node, Writer { chunks: send, thread });
        }
        let sent = self.threads.get(&node).is_some_and(|writer| writer.chunks.send(chunk).is_ok());
        if sent { Ok(()) } else { self.end().and_then(|_| Err(Error::internal("a thread has ended"))) }
    }

    /// Waits until all is written and durable. Returns the numbers of those chunks that were made again, and written here.
    ///
    /// # Errors
    /// `Write`; what making a chunk again reports.
    pub(in crate::pipeline) fn finish(mut self) -> Result<Vec<u64>> {
        self.end()
    }

    fn end(&mut self) -> Result<Vec<u64>> {
        let handles: Vec<_> = std::mem::take(&mut self.threads).into_values().map(|writer| writer.thread).collect();
        let ended = handles.into_iter().map(|handle| {
            handle.join().unwrap_or_else(|_| Err(Error::internal("a thread that has chunks written panicked")))
        });
        let mut made_again = Vec::new();
        // All of them are waited for.
        let ended: Vec<_> = ended.collect();
        for numbers in ended {
            made_again.extend(numbers?);
        }
        Ok(made_again)
    }
}

/// Has one node write what it keeps, as it comes, and makes that durable in the end. Returns the numbers of what was made again.
fn serve(
    node: usize,
    chunks: &Receiver<RemoteWrite>,
    others: &dyn RemoteEncoder,
    again: &impl Fn(u64) -> Result<Vec<u8>>,
) -> Result<Vec<u64>> {
    let (mut files, mut made_again) = (Files::default(), Vec::new());
    let mut has_written = false;
    while let Ok(first) = chunks.recv() {
        let mut batch = vec![first];
        let mut bytes = batch.iter().map(|chunk| chunk.kept.length).sum::<u64>();
        while bytes < AT_ONCE
            && batch.len() < WAITING
            && let Ok(next) = chunks.try_recv()
        {
            bytes += next.kept.length;
            batch.push(next);
        }
        let wanted: Vec<(PendingChunk, ReservedOffset)> =
            batch.iter().map(|chunk| (chunk.kept, chunk.reserved.clone())).collect();
        if others.write(node, &wanted) {
            has_written = true;
            continue;
        }
        for RemoteWrite { number, kept, reserved } in batch {
            let bytes = again(number)?;
            if bytes.len() as u64 != kept.length || crc32c::crc32c(&bytes) != kept.checksum {
                return Err(Error::internal("a chunk was encoded otherwise than before"));
            }
            files.write(&reserved, &bytes)?;
            made_again.push(number);
        }
    }
    files.close()?;
    if has_written {
        others.sync(node)?;
    }
    Ok(made_again)
}

/// The file of the output that was used last.
#[derive(Default)]
struct Files {
    open: Option<(PathBuf, File)>,
    /// Something was written to it here.
    has_written: bool,
}

impl Files {
    fn of(&mut self, path: &Path) -> Result<&File> {
        if self.open.as_ref().is_none_or(|(open, _)| open != path) {
            self.close()?;
            let opened = OpenOptions::new().write(true).open(path);
            self.open = Some((path.to_owned(), opened.map_err(|error| Error::write(&path_to_be(path), &error))?));
        }
        self.open.as_ref().map(|(_, file)| file).ok_or_else(|| Error::internal("no file is open"))
    }

    fn write(&mut self, reserved: &ReservedOffset, bytes: &[u8]) -> Result<()> {
        let written = self.of(&reserved.path)?.write_all_at(bytes, reserved.offset);
        self.has_written = true;
        written.map_err(|error| Error::write(&path_to_be(&reserved.path), &error))
    }

    /// Makes durable what was written here.
    fn close(&mut self) -> Result<()> {
        let has_written = std::mem::take(&mut self.has_written);
        match self.open.take().filter(|_| has_written) {
            Some((path, file)) => file.sync_data().map_err(|error| Error::write(&path_to_be(&path), &error)),
            None => Ok(()),
        }
    }
}
