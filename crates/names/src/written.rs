//! Files that the program itself writes in a tier, whole. Their entries are *written* as long as the program may have them open, and
//! calls that use their names get the path in the tier. When the launcher hears that one was closed, it takes it for *closed*, and
//! looks whether any process still writes it. Whoever opens it to write before the launcher moves it has it written again.
//!
//! A process that looks at the state and then opens the file may be overtaken by the launcher. So it holds a [`Lock`] meanwhile,
//! without which the launcher takes no file for closed. Reading needs none.

use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::thread::futex::{Flags, Timespec, wait};

use crate::key::{Directory, Key};
use crate::lock::Lock;
use crate::page::entry::{Entry, Kind, SpoolName, State, same_use, state_of};
use crate::page::waiter::{Call, Over, now};
use crate::page::{ENTRIES, Page};
use crate::path::Path;
use crate::program::{Found, Hold, Names};

/// Units in which lengths are noted.
const UNIT: u64 = 1 << 20;

/// A file that the program itself writes, for a call that may change it.
pub struct Writing {
    /// Where it lies.
    pub path: Path,
    _lock: Lock,
}

impl Names {
    /// True if the program may write files in tiers.
    #[inline]
    pub fn writes_in_tiers(&self) -> bool {
        self.page.head.writes_in_tiers.load(Ordering::Relaxed) != 0
    }

    /// True if the launcher wants to hear of files that the program writes where they are to be.
    #[inline]
    pub fn packs_when_closed(&self) -> bool {
        self.page.head.packs_when_closed.load(Ordering::Relaxed) != 0
    }

    /// The length of the longest file that the program has written in a tier and closed, in bytes; `None` if there was none.
    pub fn longest_written(&self) -> Option<u64> {
        let longest = u64::from(self.page.head.longest.load(Ordering::Relaxed));
        (longest > 0).then(|| longest.saturating_mul(UNIT))
    }

    /// For a process that is about to make a file in a tier: no other process makes or opens one meanwhile.
    ///
    /// # Errors
    /// Those of the system.
    pub fn lock_written(&self) -> Result<Lock, Errno> {
        Lock::of(self.spool().ok_or(Errno::INVAL)?, FlockOperation::LockExclusive)
    }

    /// False if the page has no room for a file that the program would write in a tier.
    pub fn may_enter_written(&self) -> bool {
        (self.page.head.pending.load(Ordering::Acquire) as usize) < ENTRIES / 2
    }

    /// Enters the name of a file that the program writes from now on. Returns the number of its generation; `None` if there is no
    /// room. Half of the page is for files that are handed over, which wait for room.
    pub fn enter_written(&self, key: &Key<'_>, place: SpoolName<'_>, replaces: bool) -> Option<u64> {
        if !self.may_enter_written() {
            return None;
        }
        let kind = Kind { replaces, may_be_given_up: true, is_directory: false, is_whole: true };
        self.page.enter(key, place, kind, State::Written)
    }

    /// True if the program itself writes the file in a tier, or has.
    pub fn is_whole(&self, found: Found) -> bool {
        let is_one = |entry: &Entry| {
            let word = entry.word.load(Ordering::Acquire);
            entry.kind().is_whole && same_use(word, found.word) && state_of(word) != State::Failed
        };
        self.page.entries.get(found.at).is_some_and(is_one)
    }

    /// True if the program has written a file in a tier that is not in its place, or writes one.
    pub fn any_whole(&self) -> bool {
        self.first(|entry, word| state_of(word).is_pending() && entry.kind().is_whole).is_some()
    }

    /// True if it is known where the file lies that the program itself writes.
    pub fn has_place(&self, found: Found) -> bool {
        let link = self.page.entries.get(found.at).and_then(|entry| entry.place.with(|place| self.staged_link(place)));
        link.is_some_and(|link| Path::read_link(&link).is_some())
    }

    /// Forgets a pending file whose launcher is gone: something else gets its name.
    pub fn abandon(&self, found: Found) {
        if let Some(entry) = self.page.entries.get(found.at) {
            let word = entry.word.load(Ordering::Acquire);
            if same_use(word, found.word) && state_of(word).is_pending() {
                self.page.leave(entry, word, State::Free);
            }
        }
    }

