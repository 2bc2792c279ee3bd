//! Names that are pending on other nodes.
//!
//! Nodes share a file system and no memory. Before its close returns, a rank that hands a file over therefore notes its name in a
//! directory that all nodes see. The launcher that has made the file removes the note. Calls that use a name which a rule may
//! concern look for the note. A name has at most one note: a rank waits if another node still makes an earlier version.
//!
//! The directory is opened before a note is looked for: a network file system then revalidates what it has cached
//! (close-to-open), even that there was no such note.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, openat, readlinkat_raw, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::thread::{Timespec, nanosleep};

use crate::key::Key;
use crate::note::{Line, Note, name_for, name_of};
use crate::page::waiter::{Call, Over, Waiting, now};
use crate::page::{HAS_LOCKS, HAS_STORES, Page};

/// What the names of files begin with that launchers hold locked.
pub const LAUNCHER: &str = "launcher-";
/// Between two looks at a note, at least and at most. Nanoseconds.
const SHORTEST: u64 = 1_000_000;
const LONGEST: u64 = 500_000_000;
/// A call to the system that fails may succeed the next time.
const ATTEMPTS: usize = 3;

/// What a launcher says about other nodes when it makes the page.
#[derive(Debug, Clone, Copy)]
pub struct OtherNodes<'a> {
    /// The directory in which all launchers of the run leave notes.
    pub directory: &'a Path,
    /// By what others know this launcher: it holds the file of this name behind [`LAUNCHER`] locked there.
    pub launcher: &'a str,
    /// What the names of files end with that may be pending.
    pub tails: &'a [String],
    /// Names of directories may be pending.
    pub has_stores: bool,
    /// A lock that a process holds is seen on other nodes.
    pub has_locks: bool,
}

/// What is to do with other nodes.
pub struct Notes {
    page: &'static Page,
    directory: CString,
    launcher: Line,
    tails: Vec<Vec<u8>>,
    has_stores: bool,
    has_locks: bool,
    /// Locked by processes of this node that change notes.
    lock: CString,
}

/// What waiting for a file of another node led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Came {
    /// As for files of this node.
    pub over: Over,
    /// Another file has the name, which is older.
    pub replaces: bool,
}

enum Lives {
    /// With a number that changes as long as it gets on.
    Yes(i128),
    No,
}

impl Notes {
    /// Those of the run whose page is the file at `path`; `None` if it has one node.
    pub(crate) fn of(page: &'static Page, path: &CStr) -> Option<Self> {
        let directory = page.other_nodes.directory.get();
        if directory.is_empty() {
            return None;
        }
        let traits = page.other_nodes.traits.load(Ordering::Relaxed);
        Some(Self {
            page,
            directory: CString::new(directory).ok()?,
            launcher: Line::new().and(&page.other_nodes.launcher.get()),
            tails: page.other_nodes.tails.get().split(|&byte| byte == b'/').map(<[u8]>::to_vec).collect(),
            has_stores: traits & HAS_STORES != 0,
            has_locks: traits & HAS_LOCKS != 0,
            lock: CString::new([path.to_bytes(), b".lock"].concat()).ok()?,
        })
    }

    /// False if no file whose name has this last component can be pending.
    pub fn concerns(&self, last: &[u8]) -> bool {
        self.tails.iter().any(|tail| last.ends_with(tail))
    }

    /// True if names of directories may be pending.
    pub fn has_stores(&self) -> bool {
        self.has_stores
    }

    fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        again(|| openat(CWD, self.directory.as_c_str(), flags, Mode::empty()))
    }

    /// The note about a name, if another launcher makes the file.
    ///
    /// # Errors
    /// Nobody knows whether the name is pending.
    pub fn find(&self, key: &Key<'_>) -> Result<Option<Note>, Errno> {
        let place = match self.open() {
            // No launcher is left; or the process has become another user's.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(None),
            opened => opened?,
        };
        Ok(read(place.as_fd(), name_for(key).text())?.filter(|note| !self.is_mine(note)))
    }

    fn is_mine(&self, note: &Note) -> bool {
        note.launcher.bytes() == self.launcher.bytes()
    }

    /// Waits until another node has made the file that it makes now of this name.
    ///
    /// # Errors
    /// Nobody knows whether the name is pending.
    pub fn settle(&self, key: &Key<'_>, call: Call) -> Result<Came, Errno> {
        let Some(note) = self.find(key)? else { return Ok(Came { over: Over::Free, replaces: false }) };
        let replaces = note.replaces;
        if note.is_failed {
            return Ok(Came { over: Over::Failed, replaces });
        }
        let waiting = Waiting::begin(&self.page.waiters, call, key.last, b"");
        self.page.ring();
        let over = self.wait(key, &note, &waiting);
        waiting.end();
        self.page.ring();
        Ok(Came { over: over?, replaces })
    }

    fn wait(&self, key: &Key<'_>, first: &Note, waiting: &Waiting<'_>) -> Result<Over, Errno> {
        let limit = u64::from(self.page.head.limit.load(Ordering::Relaxed)) * 1_000_000;
        let begin = now();
        let (mut beat, mut since) = (None, begin);
        loop {
            let lives = self.lives(first)?;
            // It takes its notes away before it goes.
            match self.find(key)?.filter(|note| note.is_of(first)) {
                None => return Ok(Over::Free),
                Some(note) if note.is_failed => return Ok(Over::Failed),
                Some(_) => {}
            }
            let Lives::Yes(latest) = lives else { return Ok(Over::Gone) };
            let time = now();
            if beat != Some(latest) {
                (beat, since) = (Some(latest), time);
            }
            if time.saturating_sub(since) > limit {
                return Ok(Over::Gone);
            }
            // The longer it takes, the less often is looked: all that wait do so on one file system.
            let sleep = (time.saturating_sub(begin) / 8).clamp(SHORTEST, LONGEST);
            let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: sleep as _ });
            waiting.goes_on();
        }
    }

    /// Whether the launcher lives that has left a note.
    fn lives(&self, note: &Note) -> Result<Lives, Errno> {
        let place = match self.open() {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Lives::No),
            opened => opened?,
        };
        let name = Line::new().and(LAUNCHER.as_bytes()).and(note.launcher.bytes());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match again(|| openat(&place, name.text(), flags, Mode::empty())) {
            Err(Errno::NOENT) => return Ok(Lives::No),
            opened => opened?,
        };
        if self.has_locks && again(|| flock(&file, FlockOperation::NonBlockingLockShared)).is_ok() {
            return Ok(Lives::No);
        }
        let found = again(|| fstat(&file))?;
        #[allow(clippy::unnecessary_cast, reason = "the types depend on the system")]
        Ok(Lives::Yes(i128::from(found.st_mtime as i64) * 1_000_000_000 + found.st_mtime_nsec as i128))
    }

    /// Something else has the name: what another node could not make of it does not matter any more.
    pub fn forget(&self, key: &Key<'_>) {
        if let (Ok(place), Ok(Some(_))) = (self.open(), self.find(key)) {
            let _ = again(|| unlinkat(&place, name_for(key).text(), AtFlags::empty()));
        }
    }

    /// Notes that a name is pending which was entered as this generation. Waits for what another node makes of the name;
    /// unless `may_wait`, the note of that node stays.
    ///
    /// # Errors
    /// The name is not noted: other nodes do not wait for it.
    pub fn notify(&self, key: &Key<'_>, replaces: bool, generation: u64, may_wait: bool) -> Result<(), Errno> {
        let note = Note { is_failed: false, replaces, generation, launcher: self.launcher.clone() };
        let name = name_for(key);
        loop {
            let place = self.open()?;
            let lock = self.lock()?;
            match again(|| symlinkat(note.line().text(), &place, name.text())) {
                Err(Errno::EXIST) => {}
                made => return made,
            }
            match read(place.as_fd(), name.text())? {
                // It was taken away at this moment.
                None => continue,
                // An earlier version is under way.
                Some(there) if self.is_mine(&there) && !there.is_failed => return Ok(()),
                Some(there) if self.is_mine(&there) => {
                    again(|| unlinkat(&place, name.text(), AtFlags::empty()))?;
                    continue;
                }
                Some(_) if !may_wait => return Ok(()),
                Some(_) => {}
            }
            drop(lock);
            if self.settle(key, Call::Create)?.over != Over::Free {
                self.forget(key);
            }
        }
    }

    /// Something became of a pending name: its note goes, or says what is under way yet, or that the file `has_failed`.
    ///
    /// # Errors
    /// It stays as it is.
    pub(crate) fn untell(&self, (number, hash): (u64, u64), has_failed: bool) -> Result<(), Errno> {
        let place = match self.open() {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            opened => opened?,
        };
        let name = name_of(number, hash);
        // Without the lock a note may go that was left at this moment.
        let _lock = self.lock();
        let Some(there) = read(place.as_fd(), name.text())?.filter(|note| self.is_mine(note)) else { return Ok(()) };
        let next = match self.page.oldest(number, hash) {
            Some((generation, _)) if generation == there.generation => return Ok(()),
            Some((generation, replaces)) => Note { is_failed: false, replaces, generation, ..there },
            None if has_failed => Note { is_failed: true, ..there },
            None => return again(|| unlinkat(&place, name.text(), AtFlags::empty())),
        };
        let new = Line::new().and(b"new-").and(self.launcher.bytes());
        let made = again(|| symlinkat(next.line().text(), &place, new.text()));
        made.and_then(|()| again(|| renameat(&place, new.text(), &place, name.text()))).inspect_err(|_| {
            let _ = again(|| unlinkat(&place, new.text(), AtFlags::empty()));
        })
    }

    fn lock(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = again(|| openat(CWD, self.lock.as_c_str(), flags, Mode::RUSR | Mode::WUSR))?;
        again(|| flock(&file, FlockOperation::LockExclusive))?;
        Ok(file)
    }
}

/// The note of this name; `None` if there is none.
fn read(place: BorrowedFd<'_>, name: &CStr) -> Result<Option<Note>, Errno> {
    let mut room = [0; 128];
    match again(|| readlinkat_raw(place, name, &mut room)) {
        Err(Errno::NOENT | Errno::INVAL) => Ok(None),
        read => Ok(Note::read(room.get(..read?).unwrap_or_default())),
    }
}

/// What a call returns, which is made again if it fails for a reason that may pass.
fn again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut attempt = 1;
    loop {
        match call() {
            Err(error) if attempt < ATTEMPTS && may_pass(error) => attempt += 1,
            // A handler of a signal may run as often as it likes.
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

fn may_pass(error: Errno) -> bool {
    !matches!(
        error,
        Errno::INTR | Errno::NOENT | Errno::EXIST | Errno::INVAL | Errno::NOTDIR | Errno::ACCESS | Errno::AGAIN
    )
}
