//! Names of files that the program has closed and that are not there yet. Whoever uses one waits, and this launcher looks after
//! that: it says when the file is there, makes what is waited for first, and tells users who waits for long.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use knarr_capture::{HandedOver, place_of};
use knarr_flow::engine::Progress;
use knarr_names::{Began, Call, End, Keeper, Lock, Waited};

use super::aggregators::noting::Noting;
use super::news::News;
use super::outcome::Outcome;
use super::spools::spool::Spool;
use crate::notices::Notices;
use knarr_capture::processes::{Processes, System};

/// How long a call waits at most for a file while no file gets on.
const LIMIT: Duration = Duration::from_secs(60);
/// Users are told of a call that waits for longer.
const LONG: Duration = Duration::from_secs(5);
/// What is said of a file that this launcher does not make.
const OF_OTHERS: &str = "another node makes it";
/// How often is looked who waits, if nobody begins to.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Calls that have waited for files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NameWaits {
    /// How many, by what they did.
    pub calls: BTreeMap<Call, u64>,
    /// How long all of them took.
    pub time: Duration,
    /// The longest, and the name that it waited for.
    pub longest: Option<(Duration, String)>,
}

impl NameWaits {
    fn add(&mut self, waited: Waited) {
        *self.calls.entry(waited.call).or_default() += 1;
        self.time += waited.time;
        if self.longest.as_ref().is_none_or(|(longest, _)| waited.time > *longest) {
            self.longest = Some((waited.time, String::from_utf8_lossy(&waited.name).into_owned()));
        }
    }

    /// Number of calls.
    pub fn count(&self) -> u64 {
        self.calls.values().sum()
    }
}

/// The names of a run. Without a place for the page nobody waits.
pub(super) struct Names {
    keeper: Option<Keeper>,
    /// For other nodes, if there may be any.
    noting: Option<Noting>,
    waits: Mutex<NameWaits>,
    /// Set when nobody listens any more.
    is_over: AtomicBool,
    /// How far the files under way are, by the names of their directories.
    beats: Mutex<BTreeMap<Vec<u8>, Arc<FileProgress>>>,
}

/// Bytes of a file that are done, and all of them.
#[derive(Default)]
struct FileProgress {
    done: AtomicU64,
    all: AtomicU64,
}

impl Names {
    /// Makes the page in the spool, and shows it to programs in the directory of the run. Without a page nobody waits; programs
    /// run all the same. `noting` is for other nodes.
    pub(super) fn of_run(spool: Option<&Spool>, run: &Path, noting: Option<Noting>, notices: &dyn Notices) -> Self {
        let other_nodes = noting.as_ref().map(Noting::other_nodes);
        let keeper = spool.and_then(|spool| {
            let (path, link) = (spool.path().join(knarr_capture::NAMES), run.join(knarr_capture::NAMES));
            let made = Keeper::create(&path, LIMIT, other_nodes.as_ref());
            let made = made.and_then(|keeper| std::os::unix::fs::symlink(&path, link).map(|()| keeper));
            made.inspect_err(|error| {
                notices.warn(&format!("nobody waits for names of files that are not there yet: {error}"))
            })
            .ok()
        });
        let (waits, is_over) = (Mutex::default(), AtomicBool::new(false));
        Self { keeper, noting, waits, is_over, beats: Mutex::default() }
    }

