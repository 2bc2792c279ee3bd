//! Jobs that wait and run, and the worker processes for those that read files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use knarr_flow::thread_limit::ThreadLimit;

use crate::launch::jobs::ahead::Ahead;
use crate::launch::outcome::Order;
use knarr_decisions::ledger::Due;
use knarr_decisions::level::EncodingLevel;
use knarr_decisions::plan_cache::Family;
use knarr_decisions::queue::{JobId, Queue};
use knarr_worker::Pool;
use knarr_worker::means::Means;

/// What is to be done.
#[derive(Clone)]
pub(super) enum Todo {
    /// What the program asks for in a directory.
    Answer(PathBuf),
    /// A file is made of what was handed over in a directory, the version with this number, for a family whose plans are kept for later
    /// files.
    Deliver { directory: PathBuf, generation: u64, family: Option<Family>, bytes: u64 },
    /// A file that waits in a tier is moved to its place, `target`: the version with this number, of what lies in a directory.
    Drain { directory: PathBuf, target: PathBuf, generation: u64 },
    /// The version with this number, which waits to be moved, is encoded anew at this level.
    Improve { generation: u64, level: EncodingLevel },
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

    /// The version of a file that was handed over; `None` of others, or if nobody knows it.
    pub(super) fn generation(&self) -> Option<u64> {
        match self {
            Self::Deliver { generation, .. } | Self::Drain { generation, .. } | Self::Improve { generation, .. } => {
                Some(*generation).filter(|generation| *generation > 0)
            }
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
    /// Of a file that was handed over.
    pub(super) generation: Option<u64>,
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

    /// The directories of what was handed over of these versions, as far as something is done about them.
    pub(super) fn directories_of(&self, generations: &[u64]) -> Vec<PathBuf> {
        let all = self.queue.waiting().chain(self.running.values().map(|job| &job.todo));
        let is_one = |todo: &&Todo| todo.generation().is_some_and(|generation| generations.contains(&generation));
        all.filter(is_one).filter_map(Todo::directory).map(Path::to_owned).collect()
    }

    /// True if there is more to do than to move files and to encode them anew.
    pub(super) fn has_more_than_to_move(&self) -> bool {
        let is_more = |todo: &Todo| !matches!(todo, Todo::Drain { .. } | Todo::Improve { .. });
        self.queue.waiting().any(is_more) || self.running.values().any(|job| is_more(&job.todo))
    }

    /// Stops to encode a file anew. Returns the version if that was not begun.
    pub(super) fn stop_improving(&mut self) -> Option<u64> {
        let is_one = |todo: &Todo| matches!(todo, Todo::Improve { .. });
        self.running.values().filter(|job| is_one(&job.todo)).for_each(RunningJob::stop);
        self.queue.take(is_one).iter().find_map(Todo::generation)
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
