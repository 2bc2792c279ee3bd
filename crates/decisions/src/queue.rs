//! Which job begins next. A job makes or changes a file; several are done at a time, within limits of threads, memory and the
//! network. Decides, and touches no file: the supervisor begins what [`Queue::begin`] says and reports every [`Queue::end`].
//!
//! - A higher [`Class`] comes first, and within a class what was pushed first.
//! - Jobs that have a [`Key`] in common (a file, a directory of the spool) never run at the same time. They run in the order in which
//!   they were pushed, and one that others wait for counts as what waits for it.
//! - A job that finds too few threads or too little memory holds up all that come after it, so large ones get their turn. One that
//!   waits for another job of its file, or for the network, holds up only jobs of its file.
//! - A job that takes no threads, because it waits for devices, waits for none, and is not held up by those that do.
//! - An awaited job waits for other awaited jobs only, and for jobs of its file. Memory is kept free for it; threads it takes from
//!   the others, down to none ([`Queue::shares`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use knarr_capture::processes::Identity;

/// The part of the memory that is kept free for what somebody waits for.
const RESERVED: u64 = 4;
/// How many jobs send to servers at a time: they share one way there.
const LINKS: usize = 4;

/// How urgent a job is, the least urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// What makes something better that is done, or is done before anybody asks.
    Improve,
    /// What moves something to where it is to stay.
    Drain,
    /// A file that the program has written is packed.
    Pack,
    /// A file is made of what the program has handed over.
    Deliver,
    /// Somebody waits.
    Awaited,
}

/// What only one job at a time may work on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A file by its name, a directory of the spool, or a URL.
    Path(PathBuf),
    /// A file, whatever its names.
    File(Identity),
}

/// What a job takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Threads that it can use; 0 for what waits for devices most of the time.
    pub threads: usize,
    /// Bytes of memory that it can use.
    pub bytes: u64,
    /// It sends what it makes to a server.
    pub link: bool,
    /// It cannot be done with less memory than that, though somebody waits.
    pub is_least: bool,
}

/// What all jobs together may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Threads at the moment, at least 1.
    pub threads: usize,
    /// Bytes of memory.
    pub bytes: u64,
    /// Part of them that is for awaited jobs only.
    pub reserved: u64,
    /// Jobs that send to a server.
    pub links: usize,
}

impl Limits {
    /// So many threads and bytes.
    pub fn new(threads: usize, bytes: u64) -> Self {
        Self { threads: threads.max(1), bytes, reserved: bytes / RESERVED, links: LINKS }
    }

    /// The most memory that a job gets which nobody waits for.
    pub fn most(&self) -> u64 {
        self.bytes.saturating_sub(self.reserved)
    }
}

/// The number of a job. Jobs that were pushed later have larger ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(u64);

/// Where a job stands in its class: what goes before all others, and what is behind.
type QueuePosition = (bool, JobId);

/// A job that waits for its turn. `T` is what runs it.
#[derive(Debug)]
struct Waiting<T> {
    class: Class,
    keys: BTreeSet<Key>,
    cost: Cost,
    job: T,
}

/// A job that was begun.
#[derive(Debug)]
struct Running {
    class: Class,
    place: QueuePosition,
    keys: BTreeSet<Key>,
    cost: Cost,
    /// Bytes that it has got, and whether they may be of the reserved ones.
    bytes: u64,
    may_reserve: bool,
}

/// A job that is to be begun.
#[derive(Debug)]
pub struct StartedJob<T> {
    /// Its number.
    pub id: JobId,
    /// Bytes of memory that it gets.
    pub bytes: u64,
    /// What runs it.
    pub job: T,
}

/// What is to be done next.
#[derive(Debug)]
pub enum Next<T> {
    /// This job.
    Begin(StartedJob<T>),
    /// Nothing: a job waits for threads or memory.
    Full,
    /// Nothing: no job waits, or each waits for another one or for the network.
    Idle,
}

/// Jobs that wait, and jobs that run.
#[derive(Debug)]
pub struct Queue<T> {
    last: u64,
    waiting: BTreeMap<QueuePosition, Waiting<T>>,
    running: BTreeMap<JobId, Running>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { last: 0, waiting: BTreeMap::new(), running: BTreeMap::new() }
    }
}

