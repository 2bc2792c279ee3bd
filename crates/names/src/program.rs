//! What a process of the program does with names.

use std::ffi::{CStr, CString};
use std::path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat, rename};
use rustix::io::Errno;
use rustix::thread::futex::{Flags, Timespec, wait};

use crate::key::{Directory, Key};
use crate::lock::Lock;
use crate::other_nodes::Notes;
use crate::page::Page;
use crate::page::entry::{Entry, Kind, SpoolName, State, process, same_use, state_of, with_state};
use crate::page::map;
use crate::page::waiter::{Call, Over, Waiting, now};
use crate::path::Path;

/// How long a call sleeps before it looks whether the launcher lives. Milliseconds.
const LOOK_EVERY: u64 = 100;

/// The directory beside the page with links to files that are in tiers.
pub const STAGED: &str = "staged";

/// The page, and where it lies.
pub struct Names {
    pub(crate) page: &'static Page,
    /// Its file, which the launcher holds locked as long as it lives. It lies in the spool.
    pub(crate) path: CString,
    notes: Option<Notes>,
}

/// That of this process.
static HERE: OnceLock<Names> = OnceLock::new();

/// Takes part in the names of a run, whose page is the file at `path`. Without one, no name is pending.
pub fn attach(path: &path::Path) {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub(crate) at: usize,
    pub(crate) word: u32,
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
        self.page.filter.may_have(crate::page::filter::hash(last))
    }

    /// The number of the generation that was handed over last.
    pub fn generation(&self) -> u64 {
        self.page.head.generation.load(Ordering::Acquire)
    }

    /// Enters the name of a file that is handed over, before it is. Returns the number of its generation. Waits for room as long
    /// as the launcher lives; `None` if it does not.
    pub fn enter(&self, key: &Key<'_>, place: SpoolName<'_>, kind: Kind) -> Option<u64> {
        // What is handed over now counts in place of what could not be made.
        while let Some(failed) = self.find_state(|state| state == State::Failed, key, u64::MAX) {
            self.forget(failed);
        }
        loop {
            let room = self.page.head.room.load(Ordering::Acquire);
            if let Some(generation) = self.page.enter(key, place, kind, State::Closed) {
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

    /// The first file up to generation `last` that is under way in a directory, or in any; of those that the program itself has
    /// written in tiers only `with_whole`.
    pub fn find_in(&self, directory: Option<Directory>, with_whole: bool, last: u64) -> Option<Found> {
        self.first(|entry, word| {
            state_of(word).is_under_way()
                && (with_whole || !entry.kind().is_whole)
                && directory.is_none_or(|directory| entry.is_in(directory))
                && entry.generation.load(Ordering::Relaxed) <= last
        })
    }

    pub(crate) fn first(&self, is_it: impl Fn(&Entry, u32) -> bool) -> Option<Found> {
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
            match self.wait(found, call, false) {
                Over::Free => {}
                over => return over,
            }
        }
        Over::Free
    }

    /// Waits until nothing is under way in a directory, or in any, that was handed over by now; for what the program itself has written
    /// in tiers only `with_whole`.
    pub fn settle_in(&self, directory: Option<Directory>, with_whole: bool) -> Over {
        let last = self.generation();
        while let Some(found) = self.find_in(directory, with_whole, last) {
            if self.wait(found, Call::List, false) == Over::Gone {
                return Over::Gone;
            }
        }
        Over::Free
    }

    /// True if no version of the file up to generation `last` is newer than the pending one.
    pub fn is_newest(&self, found: Found, key: &Key<'_>, last: u64) -> bool {
        let Some(entry) = self.page.entries.get(found.at) else { return false };
        let own = entry.generation.load(Ordering::Relaxed);
        let is_newer = |entry: &Entry, word| {
            let generation = entry.generation.load(Ordering::Relaxed);
            state_of(word).is_under_way() && entry.is_for(key) && own < generation && generation <= last
        };
        self.first(is_newer).is_none()
    }

    /// The link to the file in a tier that is known by `place`.
    pub(crate) fn staged_link(&self, place: &[u8]) -> Option<Path> {
        Path::of(&[self.spool()?, STAGED.as_bytes(), b"/", place])
    }

    /// The spool, with a slash behind it.
    pub(crate) fn spool(&self) -> Option<&[u8]> {
        let path = self.path.to_bytes();
        path.iter().rposition(|&byte| byte == b'/').and_then(|end| path.get(..=end))
    }

    /// The directory of a file: in the spool, or beside the file in the tier in which the program writes it.
    fn directory_of(&self, place: &[u8], is_whole: bool) -> Option<Path> {
        if !is_whole {
            return Path::of(&[self.spool()?, place]);
        }
        let file = Path::read_link(&self.staged_link(place)?)?;
        let end = file.bytes().iter().rposition(|&byte| byte == b'/')?;
        Path::of(&[file.bytes().get(..=end)?, place])
    }

    /// Where a pending file can be read that is whole in a tier; `None` if it is in its place by now.
    pub fn staged(&self, found: Found) -> Option<Path> {
        let entry = self.page.entries.get(found.at)?;
        let link = entry.place.with(|place| self.staged_link(place))?;
        let path = Path::read_link(&link)?;
        // Another file may be pending there by now.
        same_use(entry.word.load(Ordering::Acquire), found.word).then_some(path)
    }

    /// Waits for a pending file. Whoever only `reads` it waits no longer than until it can be read in a tier.
    pub fn wait(&self, found: Found, call: Call, reads: bool) -> Over {
        let Some(entry) = self.page.entries.get(found.at) else { return Over::Free };
        let state = |word| if same_use(word, found.word) { state_of(word) } else { State::Free };
        let can_be_read = |state: State| {
            matches!(state, State::Staged | State::Written)
                || matches!(state, State::Closed | State::Begun) && entry.kind().is_whole
        };
        match state(entry.word.load(Ordering::Acquire)) {
            State::Failed => return Over::Failed,
            state if reads && can_be_read(state) => return Over::Staged,
            // It was opened again at this moment.
            State::Written => {
                std::thread::yield_now();
                return Over::Free;
            }
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
                state if reads && can_be_read(state) => break Over::Staged,
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
        let is_early = matches!(state_of(found.word), State::Closed | State::Written);
        let may_be = is_early && entry.kind().may_be_given_up;
        if !may_be || !entry.exchange(found.word, State::Held) {
            return None;
        }
        entry.owner.store(process(), Ordering::Relaxed);
        let (word, before) = (with_state(found.word, State::Held), state_of(found.word));
        Some(Hold { names: self, entry, word, after: Some(before), _lock: None })
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
    pub fn withdraw(&self, place: SpoolName<'_>) {
        for entry in self.page.used().iter().filter(|entry| entry.place.is(place.bytes())) {
            let word = entry.word.load(Ordering::Acquire);
            if matches!(state_of(word), State::Closed | State::Written) && entry.place.is(place.bytes()) {
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

/// A pending file that the launcher does not begin. When it is dropped, the file stays pending.
pub struct Hold<'n> {
    pub(crate) names: &'n Names,
    pub(crate) entry: &'n Entry,
    pub(crate) word: u32,
    /// The state that it gets; `None` if it has got another one.
    pub(crate) after: Option<State>,
    /// Of a file that the program writes in a tier: no process opens it meanwhile.
    pub(crate) _lock: Option<Lock>,
}

impl Hold<'_> {
    /// Nothing will be made of the file. `records` are the files in its directory of which one says that it is handed over, or open;
    /// that gets the name `given_up`, so that nobody makes the file either if the launcher is killed.
    pub fn give_up(mut self, records: [&str; 2], given_up: &str) {
        let Self { names, entry, word, .. } = self;
        entry.place.with(|place| {
            let directory = names.directory_of(place, entry.kind().is_whole);
            let path = |name: &str| Path::of(&[directory.as_ref()?.bytes(), b"/", name.as_bytes()]);
            for (record, new) in records.into_iter().filter_map(|record| path(record).zip(path(given_up))) {
                // The launcher may have moved the directory out of memory. It looks at the page, too.
                let _ = rename(record.as_c_str(), new.as_c_str());
            }
        });
        self.after = None;
        entry.owner.store(0, Ordering::Relaxed);
        names.page.leave(entry, word, State::GivenUp);
        names.page.ring();
    }

    /// The file stays pending.
    pub fn keep(self) {}
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let Some(after) = self.after else { return };
        self.entry.owner.store(0, Ordering::Relaxed);
        self.entry.exchange(self.word, after);
        self.entry.wake();
        self.names.page.ring();
    }
}

fn sleep() -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: (LOOK_EVERY * 1_000_000) as _ }
}
