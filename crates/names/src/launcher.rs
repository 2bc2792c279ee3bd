//! What the launcher does with names.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::thread::futex::{Flags, Timespec, wait};

use crate::lock::Lock;
use crate::other_nodes::{Notes, OtherNodes};
use crate::page::entry::{Entry, SpoolName, State, state_of};
use crate::page::map;
use crate::page::waiter::{self, Call, now};
use crate::page::{HAS_LOCKS, HAS_STORES, MARK, Page};
use crate::program::Names;
use crate::written::OfLauncher;

/// The page of a run. Programs know by it that their launcher lives.
pub struct Keeper {
    pub(crate) page: &'static Page,
    /// Locked as long as this lives.
    file: File,
    pub(crate) path: CString,
    notes: Option<Notes>,
    /// Names whose notes could not be changed, and whether their files could not be made.
    stuck: Mutex<BTreeMap<(u64, u64), bool>>,
}

/// What came of beginning a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Began {
    /// It is the launcher's to make.
    Yes,
    /// The program does not want it any more.
    GivenUp,
    /// The program is about to say whether it wants it.
    Held,
    /// The program writes it again.
    Written,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It has its name, or there is none to be.
    Delivered,
    /// It could not be made. What has its name is older.
    Failed,
}

/// A call that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// The process that makes it.
    pub process: u32,
    /// The last component of the name.
    pub name: Vec<u8>,
    /// The directory in the spool.
    pub place: Vec<u8>,
    /// How long it has waited by now.
    pub since: Duration,
}

/// A call that has waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// What it does.
    pub call: Call,
    /// The last component of the name.
    pub name: Vec<u8>,
    /// How long it has waited.
    pub time: Duration,
}

/// A process that has not said for so long that it waits was killed.
const SILENT: Duration = Duration::from_secs(3);
/// Bytes of all tails that fit on the page.
const TAILS: usize = 2000;

impl Keeper {
    /// Makes the page, as a file at `path`, where none is. Calls wait no longer than `limit` for files with which nothing
    /// happens. `other_nodes` is what to say about other nodes, if there are any.
    ///
    /// # Errors
    /// Those of the system: there is no room for it, or the place has no files in memory.
    pub fn create(path: &Path, limit: Duration, other_nodes: Option<&OtherNodes<'_>>) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_encoded_bytes())?;
        let (file, page) = map::create(path)?;
        file.try_lock()?;
        page.head.limit.store(u32::try_from(limit.as_millis()).unwrap_or(u32::MAX), Ordering::Relaxed);
        if let Some(other_nodes) = other_nodes {
            let tails = other_nodes.tails.join("/");
            page.other_nodes.directory.set(other_nodes.directory.as_os_str().as_encoded_bytes());
            page.other_nodes.launcher.set(other_nodes.launcher.as_bytes());
            // Of too many, each name counts.
            page.other_nodes.tails.set(if tails.len() < TAILS { tails.as_bytes() } else { b"" });
            let flags = [(other_nodes.has_stores, HAS_STORES), (other_nodes.has_locks, HAS_LOCKS)];
            let traits = flags.iter().filter(|(has, _)| *has).fold(0, |traits, (_, flag)| traits | flag);
            page.other_nodes.traits.store(traits, Ordering::Relaxed);
        }
        page.head.mark.store(MARK, Ordering::Release);
        let notes = Notes::of(page, &name);
        Ok(Self { page, file, path: name, notes, stuck: Mutex::default() })
    }

    /// Files come from other components, or go to some. To be said before the program starts.
    pub fn has_transfers(&self) {
        self.page.head.transfers.store(1, Ordering::Relaxed);
    }

    /// The page as a process of the program has it.
    pub fn names(&self) -> Names {
        Names::of(self.page, self.path.clone())
    }

    fn of(&self, place: SpoolName<'_>) -> impl Iterator<Item = &'static Entry> {
        let page = self.page;
        page.used().iter().filter(move |entry| {
            state_of(entry.word.load(Ordering::Acquire)) != State::Free && entry.place.is(place.bytes())
        })
    }

    fn written(&self) -> OfLauncher<'_> {
        OfLauncher { page: self.page, path: &self.path }
    }