impl<T> Queue<T> {
    /// Adds a job behind the others of its class.
    pub fn push(&mut self, class: Class, keys: impl IntoIterator<Item = Key>, cost: Cost, job: T) -> JobId {
        self.add(true, class, keys, cost, job)
    }

    /// Adds a job that somebody waits for before all that were pushed: jobs of its file that have not begun come after it.
    pub fn push_first(&mut self, keys: impl IntoIterator<Item = Key>, cost: Cost, job: T) -> JobId {
        let keys: BTreeSet<Key> = keys.into_iter().collect();
        self.raise_running_of(&keys);
        self.add(false, Class::Awaited, keys, cost, job)
    }

    fn add(&mut self, is_behind: bool, class: Class, keys: impl IntoIterator<Item = Key>, cost: Cost, job: T) -> JobId {
        self.last += 1;
        let id = JobId(self.last);
        let keys = keys.into_iter().collect();
        self.waiting.insert((is_behind, id), Waiting { class, keys, cost, job });
        id
    }

    /// The next job that may begin; it counts as running from now on. Those for which `may` is false wait as if another job of their
    /// file ran.
    pub fn begin(&mut self, limits: &Limits, mut may: impl FnMut(&T, Class) -> bool) -> Next<T> {
        let mut order = self.order();
        // The most urgent first; places are in order already.
        order.sort_by_key(|(class, _)| std::cmp::Reverse(*class));
        // An earlier job of a file is as urgent as the later ones, so it is looked at before them.
        let mut held: BTreeSet<&Key> = self.running.values().flat_map(|running| &running.keys).collect();
        let links = self.running.values().filter(|running| running.cost.link).count();
        let (mut found, mut is_full) = (None, false);
        for (class, place) in order {
            let Some(waiting) = self.waiting.get(&place) else { continue };
            if is_full && class < Class::Awaited && waiting.cost.threads > 0 {
                held.extend(&waiting.keys);
                continue;
            }
            let is_held = waiting.keys.iter().any(|key| held.contains(key));
            if is_held || waiting.cost.link && links >= limits.links || !may(&waiting.job, class) {
                held.extend(&waiting.keys);
                continue;
            }
            found = self.room(limits, class, &waiting.cost).map(|bytes| (class, place, bytes));
            if found.is_some() {
                is_full = false;
                break;
            }
            // Of those that somebody waits for, others may need less.
            is_full = true;
            held.extend(&waiting.keys);
        }
        let Some((class, place, bytes)) = found else { return if is_full { Next::Full } else { Next::Idle } };
        let Some(Waiting { keys, cost, job, .. }) = self.waiting.remove(&place) else { return Next::Idle };
        let id = place.1;
        let running = Running { class, place, keys, cost, bytes, may_reserve: class == Class::Awaited };
        self.running.insert(id, running);
        Next::Begin(StartedJob { id, bytes, job })
    }

    /// The bytes that a job gets if it may begin now.
    fn room(&self, limits: &Limits, class: Class, cost: &Cost) -> Option<u64> {
        let used = |which: &dyn Fn(&Running) -> bool| -> u64 {
            self.running.values().filter(|running| which(running)).map(|running| running.bytes).sum()
        };
        let left = limits.bytes.saturating_sub(used(&|_| true));
        let bytes = cost.bytes.min(limits.most());
        if class == Class::Awaited {
            let awaited = self.running.values().filter(|running| running.class == Class::Awaited).count();
            let least = if cost.is_least { bytes } else { bytes.min(limits.reserved.max(1)) };
            // Of several that wait for little memory, each gets what it can use.
            return (awaited < limits.threads && least <= left).then(|| cost.bytes.min(limits.bytes).min(left));
        }
        // What is less urgent gives its threads up.
        let before = self.running.values().filter(|running| running.class >= class);
        let busy = before.fold(0_usize, |busy, running| busy.saturating_add(running.cost.threads));
        let others = limits.most().saturating_sub(used(&|running| !running.may_reserve));
        let has_threads = cost.threads == 0 || busy < limits.threads;
        (has_threads && bytes <= left.min(others)).then_some(bytes)
    }

