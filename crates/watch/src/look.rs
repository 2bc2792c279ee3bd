//! Looks for restart files in a directory, and waits until looking again is worth it.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use knarr_array::error::{Error, Result};
use knarr_checkpoint::pattern::{Named, Pattern};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use super::steps::{Found, State};
use super::times::{FileTime, file_time, now};
use knarr_capture::processes::Identity;

/// A directory in which restart files come.
pub struct Directory {
    path: PathBuf,
    pattern: Pattern,
    /// Where sets are written: not looked into.
    sets: PathBuf,
    /// Tells that something happened; `None` where the kernel has no more watches to give.
    events: Option<OwnedFd>,
    /// The directories that are watched, by what events call them.
    watched: RefCell<HashMap<i32, PathBuf>>,
    /// Files that a process of this machine closed after writing, or gave their names.
    closed: RefCell<HashSet<PathBuf>>,
    /// Whether the directory may be made later.
    may_come: bool,
    /// Files that are not to be found as long as they are so.
    passed_over: HashMap<PathBuf, State>,
    /// When looking began, by the clock of this machine.
    since: FileTime,
    /// Of the files that the pattern names, those that count.
    counts: Box<dyn Fn(&Path) -> bool + Send>,
}

/// What ended a wait.
#[derive(PartialEq, Eq)]
enum Polled {
    /// The kernel has something to tell.
    Events,
    /// Something else, or nothing.
    Nothing,
}

/// What was told.
#[derive(Default)]
struct Heard {
    /// Of any file, or of a directory that came or went.
    any: bool,
    /// That a file was closed that was open for writing.
    closed: bool,
}

impl Directory {
    /// The directory `path`, which has to be there.
    ///
    /// # Errors
    /// `NotFound` or `Read` if it is no directory that can be read.
    pub fn open(path: &Path, pattern: Pattern, sets: &Path) -> Result<Self> {
        readable(path)?;
        Ok(Self { may_come: false, ..Self::expected(path, pattern, sets, Box::new(|_| true))? })
    }

    /// The directory `path`, which may come later. Of the files that the pattern names only those are found that `counts`
    /// does not refuse.
    ///
    /// # Errors
    /// `NotFound` or `Read` if `sets` is not there.
    pub fn expected(
        path: &Path,
        pattern: Pattern,
        sets: &Path,
        counts: Box<dyn Fn(&Path) -> bool + Send>,
    ) -> Result<Self> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let sets = std::fs::canonicalize(sets).map_err(|error| Error::read(sets, &error))?;
        let (path, events, passed_over) = (path.to_owned(), inotify::init(flags).ok(), HashMap::new());
        let (watched, closed) = Default::default();
        let since = now();
        Ok(Self { path, pattern, sets, events, watched, closed, may_come: true, passed_over, since, counts })
    }

    /// From now on finds no file that is there already, unless it is written again. Returns the steps of these files.
    ///
    /// # Errors
    /// As for [`Directory::look`].
    pub fn pass_over(&mut self) -> Result<BTreeSet<u64>> {
        let found = self.look()?;
        self.passed_over = found.iter().map(|file| (file.path.clone(), file.state)).collect();
        Ok(found.iter().map(|file| file.step).collect())
    }

    /// Name of a restart file below the directory.
    pub(crate) fn name<'a>(&self, path: &'a Path) -> &'a [u8] {
        path.strip_prefix(&self.path).unwrap_or(path).as_os_str().as_bytes()
    }

    /// All restart files that are there, in the order of their names.
    ///
    /// # Errors
    /// `NotFound` or `Read` if the directory cannot be read any more.
    pub(crate) fn look(&self) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        match self.look_in(&self.path, self.pattern.depth(), &mut found) {
            Err(error) if self.may_come && error.kind() == std::io::ErrorKind::NotFound => {
                // The nearest directory that is there tells when the next one is made.
                if let Some(near) = self.path.ancestors().skip(1).find(|ancestor| ancestor.is_dir()) {
                    self.watch(near);
                }
            }
            looked => looked.map_err(|error| Error::read(&self.path, &error))?,
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn look_in(&self, directory: &Path, deeper: usize, found: &mut Vec<Found>) -> std::io::Result<()> {
        // Before it is read: what comes later is told.
        self.watch(directory);
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let path = entry.path();
            if deeper > 0 {
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_dir && std::fs::canonicalize(&path).is_ok_and(|path| path != self.sets) {
                    // What has gone meanwhile is seen by the next look.
                    let _ = self.look_in(&path, deeper - 1, found);
                }
                continue;
            }
            let named = self.pattern.parse(self.name(&path));
            // Where names tell no ranks there is one file in each step.
            let rank = |named: Named| if self.pattern.has_rank() { named.rank } else { Some(0) };
            let Some((step, rank)) = named.and_then(|named| Some((named.step?, rank(named)?))) else { continue };
            let Some(metadata) = entry.metadata().ok().filter(std::fs::Metadata::is_file) else { continue };
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            // A clock that runs ahead makes no file old.
            let age = SystemTime::now().duration_since(modified).unwrap_or_default();
            let state = State::of(&metadata);
            // What was there before may have been written more than once.
            let created = metadata.created().ok().map(file_time).filter(|created| *created >= self.since);
            if self.passed_over.get(&path) != Some(&state) && (self.counts)(&path) {
                found.push(Found { step, rank, path, state, age, created });
            }
        }
        Ok(())
    }

    fn watch(&self, directory: &Path) {
        use inotify::WatchFlags as Flags;
        // Opening, because a file that is there already may be written anew.
        let begin = Flags::CREATE | Flags::OPEN;
        let flags = begin | Flags::CLOSE_WRITE | Flags::MOVED_TO | Flags::MOVED_FROM | Flags::DELETE;
        if let Some(events) = &self.events {
            // A directory that is watched already stays so. Where it fails, looking now and then has to do.
            if let Ok(number) = inotify::add_watch(events, directory, flags | Flags::ONLYDIR) {
                self.watched.borrow_mut().insert(number, directory.to_owned());
            }
        }
    }

    /// Returns when something happened to the files, when `news` can be read, or after `most`.
    pub(super) fn wait(&self, news: impl AsFd, most: Duration) {
        let end = Instant::now() + most;
        while self.poll(Some(news.as_fd()), end) == Polled::Events && !self.read_events().any {}
    }

    /// Returns after `time`, or when `news` can be read. Meanwhile `closed` is called whenever a file was heard to be
    /// closed.
    pub(super) fn rest(&self, time: Duration, news: Option<BorrowedFd<'_>>, mut closed: impl FnMut()) {
        let end = Instant::now() + time;
        while self.poll(news, end) == Polled::Events {
            if self.read_events().closed {
                closed();
            }
        }
    }

    /// Waits for events until `end`, or until `news` can be read.
    fn poll(&self, news: Option<BorrowedFd<'_>>, end: Instant) -> Polled {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let (Ok(timeout), false) = (Timespec::try_from(left), left.is_zero()) else { return Polled::Nothing };
            let both = news.iter().copied().chain(self.events.iter().map(AsFd::as_fd));
            let mut both: Vec<PollFd<'_>> = both.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            // A signal ends a wait too early.
            if poll(&mut both, Some(&timeout)).is_ok_and(|ready| ready > 0) {
                let is_news = news.is_some() && both.first().is_some_and(|news| !news.revents().is_empty());
                return if is_news { Polled::Nothing } else { Polled::Events };
            }
        }
    }

    /// Takes note of what the kernel tells. What is there is seen by looking; but only events say who closed a file.
    fn read_events(&self) -> Heard {
        use inotify::ReadFlags as Read;
        let mut heard = Heard::default();
        let Some(events) = &self.events else { return heard };
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let mut events = inotify::Reader::new(events, &mut buffer);
        let (watched, mut closed) = (self.watched.borrow(), self.closed.borrow_mut());
        while let Ok(event) = events.next() {
            let of = event.events();
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
            let path = watched.get(&event.wd()).zip(name).map(|(directory, name)| directory.join(name));
            // Directories are opened by looking, and other files by whatever the program reads.
            let is_restart_file = |path: &PathBuf| self.pattern.parse(self.name(path)).is_some();
            let is_news = !of.contains(Read::OPEN) || path.as_ref().is_some_and(is_restart_file);
            heard.any |= is_news && !of.contains(Read::OPEN | Read::ISDIR);
            heard.closed |= of.contains(Read::CLOSE_WRITE);
            let Some(path) = path else { continue };
            if of.intersects(Read::CLOSE_WRITE | Read::MOVED_TO) {
                closed.insert(path);
            } else if of.intersects(Read::CREATE | Read::DELETE | Read::MOVED_FROM) {
                closed.remove(&path);
            }
        }
        heard
    }

    /// True if nobody but processes of this machine can have written the file, or one of them was heard to close it.
    pub(super) fn is_of_this_machine(&self, file: &Path) -> bool {
        self.read_events();
        self.closed.borrow().contains(file) || is_local(file)
    }
}

