//! A ZIP file being written.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_flow::output::{AtomicFile, Replaces, Store};
use rawzip::path::{EntryPath, ZipFilePath};
use rawzip::{ErrorKind, ZipArchiveWriter};

use crate::growing::Growing;

/// Permissions of members, for programs that unpack them.
const MODE: u32 = 0o644;
/// Bytes of a file that are copied at a time.
const STEP: u64 = 1 << 20;

/// A store that will be a ZIP file. Members have no times: equal objects give equal bytes.
#[derive(Debug)]
pub struct ZipStore {
    target: PathBuf,
    archive: ZipArchiveWriter<BufWriter<File>>,
    temporary: AtomicFile,
    growing: Growing,
    /// Keys of the objects that have their end.
    finished: HashSet<String>,
}

impl ZipStore {
    /// Starts a store that will be the file `target`.
    ///
    /// # Errors
    /// As for [`AtomicFile::create`].
    pub fn create(target: &Path, replaces: impl Into<Replaces>) -> Result<Self> {
        let temporary = AtomicFile::create(target, replaces)?;
        let file = temporary.file().try_clone().map_err(|error| Error::write(target, &error))?;
        Ok(Self {
            target: target.to_owned(),
            archive: ZipArchiveWriter::new(BufWriter::new(file)),
            temporary,
            growing: Growing::beside(target),
            finished: HashSet::new(),
        })
    }

    /// A new object, whose bytes `fill` writes.
    fn member(
        &mut self,
        key: &str,
        fill: impl FnOnce(&mut Growing, &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let Self { target, archive, temporary, growing, finished } = self;
        if !finished.insert(key.to_owned()) {
            return Err(Error::internal(format!("'{key}' was written twice")));
        }
        let before = archive.stream_offset();
        let started = archive.new_file(name(key)?).unix_permissions(MODE).start();
        let (mut entry, config) = started.map_err(|error| failed(target, error))?;
        let mut to = config.wrap(&mut entry);
        fill(growing, &mut |bytes| to.write_all(bytes).map_err(|error| Error::write(target, &error)))?;
        let (_, sums) = to.finish().map_err(|error| failed(target, error))?;
        entry.finish(sums).map_err(|error| failed(target, error))?;
        temporary.written(archive.stream_offset() - before)
    }

    fn is_known(&self, key: &str) -> bool {
        self.finished.contains(key) || self.growing.has(key)
    }
}

/// A key as the name of a member. ZIP files know names in ASCII, which may hold anything, and names in UTF-8, which programs
/// take for paths.
fn name(key: &str) -> Result<EntryPath<'_>> {
    if key.is_ascii() {
        return Ok(EntryPath::verbatim(key.as_bytes()));
    }
    if ZipFilePath::from_str(key).as_str() != key {
        let what = format!("'{}' cannot be the name of a member of a ZIP file", key.escape_debug());
        return Err(Error::unsupported(what).hint("rename it, or write a directory: a name that ends in .zarr"));
    }
    Ok(EntryPath::conformant(key))
}

fn failed(target: &Path, error: rawzip::Error) -> Error {
    match error.into_kind() {
        ErrorKind::IO(error) => Error::write(target, &error),
        other => Error::unsupported(other.to_string()).at(target.display().to_string()),
    }
}

impl Store for ZipStore {
    fn place(&self) -> String {
        self.target.display().to_string()
    }

    fn write(&mut self, key: &str, bytes: &[u8]) -> Result<()> {
        if self.growing.has(key) {
            return Err(Error::internal(format!("'{key}' was written twice")));
        }
        self.member(key, |_, to| to(bytes))
    }

    fn append(&mut self, key: &str, bytes: &[u8]) -> Result<u64> {
        if self.finished.contains(key) {
            return Err(Error::internal(format!("'{key}' is finished")));
        }
        self.growing.push(key, bytes)
    }

    fn finish(&mut self, key: &str) -> Result<()> {
        if !self.growing.has(key) {
            return Ok(());
        }
        self.member(key, |growing, to| growing.take(key, to))
    }

    fn copy(&mut self, from: &Path, key: &str) -> Result<()> {
        if self.is_known(key) {
            return Err(Error::internal(format!("'{key}' was written twice")));
        }
        let read_error = |error: std::io::Error| Error::read(from, &error);
        let mut file = File::open(from).map_err(read_error)?;
        self.member(key, |_, to| {
            let mut bytes = Vec::new();
            while (&mut file).take(STEP).read_to_end(&mut bytes).map_err(read_error)? > 0 {
                to(&bytes)?;
                bytes.clear();
            }
            Ok(())
        })
    }

    fn publish(mut self: Box<Self>) -> Result<u64> {
        while let Some(key) = self.growing.first() {
            self.finish(&key)?;
        }
        let Self { target, archive, temporary, .. } = *self;
        archive.finish().map_err(|error| failed(&target, error))?;
        temporary.publish()
    }
}
