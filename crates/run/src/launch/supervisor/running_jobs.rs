//! Jobs that wait and run, and the worker processes for those that read files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use knarr_flow::thread_limit::ThreadLimit;

use crate::launch::jobs::ahead::Ahead;
use crate::launch::ledger::Due;
use crate::launch::outcome::Order;
use knarr_decisions::plan_cache::Family;
use knarr_decisions::queue::{JobId, Queue};
use knarr_worker::Pool;
use knarr_worker::means::Means;

/// What is to be done.
#[derive(Clone)]
pub(super) enum Todo {
    /// What the program asks for in a directory.
    Answer(PathBuf),
    /// A file is made of what was handed over in a directory, for a family whose plans are kept for later files. If that is not done by
    /// `local_by`, what was handed over is moved out of memory.
    Deliver { directory: PathBuf, family: Option<Family>, bytes: u64, local_by: Option<Instant> },
    /// A file of so many bytes that waits in a tier is moved to its place, `target`: the version with this number, of what lies in a
    /// directory.
    Drain { directory: PathBuf, target: PathBuf, generation: u64, bytes: u64 },
    /// A file is packed.
    Pack(Due),
    /// Chunks of an open file are encoded.
    Ahead(Box<Ahead>),
}

impl Todo {
    /// The directory of what was handed over.
    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Deliver { directory, .. } | Self::Drain { directory, .. } => Some(directory),
            _ => None,
        }
    }
}

/// A job that runs.
pub(super) struct RunningJob {
    pub(super) todo: Todo,
    /// The file.
    pub(super) path: PathBuf,
    /// In the spool, if it was handed over.
    pub(super) directory: Option<PathBuf>,
    /// Set to stop it.
    pub(super) cancel: Arc<AtomicBool>,
    /// How many of its threads may work.
    pub(super) allowed: ThreadLimit,
    pub(super) after_end: bool,
    pub(super) since: Instant,
    pub(super) order: Order,
    pub(super) numbered: Option<(Family, u64)>,
}

/// Jobs that wait and that run, and the processes that do what needs a file read.
pub(super) struct Jobs {
    pub(super) queue: Queue<Todo>,
    pub(super) running: BTreeMap<JobId, RunningJob>,
    pub(super) workers: Arc<Pool>,
    /// Threads that all of them have together.
    pub(super) threads: usize,
}

impl Jobs {
    pub(super) fn new(means: &Means) -> Self {
        let workers = Arc::new(Pool::new(means.clone()));
        Self { queue: Queue::default(), running: BTreeMap::new(), workers, threads: 1 }
    }

    /// A job has ended.
    pub(super) fn end(&mut self, job: JobId) -> Option<RunningJob> {
        self.queue.end(job);
        self.running.remove(&job)
    }

    /// A job waits again, for more memory.
    pub(super) fn put_back(&mut self, job: JobId) -> Option<RunningJob> {
        let running = self.running.remove(&job)?;
        self.queue.put_back(job, running.todo.clone(), true);
        Some(running)
    }

    /// The oldest version that waits to be moved, if none is being moved: they move one after the other. If another version of the same
    /// file was to be moved before, that comes first: the queue keeps versions of a file in their order.
    pub(super) fn next_to_drain(&self) -> Option<u64> {
        let version = |todo: &Todo| match todo {
            Todo::Drain { generation, target, .. } => Some((*generation, target.clone())),
            _ => None,
        };
        if self.running.values().any(|job| version(&job.todo).is_some()) {
            return None;
        }
        let waiting: Vec<_> = self.queue.waiting().filter_map(version).collect();
        let (_, oldest) = waiting.iter().min_by_key(|(generation, _)| *generation)?;
        waiting.iter().find(|(_, target)| target == oldest).map(|(generation, _)| *generation)
    }

    /// Bytes of files that wait to be moved, or are being moved.
    pub(super) fn to_drain(&self) -> u64 {
        let bytes = |todo: &Todo| if let Todo::Drain { bytes, .. } = todo { *bytes } else { 0 };
        let moving = self.running.values().map(|job| bytes(&job.todo));
        self.queue.waiting().map(bytes).chain(moving).sum()
    }

    /// Families and bytes of files that wait to be made.
    pub(super) fn to_make(&self) -> Vec<(Family, u64)> {
        let of = |todo: &Todo| match todo {
            Todo::Deliver { family: Some(family), bytes, .. } => Some((family.clone(), *bytes)),
            _ => None,
        };
        self.queue.waiting().filter_map(of).collect()
    }

    /// True if something is being done with a file.
    pub(super) fn is_busy(&self, path: &Path) -> bool {
        self.running.values().any(|job| job.path == path)
    }

    /// Stops what is done with a file.
    pub(super) fn stop(&self, path: &Path) {
        self.running.values().filter(|job| job.path == path).for_each(RunningJob::stop);
    }

    /// Stops all that is done.
    pub(super) fn stop_all(&self) {
        self.running.values().for_each(RunningJob::stop);
    }

    /// True if a file waits to be made of what lies in a directory, or to be moved to its place.
    pub(super) fn is_to_be_made(&self, directory: &Path) -> bool {
        self.queue.waiting().any(|todo| todo.directory() == Some(directory))
    }

    /// Directories of which files are being made.
    pub(super) fn delivering(&self) -> impl Iterator<Item = (JobId, &PathBuf)> {
        self.running.iter().filter_map(|(id, job)| Some((*id, job.directory.as_ref()?)))
    }

    /// Takes out the directories of which files were to be made.
    pub(super) fn take_deliveries(&mut self) -> Vec<PathBuf> {
        let taken = self.queue.take(|todo| todo.directory().is_some());
        taken.iter().filter_map(|todo| todo.directory().map(Path::to_owned)).collect()
    }
}

impl RunningJob {
    fn stop(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}
