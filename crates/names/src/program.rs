//! What a process of the program does with names.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat, rename};
use rustix::io::Errno;
use rustix::thread::futex::{Flags, Timespec, wait};

use crate::elsewhere::Notes;
use crate::entry::{Entry, Kind, Place, State, process, same_use, state_of, with_state};
use crate::key::{Directory, Key};
use crate::map;
use crate::page::Page;
use crate::waiter::{Call, Over, Waiting, now};

/// How long a call sleeps before it looks whether the launcher lives. Milliseconds.
const LOOK_EVERY: u64 = 100;

/// The page, and where it lies.
pub struct Names {
    page: &'static Page,
    /// Its file, which the launcher holds locked as long as it lives. It lies in the spool.
    path: CString,
    notes: Option<Notes>,
}

/// That of this process.
static HERE: OnceLock<Names> = OnceLock::new();

/// Takes part in the names of a run, whose page is the file at `path`. Without one, no name is pending.
pub fn attach(path: &Path) {
    // A link in the directory of the run leads to it.
    let path = std::fs::canonicalize(path).ok();
    let path = path.and_then(|path| CString::new(path.into_os_string().into_encoded_bytes()).ok());
    let names = path.and_then(Names::open);
    if let Some(names) = names {
        let _ = HERE.set(names);
    }
}

/// The names of the run that this process takes part in.
#[inline]
pub fn here() -> Option<&'static Names> {
    HERE.get()
}

/// A pending name.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    at: usize,
    word: u32,
}

impl Names {
    pub(crate) fn of(page: &'static Page, path: CString) -> Self {
        let notes = Notes::of(page, &path);
        Self { page, path, notes }
    }

    fn open(path: CString) -> Option<Self> {
        let file = openat(CWD, path.as_c_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let page = map::open(std::os::fd::AsFd::as_fd(&file)).ok()?;
        Some(Self::of(page, path))
    }

    /// True if some name is pending.
    #[inline]
    pub fn any(&self) -> bool {
        self.page.head.pending.load(Ordering::Acquire) != 0
    }

    /// What is to do with other nodes; `None` if the run has one.
    #[inline]
    pub fn notes(&self) -> Option<&Notes> {
        self.notes.as_ref()
    }

    /// True if files come from other components or go to some.
    #[inline]
    pub fn has_transfers(&self) -> bool {
        self.page.head.transfers.load(Ordering::Relaxed) != 0
    }

    /// True if a pending name replaces a file.
    pub fn any_replaces(&self) -> bool {
        self.page.head.replacing.load(Ordering::Acquire) != 0
    }

    /// True if a pending name will be that of a directory.
    pub fn any_is_directory(&self) -> bool {
        self.page.head.directories.load(Ordering::Acquire) != 0
    }

    /// False if no name with this last component is pending.
    pub fn may_have(&self, last: &[u8]) -> bool {
        self.page.filter.may_have(crate::filter::hash(last))
    }

    /// The number of the generation that was handed over last.
    pub fn generation(&self) -> u64 {
        self.page.head.generation.load(Ordering::Acquire)
    }

    /// Enters the name of a file that is handed over, before it is. Returns the number of its generation. Waits for room as long
    /// as the launcher lives; `None` if it does not.
    pub fn enter(&self, key: &Key<'_>, place: Place<'_>, kind: Kind) -> Option<u64> {
        // What is handed over now counts in place of what could not be made.
        while let Some(failed) = self.find_state(|state| state == State::Failed, key, u64::MAX) {
            self.forget(failed);
        }
        loop {
            let room = self.page.head.room.load(Ordering::Acquire);
            if let Some(generation) = self.page.enter(key, place, kind) {
                return Some(generation);
            }
            if self.is_launcher_gone() {
                return None;
            }
            let _ = wait(&self.page.head.room, Flags::empty(), room, Some(&sleep()));
        }
    }

    /// The pending file of this name, of generations up to `last`.
    pub fn find(&self, key: &Key<'_>, last: u64) -> Option<Found> {
        self.find_state(State::is_pending, key, last)
    }

    fn find_state(&self, is_wanted: impl Fn(State) -> bool, key: &Key<'_>, last: u64) -> Option<Found> {
        self.first(|entry, word| {
            is_wanted(state_of(word)) && entry.is_for(key) && entry.generation.load(Ordering::Relaxed) <= last
        })
    }

    /// The first file up to generation `last` that is under way in a directory, or in any.
    pub fn find_in(&self, directory: Option<Directory>, last: u64) -> Option<Found> {
        self.first(|entry, word| {
            state_of(word).is_under_way()
                && directory.is_none_or(|directory| entry.is_in(directory))
                && entry.generation.load(Ordering::Relaxed) <= last
        })
    }

    fn first(&self, is_it: impl Fn(&Entry, u32) -> bool) -> Option<Found> {
        self.page.used().iter().enumerate().find_map(|(at, entry)| {
            let word = entry.word.load(Ordering::Acquire);
            // What was read is of this use if the word is the same afterwards.
            let is_found = is_it(entry, word) && same_use(entry.word.load(Ordering::Acquire), word);
            is_found.then_some(Found { at, word })
        })
    }

    /// Waits until nothing is pending under a name that was handed over by now.
    pub fn settle(&self, key: &Key<'_>, call: Call) -> Over {
        let last = self.generation();
        while let Some(found) = self.find(key, last) {
            match self.wait(found, call) {
                Over::Free => {}
                over => return over,
            }
        }
        Over::Free
    }

    /// Waits until nothing is under way in a directory, or in any, that was handed over by now.
    pub fn settle_in(&self, directory: Option<Directory>) -> Over {
        let last = self.generation();
        while let Some(found) = self.find_in(directory, last) {
            if self.wait(found, Call::List) == Over::Gone {
                return Over::Gone;
            }
        }
        Over::Free
    }

    /// Waits for a pending file.
    pub fn wait(&self, found: Found, call: Call) -> Over {
        let Some(entry) = self.page.entries.get(found.at) else { return Over::Free };
        let state = |word| if same_use(word, found.word) { state_of(word) } else { State::Free };
        match state(entry.word.load(Ordering::Acquire)) {
            State::Failed => return Over::Failed,
            state if !state.is_under_way() => return Over::Free,
            _ => {}
        }
        let waiting =
            entry.last.with(|last| entry.place.with(|place| Waiting::begin(&self.page.waiters, call, last, place)));
        self.page.ring();
        let head = &self.page.head;
        let limit = u64::from(head.limit.load(Ordering::Relaxed)) * 1_000_000;
        let (mut beat, mut since) = (head.beat.load(Ordering::Acquire), now());
        let over = loop {
            let word = entry.word.load(Ordering::Acquire);
            match state(word) {
                State::Failed => break Over::Failed,
                state if !state.is_under_way() => break Over::Free,
                _ => {}
            }
            // It ends early if a signal came, whose handler has run. The call does not fail by that.
            let _ = wait(&entry.word, Flags::empty(), word, Some(&sleep()));
            if entry.word.load(Ordering::Acquire) != word {
                continue;
            }
            waiting.goes_on();
            let latest = head.beat.load(Ordering::Acquire);
            if latest != beat {
                (beat, since) = (latest, now());
            }
            if now().saturating_sub(since) > limit || self.is_launcher_gone() {
                break Over::Gone;
            }
        };
        waiting.end();
        self.page.ring();
        over
    }

    /// Keeps the launcher from beginning a pending file, for a call by which the program gives it up if it succeeds. `None` if
    /// the file may not be given up, or if it is too late.
    pub fn hold(&self, found: Found) -> Option<Hold<'_>> {
        let entry = self.page.entries.get(found.at)?;
        let may_be = state_of(found.word) == State::Closed && entry.kind().may_be_given_up;
        if !may_be || !entry.exchange(found.word, State::Held) {
            return None;
        }
        entry.owner.store(process(), Ordering::Relaxed);
        Some(Hold { names: self, entry, word: with_state(found.word, State::Held) })
    }

