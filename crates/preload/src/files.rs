//! The files that this process has open for writing and of which the launcher is told.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use knarr_capture::program::{Run, patient, run};
use knarr_capture::{Event, Writers};
use knarr_codec::codec::FilterSet;

use crate::host::Hid;
use crate::parallel::{Closing, Meeting, Together};

/// An open file.
struct Open {
    id: Hid,
    /// As the program calls it, which is what HDF5 tells of it.
    named: Vec<u8>,
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
    /// Number of its rule, if it is to be compressed as it is written.
    rule: Option<usize>,
    /// There is a file of this name. HDF5 may keep it in memory until it is closed, or in several others.
    exists: bool,
    /// The ranks that close it together, if they are on several nodes.
    together: Option<Together>,
}

static FILES: Mutex<Vec<Open>> = Mutex::new(Vec::new());
/// How many there are, and how many of them are compressed as they are written: most calls need to know no more.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static COMPRESSED: AtomicUsize = AtomicUsize::new(0);

/// Bytes by which the chunk caches of datasets in such files were enlarged for writes across the storage order. They are
/// given back when no such file is open.
static CACHES: AtomicU64 = AtomicU64::new(0);
const MOST_CACHES: u64 = 256 << 20;

fn count(files: &[Open]) {
    COUNT.store(files.len(), Ordering::Relaxed);
    let compressed = files.iter().filter(|open| open.rule.is_some()).count();
    COMPRESSED.store(compressed, Ordering::Relaxed);
    if compressed == 0 {
        CACHES.store(0, Ordering::Relaxed);
    }
}

/// Bytes that a chunk cache may take.
pub(crate) fn cache_left() -> u64 {
    MOST_CACHES.saturating_sub(CACHES.load(Ordering::Relaxed))
}

/// Notes that a chunk cache may take so many bytes.
pub(crate) fn cache_taken(bytes: u64) {
    const DEFAULT: u64 = 1 << 20;
    CACHES.fetch_add(bytes.saturating_sub(DEFAULT), Ordering::Relaxed);
}

/// The list. `None` if another thread does not let go of it, as in a child that was forked in that moment; the launcher
/// then learns from the process's open files what it is not told.
fn files() -> Option<MutexGuard<'static, Vec<Open>>> {
    patient(&FILES)
}

/// A file that is about to be opened for writing.
pub(crate) struct Opening {
    run: &'static Run,
    named: Vec<u8>,
    absolute: PathBuf,
    created: bool,
    /// Held while the file is opened.
    _gate: Option<File>,
}

/// To be called before the file with this name is opened for writing, or `created`.
pub(crate) fn opening(name: &[u8], created: bool) -> Option<Opening> {
    let run = run()?;
    let named = Path::new(OsStr::from_bytes(name));
    let may_concern = named.file_name().is_some_and(|last| run.rules().may_concern(&last.to_string_lossy()));
    if !may_concern && !named.is_symlink() {
        return None;
    }
    let absolute = std::path::absolute(named).ok()?;
    // A name that leads elsewhere is resolved first: rules are for files, and a new one has no other name yet.
    let path = std::fs::canonicalize(&absolute).unwrap_or_else(|_| absolute.clone());
    let (_, rule) = run.rules().told_of(&path)?;
    let gate = if rule.route.traits().may_be_replaced { run.gate() } else { None };
    Some(Opening { run, named: name.to_vec(), absolute, created, _gate: gate })
}