/// True for files on a file system that no other machine has.
fn is_local(file: &Path) -> bool {
    /// ext2 to ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS, bcachefs, JFS, exFAT, as `linux/magic.h` has them.
    const LOCAL: [u64; 10] = [
        0xEF53,
        0x5846_5342,
        0x9123_683E,
        0x0102_1994,
        0x794C_7630,
        0x2FC1_2FC1,
        0xF2F5_2010,
        0xCA45_1A4E,
        0x3153_464A,
        0x2011_BAB0,
    ];
    // Negative where the number is that of a 32-bit machine.
    let kind = |found: rustix::fs::StatFs| u64::try_from(found.f_type).ok();
    rustix::fs::statfs(file).ok().and_then(kind).is_some_and(|kind| LOCAL.contains(&kind))
}

/// Refuses what is no directory that can be read.
///
/// # Errors
/// `NotFound` or `Read`.
pub fn readable(path: &Path) -> Result<()> {
    let read = std::fs::read_dir(path).map(drop);
    read.map_err(|error| Error::read(path, &error).hint("name a directory that exists"))
}

impl State {
    /// Of what was looked at.
    pub(crate) fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            identity: Identity::of(metadata),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// True if a process of this machine has one of the files open for writing.
pub fn are_written<'a>(files: impl Iterator<Item = &'a State>) -> bool {
    let files: HashSet<Identity> = files.map(|state| state.identity).collect();
    knarr_capture::processes::writer_of_any(&files).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_closed_while_nothing_is_done_is_heard_of_at_once() {
        let folder = std::env::temp_dir().join(format!("knarr-look-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sets")).unwrap();
        let pattern: Pattern = "r{step}".parse().unwrap();
        let directory = Directory::expected(&folder, pattern, &folder.join("sets"), Box::new(|_| true)).unwrap();
        assert!(directory.look().unwrap().is_empty());
        let path = folder.join("r1");
        let mut file = Some(std::fs::File::create(&path).unwrap());
        let mut heard = 0;
        directory.rest(Duration::from_millis(50), None, || heard += 1);
        assert_eq!(heard, 0, "it is open");
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(file.take());
        });
        directory.rest(Duration::from_millis(500), None, || heard += 1);
        writer.join().unwrap();
        assert_eq!((heard, directory.look().unwrap().len()), (1, 1));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
