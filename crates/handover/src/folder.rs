//! A spool: where a rank's values lie until they are delivered, in a directory that is gone when its process is.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_flow::output::{remove_abandoned, temporary_name};

/// Where spools lie unless another directory is named: memory, or else a directory that the route names.
const SHARED_MEMORY: &str = "/dev/shm";
/// What the names of spools begin with, behind a dot.
pub(crate) const NAME: &str = "knarr-spool";

/// A directory of this process, and what a rank hands over in it. Removed when it is dropped; if the process is killed, by
/// the next one that opens a spool there.
pub struct Folder<L> {
    /// What lies in it; gone before the directory is.
    pub(crate) held: L,
    directory: Directory,
}

struct Directory {
    path: PathBuf,
    /// The process that made it: those that it forks share the directory, and must leave it alone.
    process: u32,
    /// Locked as long as the process lives, or one that it forked; `None` where the file system has no locks.
    _lock: Option<File>,
}

impl<L> Folder<L> {
    /// Makes a directory in `parent`, or where nothing is named, in memory or else in `otherwise`. It has to hold what
    /// `make` puts there.
    ///
    /// # Errors
    /// `Write`; those of `make`.
    pub(crate) fn make(parent: Option<&Path>, otherwise: &Path, make: impl Fn(&Path) -> Result<L>) -> Result<Self> {
        match parent {
            Some(parent) => Self::create(parent, make),
            None => Self::create(Path::new(SHARED_MEMORY), &make).or_else(|_| Self::create(otherwise, &make)),
        }
    }

    fn create(parent: &Path, make: impl Fn(&Path) -> Result<L>) -> Result<Self> {
        let write_error = |error: io::Error| Error::write(parent, &error);
        remove_abandoned(parent);
        let path = parent.join(temporary_name(OsStr::new(NAME)));
        DirBuilder::new().mode(0o700).create(&path).map_err(write_error)?;
        let lock = File::open(&path).ok().filter(|lock| lock.try_lock().is_ok());
        let directory = Directory { path, process: std::process::id(), _lock: lock };
        // What cannot be made leaves no directory.
        Ok(Self { held: make(&directory.path)?, directory })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory.path
    }

    /// True in the process that made it. Forked ones share its memory, and have no thread that delivers.
    pub fn is_own(&self) -> bool {
        self.directory.is_own()
    }
}

impl Directory {
    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        // Nothing is left to report a failure to; the next spool removes what stays. Links lead to values on a disk.
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        for target in entries.filter_map(|entry| fs::read_link(entry.path()).ok()) {
            let _ = fs::remove_file(target);
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}