    /// True if a pending file will replace another one.
    pub fn replaces(&self, found: Found) -> bool {
        self.page.entries.get(found.at).is_some_and(|entry| entry.kind().replaces)
    }

    /// Forgets that a file could not be made.
    pub fn forget(&self, found: Found) {
        if let Some(entry) = self.page.entries.get(found.at).filter(|_| state_of(found.word) == State::Failed) {
            let name = entry.name();
            self.page.leave(entry, found.word, State::Free);
            self.untell(name);
        }
    }

    fn untell(&self, name: (u64, u64)) {
        if let Some(notes) = &self.notes {
            // The launcher that goes takes it along.
            let _ = notes.untell(name, false);
        }
    }

    /// Takes back what was entered for a directory in the spool that is not handed over after all.
    pub fn withdraw(&self, place: Place<'_>) {
        for entry in self.page.used().iter().filter(|entry| entry.place.is(place.bytes())) {
            let word = entry.word.load(Ordering::Acquire);
            if state_of(word) == State::Closed && entry.place.is(place.bytes()) {
                let name = entry.name();
                self.page.leave(entry, word, State::Free);
                self.untell(name);
            }
        }
    }

    /// True if the launcher has ended or was killed. False if nobody can tell: this process may have too many files open.
    pub fn is_launcher_gone(&self) -> bool {
        let path: &CStr = &self.path;
        match openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_ok(),
            Err(error) => error == Errno::NOENT,
        }
    }
}

/// A pending file that the launcher does not begin.
pub struct Hold<'n> {
    names: &'n Names,
    entry: &'n Entry,
    word: u32,
}

impl Hold<'_> {
    /// Nothing will be made of the file. `record` is the file in its directory that says that it is handed over; it gets the name
    /// `given_up`, so that nobody makes the file either if the launcher is killed.
    pub fn give_up(self, record: &str, given_up: &str) {
        let Self { names, entry, word } = self;
        let spool = names.path.to_bytes();
        let spool = spool.iter().rposition(|&byte| byte == b'/').and_then(|end| spool.get(..end)).unwrap_or_default();
        entry.place.with(|place| {
            let paths = [record, given_up].map(|name| joined([spool, place, name.as_bytes()]));
            if let [Some(old), Some(new)] = &paths
                && let (Ok(old), Ok(new)) = (CStr::from_bytes_until_nul(old), CStr::from_bytes_until_nul(new))
            {
                // The launcher may have moved the directory out of memory. It looks at the page, too.
                let _ = rename(old, new);
            }
        });
        entry.owner.store(0, Ordering::Relaxed);
        names.page.leave(entry, word, State::GivenUp);
        names.page.ring();
    }

    /// The file stays pending.
    pub fn keep(self) {
        self.entry.owner.store(0, Ordering::Relaxed);
        self.entry.exchange(self.word, State::Closed);
        self.entry.wake();
        self.names.page.ring();
    }
}

/// A path of these parts, with a zero behind it. `None` if it is longer than that of a spool is.
fn joined(parts: [&[u8]; 3]) -> Option<[u8; 512]> {
    let mut path = [0; 512];
    let mut length = 0;
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            *path.get_mut(length)? = b'/';
            length += 1;
        }
        // The last byte stays zero.
        path.get_mut(length..511)?.get_mut(..part.len())?.copy_from_slice(part);
        length += part.len();
    }
    Some(path)
}

fn sleep() -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: (LOOK_EVERY * 1_000_000) as _ }
}
