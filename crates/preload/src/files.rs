//! The files that this process has open for writing and that a rule wants compressed.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use knarr_core::capture::Event;
use knarr_core::codec::Reader;

use crate::host::Hid;
use crate::run::{Run, run};

/// An open file.
struct Open {
    id: Hid,
    path: PathBuf,
}

static FILES: Mutex<Vec<Open>> = Mutex::new(Vec::new());
/// How many there are: most calls need to know no more.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The list. `None` if another thread does not let go of it, as in a child that was forked in that moment; the launcher
/// then learns from the process's open files what it is not told.
fn files() -> Option<MutexGuard<'static, Vec<Open>>> {
    for _ in 0..1000 {
        match FILES.try_lock() {
            Ok(files) => return Some(files),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(20)),
        }
    }
    None
}

/// A file that is about to be opened for writing.
pub(crate) struct Opening {
    run: &'static Run,
    named: PathBuf,
    created: bool,
    /// Held while the file is opened.
    _gate: Option<File>,
}

/// To be called before the file with this name is opened for writing, or `created`.
pub(crate) fn opening(name: &[u8], created: bool) -> Option<Opening> {
    let run = run()?;
    let named = std::path::absolute(Path::new(OsStr::from_bytes(name))).ok()?;
    // A name that leads elsewhere is resolved first: rules are for files, and a new one has no other name yet.
    let path = std::fs::canonicalize(&named).unwrap_or_else(|_| named.clone());
    run.snapshot().rule_for(&path)?;
    Some(Opening { run, named, created, _gate: run.gate() })
}

impl Opening {
    /// To be called after the file was opened as `id`.
    pub(crate) fn opened(self, id: Hid) {
        let Ok(path) = std::fs::canonicalize(&self.named) else { return };
        if self.run.snapshot().rule_for(&path).is_none() {
            return;
        }
        self.run.tell(Event::Opened { path: path.clone(), created: self.created });
        if let Some(mut files) = files() {
            files.push(Open { id, path });
            COUNT.store(files.len(), Ordering::Relaxed);
        }
    }
}

/// True if some file is open.
pub(crate) fn any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// True if `id` is an open file.
pub(crate) fn has(id: Hid) -> bool {
    any() && files().is_some_and(|files| files.iter().any(|open| open.id == id))
}

/// To be called after the file `id`, or all files, were closed. `reader` is what the program's HDF5 can read.
pub(crate) fn closed(id: Option<Hid>, reader: Reader) {
    let (Some(mut files), Some(run)) = (files(), run()) else { return };
    let (gone, kept) = std::mem::take(&mut *files).into_iter().partition(|open| id.is_none_or(|id| id == open.id));
    *files = kept;
    COUNT.store(files.len(), Ordering::Relaxed);
    drop(files);
    let gone: Vec<Open> = gone;
    for Open { path, .. } in gone {
        let still_open = is_open(&path);
        run.tell(Event::Closed { path, still_open, reader });
    }
}

/// True if this process has the file at `path` open: HDF5 keeps it so while objects in it are.
fn is_open(path: &Path) -> bool {
    let Ok(wanted) = std::fs::metadata(path) else { return false };
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return true };
    entries
        .flatten()
        .filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .any(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
}
