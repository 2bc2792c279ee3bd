//! The files that this process has open for writing and of which the launcher is told.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use knarr_capture::program::{Run, patient, run};
use knarr_capture::{Event, Writers};
use knarr_codec::codec::FilterSet;

use crate::host::Hid;
use crate::parallel::{Closing, Meeting, Together};

/// An open file.
struct Open {
    id: Hid,
    path: PathBuf,
    /// There is a file of this name. HDF5 may keep it in memory until it is closed, or in several others.
    exists: bool,
    /// The ranks that close it together, if they are on several nodes.
    together: Option<Together>,
}

static FILES: Mutex<Vec<Open>> = Mutex::new(Vec::new());
/// How many there are: most calls need to know no more.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn count(files: &[Open]) {
    COUNT.store(files.len(), Ordering::Relaxed);
}

/// The list. `None` if another thread does not let go of it, as in a child that was forked in that moment; the launcher
/// then learns from the process's open files what it is not told.
fn files() -> Option<MutexGuard<'static, Vec<Open>>> {
    patient(&FILES)
}

/// A file that is about to be opened for writing.
pub(crate) struct Opening {
    run: &'static Run,
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
    let gate = if rule.route().traits().may_be_replaced { run.gate() } else { None };
    Some(Opening { run, absolute, created, _gate: gate })
}

impl Opening {
    /// To be called after the file was opened as `id`, by ranks that have met, if any have: by these `writers`, or why no launcher
    /// can look after it.
    pub(crate) fn opened(self, id: Hid, meeting: Option<Meeting>, writers: Result<Writers, String>) {
        let found = std::fs::canonicalize(&self.absolute);
        let exists = found.is_ok();
        let path = found.unwrap_or(self.absolute);
        if self.run.rules().told_of(&path).is_none() {
            return;
        }
        let writers = match writers {
            Ok(writers) => writers,
            Err(why) => return self.run.notify(Event::Unwatched { path, why }),
        };
        if exists {
            self.run.notify(Event::Opened { path: path.clone(), created: self.created, writers });
        }
        let together = meeting.and_then(Meeting::ends);
        if let Some(mut files) = files() {
            files.push(Open { id, path, exists, together });
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

/// Device and inode of the file at `path`.
pub(crate) fn identity_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// The same of the file that has this descriptor, if any has. A hundred times as fast as by its name in `/proc`.
pub(crate) fn identity_by(descriptor: RawFd) -> Option<(u64, u64)> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call fails for a number that is no descriptor, and fills the structure otherwise.
    (unsafe { libc::fstat(descriptor, found.as_mut_ptr()) } == 0).then(|| {
        // SAFETY: it was filled.
        let found = unsafe { found.assume_init() };
        (found.st_dev, found.st_ino)
    })
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
                run.notify(Event::InParts { path });
            }
            continue;
        }
        // The name may be gone as soon as the program goes on.
        let identity = identity_of(&path);
        run.notify(Event::Closed { path, still_open, filters, identity });
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
            run.notify(Event::Unwatched { path: path.to_owned(), why });
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
    identity_of(path).is_some_and(has_open)
}

/// The same for the file with this device and inode.
pub(crate) fn has_open(identity: (u64, u64)) -> bool {
    /// Descriptors by which files were found. A program with many files open has each of them looked for at each call that opens or
    /// closes one.
    static FOUND: Mutex<BTreeMap<(u64, u64), RawFd>> = Mutex::new(BTreeMap::new());
    let is_it = |descriptor: &RawFd| identity_by(*descriptor) == Some(identity);
    // A thread that has it may be one that a `fork` has left behind.
    let mut found = FOUND.try_lock().ok();
    if found.as_ref().and_then(|found| found.get(&identity)).is_some_and(is_it) {
        return true;
    }
    let Some(descriptor) = newest(is_it) else { return true };
    if let Some(found) = &mut found {
        found.remove(&identity);
        found.extend(descriptor.map(|descriptor| (identity, descriptor)));
    }
    descriptor.is_some()
}

/// The newest descriptor of this process, as a rule, of those that are asked for. `None` if it cannot be told which there are.
fn newest(is_asked: impl Fn(&RawFd) -> bool) -> Option<Option<RawFd>> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<RawFd>().ok();
    let descriptors: Vec<RawFd> = entries.flatten().filter_map(number).collect();
    Some(descriptors.into_iter().rev().find(is_asked))
}

/// The descriptor by which this process has the file open for writing, with this device and inode. It was opened lately.
pub(crate) fn written_by(identity: (u64, u64)) -> Option<RawFd> {
    // SAFETY: the call fails for a number that is no descriptor.
    let flags = |descriptor: RawFd| unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    let writes = |flags: i32| flags >= 0 && flags & libc::O_ACCMODE == libc::O_RDWR;
    let is_it = |descriptor: &RawFd| identity_by(*descriptor) == Some(identity) && writes(flags(*descriptor));
    // New ones get the lowest numbers that are free, so it is near the next one: a program may have thousands.
    let next = File::open("/").map(|file| file.as_raw_fd()).ok()?;
    (next.saturating_sub(NEAR)..next).rev().find(is_it).or_else(|| newest(is_it).flatten())
}

/// Descriptors that may have been opened since.
const NEAR: RawFd = 16;

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