    /// Jobs that wait, as urgent as what waits for them.
    fn order(&self) -> Vec<(Class, QueuePosition)> {
        let mut wanted: BTreeMap<&Key, Class> = BTreeMap::new();
        let mut order = Vec::with_capacity(self.waiting.len());
        for (place, waiting) in self.waiting.iter().rev() {
            let class = waiting.keys.iter().filter_map(|key| wanted.get(key)).fold(waiting.class, |a, b| a.max(*b));
            wanted.extend(waiting.keys.iter().map(|key| (key, class)));
            order.push((class, *place));
        }
        order.reverse();
        order
    }

    /// A job that was begun waits again, in the place that it had. With `is_least` it needs all memory that it can get.
    pub fn put_back(&mut self, id: JobId, job: T, is_least: bool) {
        if let Some(Running { class, place, keys, cost, .. }) = self.running.remove(&id) {
            let cost = if is_least { Cost { bytes: u64::MAX, is_least, ..cost } } else { cost };
            self.waiting.insert(place, Waiting { class, keys, cost, job });
        }
    }

    /// A job has ended.
    pub fn end(&mut self, id: JobId) {
        self.running.remove(&id);
    }

    /// Somebody waits for these jobs from now on, and so for those of the same files that run.
    pub fn raise(&mut self, mut which: impl FnMut(&T) -> bool) {
        let mut keys = BTreeSet::new();
        for waiting in self.waiting.values_mut().filter(|waiting| which(&waiting.job)) {
            waiting.class = Class::Awaited;
            keys.extend(waiting.keys.iter().cloned());
        }
        self.raise_running_of(&keys);
    }

    fn raise_running_of(&mut self, keys: &BTreeSet<Key>) {
        for running in self.running.values_mut().filter(|running| !running.keys.is_disjoint(keys)) {
            running.class = Class::Awaited;
        }
    }

    /// Somebody waits for a job that runs.
    pub fn raise_running(&mut self, id: JobId) {
        if let Some(running) = self.running.get_mut(&id) {
            running.class = Class::Awaited;
        }
    }

    /// True if a job of this class waits or runs.
    pub fn has(&self, class: Class) -> bool {
        self.waiting.values().any(|waiting| waiting.class == class)
            || self.running.values().any(|running| running.class == class)
    }

    /// True if some job waits.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True if some job runs.
    pub fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// True if a job of this class could begin that takes little.
    pub fn has_room(&self, limits: &Limits, class: Class) -> bool {
        let little = Cost { threads: 1, bytes: 1, link: false, is_least: false };
        self.room(limits, class, &little).is_some()
    }

    /// How many threads each of the jobs that run may use: the most urgent ones first, then the earlier ones, and what is left over
    /// goes to the first. Jobs that get none pause.
    pub fn shares(&self, threads: usize) -> Vec<(JobId, usize)> {
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_by_key(|(_, running)| (std::cmp::Reverse(running.class), running.place));
        let mut left = threads.max(1);
        let mut shares = Vec::with_capacity(running.len());
        for (id, running) in running {
            let share = running.cost.threads.min(left);
            left -= share;
            shares.push((*id, share));
        }
        if let Some((_, share)) = shares.first_mut() {
            *share += left;
        }
        shares
    }

    /// Jobs that wait.
    pub fn waiting(&self) -> impl Iterator<Item = &T> {
        self.waiting.values().map(|waiting| &waiting.job)
    }

    /// Jobs that wait, and the keys that they have: both may be changed.
    pub fn waiting_mut(&mut self) -> impl Iterator<Item = (&mut BTreeSet<Key>, &mut T)> {
        self.waiting.values_mut().map(|waiting| (&mut waiting.keys, &mut waiting.job))
    }

    /// Takes out jobs that wait.
    pub fn take(&mut self, mut which: impl FnMut(&T) -> bool) -> Vec<T> {
        let taken = self.waiting.extract_if(.., |_, waiting| which(&waiting.job));
        taken.map(|(_, waiting)| waiting.job).collect()
    }
}

#[cfg(test)]
mod tests;