    /// True if the program may have the file open that it writes in a tier.
    pub fn is_written(&self, found: Found) -> bool {
        let state = |word| same_use(word, found.word) && state_of(word) == State::Written;
        self.page.entries.get(found.at).is_some_and(|entry| state(entry.word.load(Ordering::Acquire)))
    }

    /// Where a file is that the program itself writes, or has written if the launcher has not begun to move it: from now on it is
    /// written again. `None` if it is too late for that.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write(&self, found: Found) -> Result<Option<Writing>, Errno> {
        let Some(entry) = self.page.entries.get(found.at) else { return Ok(None) };
        let state = |word| if same_use(word, found.word) { state_of(word) } else { State::Free };
        let is_early = |word| matches!(state(word), State::Written | State::Closed);
        if !is_early(entry.word.load(Ordering::Acquire)) {
            return Ok(None);
        }
        let lock = Lock::of(self.spool().ok_or(Errno::INVAL)?, FlockOperation::LockShared)?;
        loop {
            let word = entry.word.load(Ordering::Acquire);
            if !is_early(word) {
                return Ok(None);
            }
            if state(word) == State::Written || entry.exchange(word, State::Written) {
                break;
            }
        }
        let link = entry.place.with(|place| self.staged_link(place));
        let path = link.and_then(|link| Path::read_link(&link)).ok_or(Errno::NOENT)?;
        Ok(Some(Writing { path, _lock: lock }))
    }

    /// As [`Names::hold`], for a file that the program itself writes in a tier, or has written. No process opens it meanwhile; if the
    /// system has no lock for that, one may, which is unlikely. With `is_locked` this process has locked that already.
    pub fn hold_whole(&self, found: Found, is_locked: bool) -> Option<Hold<'_>> {
        let lock = if is_locked { None } else { self.lock_written().ok() };
        self.hold(found).map(|mut hold| {
            hold._lock = lock;
            // The launcher looks again whether it is closed.
            hold.written();
            hold
        })
    }

    /// All files that the program itself writes in tiers, or has written, and that are not in their places, for which `is_wanted` says
    /// so of where they lie. `None` if one of them is begun to be moved, or held by another process: it is to be tried again.
    pub fn hold_all(&self, _: &Lock, is_wanted: impl Fn(&Path) -> bool) -> Option<Vec<Hold<'_>>> {
        let mut holds = Vec::new();
        for (at, entry) in self.page.used().iter().enumerate() {
            let word = entry.word.load(Ordering::Acquire);
            if !(state_of(word).is_under_way() || state_of(word) == State::Written) || !entry.kind().is_whole {
                continue;
            }
            let link = entry.place.with(|place| self.staged_link(place));
            let Some(file) = link.and_then(|link| Path::read_link(&link)) else { continue };
            if is_wanted(&file) {
                holds.push(self.hold(Found { at, word })?);
            }
        }
        Some(holds)
    }

    /// Waits until a file is in its place that the program has written in a tier. One that stays open is waited for no longer than
    /// `longest`.
    pub fn await_place(&self, key: &Key<'_>, call: Call, longest: Duration) {
        let begin = now();
        while let Some(found) = self.find(key, u64::MAX).filter(|found| self.is_whole(*found)) {
            let is_over = if self.is_written(found) {
                !self.await_change(found, begin, longest)
            } else {
                self.wait(found, call, false) != Over::Free
            };
            if is_over {
                return;
            }
        }
    }

    /// Waits until the program has no file open in a directory, or in any, that it writes in a tier, but no longer than `longest`.
    pub fn await_close(&self, directory: Option<Directory>, longest: Duration) {
        let begin = now();
        let is_one = |entry: &Entry, word: u32| {
            state_of(word) == State::Written && directory.is_none_or(|directory| entry.is_in(directory))
        };
        while let Some(found) = self.first(is_one) {
            if !self.await_change(found, begin, longest) {
                return;
            }
        }
    }

    /// Sleeps until something happens to a file, at most until `longest` has passed since `begin`. False if that is over.
    fn await_change(&self, found: Found, begin: u64, longest: Duration) -> bool {
        let left = longest.saturating_sub(Duration::from_nanos(now().saturating_sub(begin)));
        let Some(entry) = self.page.entries.get(found.at).filter(|_| !left.is_zero()) else { return false };
        let left = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
        // It ends early if a signal came.
        let _ = wait(&entry.word, Flags::empty(), found.word, Some(&left));
        true
    }

    /// True if the program has a file open in a directory that it writes in a tier.
    pub fn is_written_in(&self, directory: Directory) -> bool {
        self.first(|entry, word| state_of(word) == State::Written && entry.is_in(directory)).is_some()
    }

    /// Calls with the name of each file in a directory that the program itself writes there, or has written, and that is not in its
    /// place yet. The names are in memory that is asked for.
    pub fn whole_in(&self, directory: Directory, mut each: impl FnMut(Vec<u8>)) {
        for entry in self.page.used() {
            let word = entry.word.load(Ordering::Acquire);
            let is_one = |word| state_of(word).is_pending() && entry.kind().is_whole && entry.is_in(directory);
            if is_one(word) {
                let name = entry.last.get();
                if same_use(entry.word.load(Ordering::Acquire), word) {
                    each(name);
                }
            }
        }
    }
}