impl Opening {
    /// To be called after the file was opened as `id`, by ranks that have met, if any have: by these `writers`, or why no launcher
    /// can look after it.
    pub(crate) fn opened(self, id: Hid, meeting: Option<Meeting>, writers: Result<Writers, String>) {
        let found = std::fs::canonicalize(&self.absolute);
        let exists = found.is_ok();
        let path = found.unwrap_or(self.absolute);
        let Some((number, rule)) = self.run.rules().told_of(&path) else { return };
        let writers = match writers {
            Ok(writers) => writers,
            Err(why) => return self.run.tell(Event::Apart { path, why }),
        };
        let rule = (exists && rule.compresses_writes()).then_some(number);
        if exists {
            self.run.tell(Event::Opened { path: path.clone(), created: self.created, writers });
        }
        let together = meeting.and_then(Meeting::ends);
        if let Some(mut files) = files() {
            let identity = identity_of(&path);
            files.push(Open { id, named: self.named, path, identity, rule, exists, together });
            count(&files);
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

/// True if some file is compressed as it is written.
pub(crate) fn any_compressed() -> bool {
    COMPRESSED.load(Ordering::Relaxed) > 0
}

/// The file that the program calls `named` and the number of its rule, if it is compressed as it is written.
pub(crate) fn compressed(named: &[u8]) -> Option<(PathBuf, usize)> {
    let files = files()?;
    // The same name twice, from two directories, means the file opened last.
    files.iter().rev().find(|open| open.named == named).and_then(|open| Some((open.path.clone(), open.rule?)))
}

/// Device and inode of the file that the program calls `named`, also if it was opened under a name that no rule has.
pub(crate) fn identity(named: &[u8]) -> Option<(u64, u64)> {
    let known = files()?.iter().rev().find(|open| open.named == named).map(|open| open.identity);
    known.unwrap_or_else(|| identity_of(Path::new(OsStr::from_bytes(named))))
}

fn identity_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// To be called after the file `id`, or all files, were closed. `filters` are those that the program's HDF5 has. Collective for
/// a file that ranks on several nodes have opened together.
pub(crate) fn closed(id: Option<Hid>, filters: FilterSet) {
    let (Some(mut files), Some(run)) = (files(), run()) else { return };
    let (gone, kept) = std::mem::take(&mut *files).into_iter().partition(|open| id.is_none_or(|id| id == open.id));
    let (gone, kept): (Vec<Open>, Vec<Open>) = (gone, kept);
    let is_held = |open: &Open| kept.iter().any(|other| other.path == open.path);
    let gone: Vec<(bool, Open)> = gone.into_iter().map(|open| (is_held(&open), open)).collect();
    *files = kept;
    count(&files);
    drop(files);
    for (is_held, Open { path, exists, together, .. }) in gone {
        let still_open = exists && is_open(&path);
        let mine = if still_open && !is_held { Closing::Waits } else { Closing::Done };
        if together.is_some_and(|together| !is_whole(run, together, &path, mine)) {
            continue;
        }
        if !exists {
            if parts(&path).iter().any(|part| part.exists()) {
                run.tell(Event::InParts { path });
            }
            continue;
        }
        // The name may be gone as soon as the program goes on.
        let identity = identity_of(&path);
        run.tell(Event::Closed { path, still_open, filters, identity });
    }
}

/// To be called after HDF5 could not close the file `id`. It may be closed all the same, for example if the disk is full: then
/// other ranks wait for this one. Collective as [`closed`].
pub(crate) fn not_closed(id: Hid) {
    let (Some(mut files), Some(run)) = (files(), run()) else { return };
    let is_gone = |open: &Open| open.id == id && open.together.is_some() && !is_open(&open.path);
    let Some(at) = files.iter().position(is_gone) else { return };
    let Open { path, together, .. } = files.remove(at);
    count(&files);
    drop(files);
    if let Some(together) = together {
        is_whole(run, together, &path, Closing::Failed);
    }
}

/// True if all ranks have closed a file. Otherwise the launcher is told why it is not known to be whole. Collective.
fn is_whole(run: &Run, together: Together, path: &Path, mine: Closing) -> bool {
    match together.close(mine) {
        Ok(is_whole) => is_whole,
        Err(why) => {
            run.tell(Event::Apart { path: path.to_owned(), why });
            false
        }
    }
}

/// The first of the files in which HDF5 keeps one of this name, for its drivers `family` and `split`.
fn parts(path: &Path) -> [PathBuf; 2] {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let mut split = name.to_vec();
    split.extend_from_slice(b"-m.h5");
    // The number has a place as for `printf`: %d, or %05d.
    let mut family = name.to_vec();
    if let Some(begin) = name.iter().position(|&byte| byte == b'%') {
        let rest = name.get(begin + 1..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let width = std::str::from_utf8(rest.get(..digits).unwrap_or_default()).ok().and_then(|text| text.parse().ok());
        let end = name.len().min(begin + digits + 2);
        family.splice(begin..end, format!("{:0width$}", 0, width = width.unwrap_or(1).min(20)).into_bytes());
    }
    [family, split].map(|name| path.with_file_name(OsStr::from_bytes(&name)))
}

/// True if this process has the file at `path` open: HDF5 keeps it so while objects in it are.
pub(crate) fn is_open(path: &Path) -> bool {
    let Ok(wanted) = std::fs::metadata(path) else { return false };
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return true };
    entries
        .flatten()
        .filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .any(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
}

#[cfg(test)]
mod tests {
    use super::parts;
    use std::path::Path;

    #[test]
    fn files_in_parts_are_known_by_the_first_of_them() {
        for (name, first) in [("a_%d.h5", "a_0.h5"), ("a%03d", "a000"), ("a.h5", "a.h5"), ("100%", "1000")] {
            let [family, split] = parts(&Path::new("/d").join(name));
            assert_eq!(family, Path::new("/d").join(first));
            assert_eq!(split, Path::new("/d").join(format!("{name}-m.h5")));
        }
    }
}