    /// The program may write files in tiers. To be said before the program starts.
    pub fn writes_in_tiers(&self) {
        self.written().begin();
    }

    /// The launcher wants to hear of files that the program writes where they are to be. To be said before the program starts.
    pub fn packs_when_closed(&self) {
        self.page.head.packs_when_closed.store(1, Ordering::Relaxed);
    }

    /// Keeps processes from making files in tiers and from opening them to write, until it is dropped; `None` if one does so at this
    /// moment.
    pub fn lock_written(&self) -> Option<Lock> {
        self.written().lock()
    }

    /// Takes a file that the program has written in a tier for closed, which is known by this name in the spool. Whether a process has
    /// it open is to be looked at afterwards.
    pub fn take_for_closed(&self, _: &Lock, place: SpoolName<'_>) {
        self.written().change(place, State::Written, State::Closed);
    }

    /// False if the program uses a file at this moment that was taken for closed.
    pub fn is_closed(&self, _: &Lock, place: SpoolName<'_>) -> bool {
        self.of(place).all(|entry| state_of(entry.word.load(Ordering::Acquire)) == State::Closed)
    }

    /// A file that was taken for closed is written yet.
    pub fn still_written(&self, place: SpoolName<'_>) {
        self.written().change(place, State::Closed, State::Written);
    }

    /// A file of so many bytes was closed that the program has written in a tier.
    pub fn closed_written(&self, bytes: u64) {
        self.written().closed(bytes);
    }

    /// The launcher is about to make a file of what lies in a directory of the spool.
    pub fn begin(&self, place: SpoolName<'_>) -> Began {
        let mut began = Began::Yes;
        for entry in self.of(place) {
            let word = entry.word.load(Ordering::Acquire);
            match state_of(word) {
                State::Closed if entry.exchange(word, State::Begun) => {}
                State::Closed | State::Held => return Began::Held,
                State::GivenUp => began = Began::GivenUp,
                State::Written => return Began::Written,
                _ => {}
            }
        }
        if began == Began::GivenUp {
            self.end(place, End::Delivered);
        }
        began
    }