impl Hold<'_> {
    /// The name in the spool of the directory of the file, in memory that is asked for.
    pub fn place(&self) -> Vec<u8> {
        self.entry.place.get()
    }

    /// True if it is the file of this name.
    pub fn is_for(&self, key: &Key<'_>) -> bool {
        self.entry.is_for(key)
    }

    /// Where the file lies that the program itself writes.
    pub fn staged(&self) -> Option<Path> {
        let link = self.entry.place.with(|place| self.names.staged_link(place))?;
        Path::read_link(&link)
    }

    /// When this is dropped, the program writes the file yet, as far as anybody knows.
    pub fn written(&mut self) {
        self.after = Some(State::Written);
    }

    /// The file has this name from now on, too. `None` if that finds no room.
    pub fn enter(&self, key: &Key<'_>, replaces: bool) -> Option<()> {
        let (place, kind) = (self.place(), Kind { replaces, ..self.entry.kind() });
        // It takes the place of the other name in a moment.
        let place = SpoolName::new(&place)?;
        self.names.page.enter(key, place, kind, State::Written).map(|_| ())
    }

    /// The file has the other name only.
    pub fn leave(mut self) {
        self.after = None;
        self.entry.owner.store(0, Ordering::Relaxed);
        self.names.page.leave(self.entry, self.word, State::Free);
    }

    /// It has not got the other name.
    pub fn withdraw(&self) {
        SpoolName::new(&self.place()).into_iter().for_each(|place| self.names.withdraw(place));
    }
}

/// What the launcher does with files that the program writes in tiers.
pub(crate) struct OfLauncher<'p> {
    pub(crate) page: &'p Page,
    pub(crate) path: &'p CString,
}

impl OfLauncher<'_> {
    /// Says that the program may write files in tiers.
    pub(crate) fn begin(&self) {
        self.page.head.writes_in_tiers.store(1, Ordering::Relaxed);
    }

    /// Keeps processes from opening written files to write, until it is dropped; `None` if one does so at this moment.
    pub(crate) fn lock(&self) -> Option<Lock> {
        let path = self.path.to_bytes();
        let spool = path.iter().rposition(|&byte| byte == b'/').and_then(|end| path.get(..=end))?;
        Lock::of(spool, FlockOperation::NonBlockingLockExclusive).ok()
    }

    /// Changes the state of the file that is known by `place`, if it is that.
    pub(crate) fn change(&self, place: SpoolName<'_>, from: State, to: State) {
        for entry in self.page.used().iter().filter(|entry| entry.place.is(place.bytes())) {
            let word = entry.word.load(Ordering::Acquire);
            if state_of(word) == from && entry.exchange(word, to) {
                entry.wake();
            }
        }
    }

    /// A file of so many bytes was closed.
    pub(crate) fn closed(&self, bytes: u64) {
        let longest = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).max(1);
        self.page.head.longest.fetch_max(longest, Ordering::Relaxed);
    }
}