    /// Files come from other components, or go to some. To be said before the program starts.
    pub(super) fn has_transfers(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.has_transfers();
        }
    }

    /// False if programs do not see which names are pending, nor what waits in tiers.
    pub(super) fn are_seen(&self) -> bool {
        self.keeper.is_some()
    }

    /// Files that the program writes where they are to be are packed when they are closed. To be said before it starts.
    pub(super) fn packs_when_closed(&self) {
        self.keeper.iter().for_each(Keeper::packs_when_closed);
    }

    /// The program may write files in tiers. To be said before it starts.
    pub(super) fn writes_in_tiers(&self) {
        self.keeper.iter().for_each(Keeper::writes_in_tiers);
    }

    /// Takes files for closed that the program has written in tiers, in these directories, but for those that `is_written` says are
    /// not: that is asked when no process opens one to write any more without saying so. Returns what `close` makes of the others;
    /// `None` if nothing can be said now.
    pub(super) fn close_written<T>(
        &self,
        directories: &BTreeSet<PathBuf>,
        is_written: impl FnOnce() -> Option<BTreeSet<PathBuf>>,
        mut close: impl FnMut(&Path) -> T,
    ) -> Option<Vec<T>> {
        let keeper = self.keeper.as_ref()?;
        let places = || directories.iter().filter_map(|directory| Some((directory, place_of(directory)?)));
        let lock = lock_written(keeper)?;
        places().for_each(|(_, place)| keeper.take_for_closed(&lock, place));
        drop(lock);
        let written = is_written();
        let may_be_written = |directory: &PathBuf| written.as_ref().is_none_or(|written| written.contains(directory));
        for (_, place) in places().filter(|(directory, _)| may_be_written(directory)) {
            keeper.still_written(place);
        }
        let lock = lock_written(keeper)?;
        let is_closed = |place| keeper.is_closed(&lock, place);
        let closed = places().filter(|(directory, place)| !may_be_written(directory) && is_closed(*place));
        Some(closed.map(|(directory, _)| close(directory)).collect())
    }

    /// Whoever removes what lies in a directory of a file that the program writes in a tier does so here: no process opens it
    /// meanwhile. False if that cannot be now.
    pub(super) fn apart_from_writers(&self, work: impl FnOnce()) -> bool {
        let Some(keeper) = &self.keeper else { return false };
        lock_written(keeper).map(|_lock| work()).is_some()
    }

    /// A file of so many bytes is closed that the program has written in a tier.
    pub(super) fn closed_written(&self, bytes: u64) {
        self.keeper.iter().for_each(|keeper| keeper.closed_written(bytes));
    }

    /// Names of the directories of files that the program does not want any more.
    pub(super) fn given_up(&self) -> Vec<Vec<u8>> {
        self.keeper.as_ref().map(Keeper::given_up).unwrap_or_default()
    }

    /// The launcher is about to make a file of what lies in `directory`.
    pub(super) fn begin(&self, directory: &Path) -> Began {
        let kept = self.keeper.as_ref().zip(place_of(directory));
        kept.map_or(Began::Yes, |(keeper, place)| keeper.begin(place))
    }

    /// The file of what lay in `directory` is whole in a tier, at `path`: who reads it waits no longer. False if that cannot be told.
    pub(super) fn stage(&self, directory: &Path, path: &Path) -> bool {
        // Otherwise it is waited for until it is in its place.
        self.keeper.as_ref().zip(place_of(directory)).is_none_or(|(keeper, place)| keeper.stage(place, path).is_ok())
    }

    /// Whoever only reads the file with this [`knarr_names::Identity`] reads its copy at `path` from now on.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn keep(&self, name: &str, path: &Path) -> io::Result<()> {
        let keeper = self.keeper.as_ref().ok_or(io::ErrorKind::NotFound)?;
        keeper.keep(name, path)
    }

    /// When a copy was last read; `None` if somebody may have changed the file since.
    pub(super) fn copy_was_read(&self, name: &str) -> Option<SystemTime> {
        self.keeper.as_ref()?.copy_was_read(name)
    }

    /// Nobody is led to a copy any more.
    pub(super) fn drop_copy(&self, name: &str) {
        self.keeper.iter().for_each(|keeper| keeper.drop_copy(name));
    }

    /// How often somebody has opened a copy to read.
    pub(super) fn copies_read(&self) -> u64 {
        self.keeper.as_ref().map_or(0, Keeper::copies_read)
    }

    /// The launcher gets on with files.
    pub(super) fn beat(&self) {
        self.keeper.iter().for_each(Keeper::beat);
    }

    /// What became of the file.
    pub(super) fn end(&self, directory: &Path, outcome: &Outcome) {
        let failed = matches!(outcome, Outcome::Undelivered(..) | Outcome::Failed(_) | Outcome::Lost(_));
        if let Some((keeper, place)) = self.keeper.as_ref().zip(place_of(directory)) {
            keeper.end(place, if failed { End::Failed } else { End::Delivered });
        }
    }

    /// A file may have to be made of a session that is not read: from now on its name is waited for.
    pub(super) fn enter(&self, handed: &HandedOver, directory: &Path) {
        if let Some(keeper) = &self.keeper {
            // Nobody was told that the file is closed: who comes too early finds none, as before.
            let _ = handed.enter(&keeper.names(), directory, false);
        }
    }

    /// True if some call waits.
    pub(super) fn is_awaited(&self) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| !keeper.waits().is_empty())
    }

    /// Of these directories of the spool, those that somebody waits for or that the program has given up.
    pub(super) fn urgent<'d>(&self, directories: impl Iterator<Item = &'d PathBuf>) -> Vec<PathBuf> {
        let Some(keeper) = &self.keeper else { return Vec::new() };
        let mut places: BTreeSet<Vec<u8>> = keeper.waits().into_iter().map(|waits| waits.place).collect();
        places.extend(keeper.given_up());
        let is_urgent =
            |directory: &&PathBuf| directory.file_name().is_some_and(|name| places.contains(name.as_encoded_bytes()));
        directories.filter(is_urgent).cloned().collect()
    }

    /// What has waited by now.
    pub(super) fn waits(&self) -> NameWaits {
        self.collect();
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn collect(&self) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        for waited in self.keeper.iter().flat_map(Keeper::take_waited) {
            waits.add(waited);
        }
    }

    /// Looks after calls that wait, until [`Names::is_over`]. To be called in a thread.
    pub(super) fn look_after(&self, notices: &dyn Notices, send: &Sender<News>) {
        let Some(keeper) = &self.keeper else { return };
        let (mut heard, mut told) = (0, BTreeSet::new());
        while !self.is_over.load(Ordering::Acquire) {
            heard = keeper.listen(heard, LOOK_EVERY);
            keeper.tidy(|process| System.alive(process));
            self.collect();
            if let Some((noting, beats)) = self.noting.as_ref().zip(keeper.beats()) {
                noting.beat(beats);
            }
            let waits = keeper.waits();
            for long in waits.iter().filter(|waits| waits.since > LONG) {
                if told.insert((long.process, long.name.clone())) {
                    let name = String::from_utf8_lossy(&long.name);
                    let how = if long.place.is_empty() { OF_OTHERS.to_owned() } else { self.progress(&long.place) };
                    notices.notify(&format!("{} waits for {name}: {how}", told_of(long.process)));
                }
            }
            if (!waits.is_empty() || !keeper.given_up().is_empty()) && send.send(News::Named).is_err() {
                return;
            }
        }
    }

    /// How far the file in a directory is.
    fn progress(&self, place: &[u8]) -> String {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let far = beats.get(place).map(|far| [&far.done, &far.all].map(|bytes| bytes.load(Ordering::Relaxed)));
        drop(beats);
        let [done, all] = far.unwrap_or_default();
        match all {
            0 => "it is not begun".to_owned(),
            all => format!("{} % of it are done", done.min(all) * 100 / all),
        }
    }

    /// Says to other nodes that this launcher makes no more files.
    pub(super) fn leave(&self) {
        if let Some(noting) = &self.noting {
            noting.leave();
        }
    }

    /// Ends [`Names::look_after`].
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(keeper) = &self.keeper {
            keeper.ring();
        }
    }
}