    /// The file is whole in a tier, at `path`: whoever only reads it finds it there from now on.
    ///
    /// # Errors
    /// Those of the file system. Then whoever reads it waits until it is in its place.
    pub fn stage(&self, place: SpoolName<'_>, path: &Path) -> io::Result<()> {
        let Some(link) = self.staged_link(place) else { return Err(io::ErrorKind::InvalidFilename.into()) };
        link.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        match symlink(path, &link) {
            // The program has made it, which has written the file there. It may have been packed since.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if std::fs::read_link(&link)? != path {
                    let beside = link.with_added_extension("new");
                    symlink(path, &beside)?;
                    std::fs::rename(beside, link)?;
                }
            }
            made => made?,
        }
        for entry in self.of(place) {
            let word = entry.word.load(Ordering::Acquire);
            if state_of(word) == State::Begun && entry.exchange(word, State::Staged) {
                entry.wake();
            }
        }
        Ok(())
    }

    /// Says what became of the file, and wakes those who wait for it.
    pub fn end(&self, place: SpoolName<'_>, end: End) {
        // There is none if it was not in a tier.
        self.staged_link(place).map(std::fs::remove_file);
        for entry in self.of(place) {
            let word = entry.word.load(Ordering::Acquire);
            let name = entry.name();
            match (state_of(word), end) {
                (State::Closed | State::Begun | State::Staged | State::Written, End::Failed)
                    if entry.exchange(word, State::Failed) =>
                {
                    entry.wake()
                }
                (State::Closed | State::Begun | State::Staged | State::Failed | State::Written, End::Delivered) => {
                    self.forget_older(entry);
                    self.page.leave(entry, word, State::Free);
                }
                (State::GivenUp, _) if entry.exchange(word, State::Free) => self.page.make_room(),
                _ => {}
            }
            self.untell(name, end == End::Failed && state_of(word) != State::GivenUp);
        }
    }

    fn staged_link(&self, place: SpoolName<'_>) -> Option<PathBuf> {
        let link = self.names().staged_link(place.bytes())?;
        Some(PathBuf::from(OsStr::from_bytes(link.as_c_str().to_bytes())))
    }

    fn untell(&self, name: (u64, u64), has_failed: bool) {
        let Some(notes) = &self.notes else { return };
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        match notes.untell(name, has_failed) {
            Ok(()) => stuck.remove(&name),
            Err(_) => stuck.insert(name, has_failed),
        };
    }

    /// What could not be made of older files of the name does not matter any more.
    fn forget_older(&self, delivered: &Entry) {
        for entry in self.page.used() {
            let word = entry.word.load(Ordering::Acquire);
            if state_of(word) == State::Failed && entry.is_older(delivered) {
                self.page.leave(entry, word, State::Free);
            }
        }
    }

    /// Directories in the spool of which the program wants no file any more.
    pub fn given_up(&self) -> Vec<Vec<u8>> {
        let given_up =
            self.page.used().iter().filter(|entry| state_of(entry.word.load(Ordering::Acquire)) == State::GivenUp);
        given_up.map(|entry| entry.place.get()).collect()
    }

    /// A number that changes as long as the launcher gets on with pending files. `None` if other nodes see names as pending that
    /// are not: they are not to wait for ever.
    pub fn beats(&self) -> Option<u64> {
        let is_stuck = !self.stuck.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        (!is_stuck).then(|| self.page.head.beat.load(Ordering::Acquire))
    }

    /// Says that the launcher gets on.
    pub fn beat(&self) {
        self.page.head.beat.fetch_add(1, Ordering::AcqRel);
    }

    /// Sleeps until there is something to look at, or for as long. `heard` is the number that the last call returned.
    pub fn listen(&self, heard: u32, longest: Duration) -> u32 {
        let longest = Timespec { tv_sec: longest.as_secs() as _, tv_nsec: longest.subsec_nanos() as _ };
        let _ = wait(&self.page.head.bell, Flags::empty(), heard, Some(&longest));
        self.page.head.bell.load(Ordering::Acquire)
    }

    /// Wakes who listens.
    pub fn ring(&self) {
        self.page.ring();
    }

    /// The calls that wait.
    pub fn waits(&self) -> Vec<Waits> {
        let (now, silent) = (now(), u64::try_from(SILENT.as_nanos()).unwrap_or(u64::MAX));
        let mut found = Vec::new();
        for waiter in &self.page.waiters {
            let word = waiter.word.load(Ordering::Acquire);
            if waiter::state_of(word) != waiter::State::Waits {
                continue;
            }
            if now.saturating_sub(waiter.seen()) > silent {
                waiter.exchange(word, waiter::State::Free);
                continue;
            }
            found.push(Waits {
                process: waiter.process.load(Ordering::Relaxed),
                name: waiter.last.get(),
                place: waiter.place.get(),
                since: Duration::from_nanos(now.saturating_sub(waiter.begun())),
            });
        }
        found
    }

    /// The calls that have waited, each of them once.
    pub fn take_waited(&self) -> Vec<Waited> {
        let mut found = Vec::new();
        for waiter in &self.page.waiters {
            let word = waiter.word.load(Ordering::Acquire);
            if waiter::state_of(word) == waiter::State::Over {
                let time = Duration::from_nanos(waiter.seen().saturating_sub(waiter.begun()));
                found.push(Waited { call: waiter.call(), name: waiter.last.get(), time });
                waiter.exchange(word, waiter::State::Free);
            }
        }
        found
    }

    /// Sees to entries whose process was killed as it filled or held them, and to notes that could not be changed.
    pub fn tidy(&self, is_alive: impl Fn(u32) -> bool) {
        let stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stuck.into_iter().for_each(|(name, has_failed)| self.untell(name, has_failed));
        for entry in self.page.used() {
            let word = entry.word.load(Ordering::Acquire);
            let owner = entry.owner.load(Ordering::Relaxed);
            if owner == 0 || is_alive(owner) {
                continue;
            }
            match state_of(word) {
                State::Filled if entry.exchange(word, State::Free) => self.page.make_room(),
                State::Held => {
                    let before = if entry.kind().is_whole { State::Written } else { State::Closed };
                    if entry.exchange(word, before) {
                        entry.wake();
                    }
                }
                _ => {}
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Whoever waits finds that nobody holds the lock.
        let _ = self.file.unlock();
        self.page.used().iter().for_each(Entry::wake);
        self.page.make_room();
    }
}