/// Processes hold the lock for moments.
fn lock_written(keeper: &Keeper) -> Option<Lock> {
    (0..LOCK_TRIES).find_map(|attempt| {
        if attempt > 0 {
            std::thread::sleep(LOCK_PAUSE);
        }
        keeper.lock_written()
    })
}

const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_micros(500);

/// A process, as users know it.
fn told_of(process: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    format!("{} ({process})", name.trim())
}

/// The launcher gets on with the file of a directory.
pub(super) struct Beat {
    names: Arc<Names>,
    place: Vec<u8>,
    far: Arc<FileProgress>,
}

impl Beat {
    pub(super) fn of(names: &Arc<Names>, directory: &Path) -> Self {
        let place = directory.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
        let far = Arc::<FileProgress>::default();
        names.beats.lock().unwrap_or_else(PoisonError::into_inner).insert(place.clone(), Arc::clone(&far));
        Self { names: Arc::clone(names), place, far }
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.names.beats.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.place);
    }
}

impl Progress for Beat {
    fn begin(&self, _phase: &str, bytes: u64) {
        self.far.done.store(0, Ordering::Relaxed);
        self.far.all.store(bytes, Ordering::Relaxed);
        self.advance(0);
    }

    fn advance(&self, bytes: u64) {
        self.far.done.fetch_add(bytes, Ordering::Relaxed);
        self.names.beat();
    }
}
