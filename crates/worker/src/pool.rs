//! Processes for several tasks at a time.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use knarr_flow::engine::Progress;
use knarr_flow::thread_limit::ThreadLimit;

use super::{Effort, Failure, Task, Worker};
use crate::means::Means;

/// What a task gets of what all tasks have together.
#[derive(Debug, Clone)]
pub struct Share {
    /// What it may take.
    pub effort: Effort,
    /// How many of its threads may work at the moment.
    pub allowed: ThreadLimit,
    /// It may get more memory when less is done beside it.
    pub may_grow: bool,
}

impl Share {
    /// All there is, for one task at a time.
    pub fn of_all(jobs: usize) -> Self {
        let effort = Effort { jobs, background: false, memory: None };
        Self { effort, allowed: ThreadLimit::default(), may_grow: false }
    }
}

/// As many processes as there are tasks at a time. One that dies fails its own task only.
pub struct Pool {
    means: Means,
    idle: Mutex<Idle>,
}

/// Processes that have nothing to do.
struct Idle {
    workers: Vec<Worker>,
    /// How many of them stay: what they keep of freed memory is theirs.
    most: usize,
}

impl Pool {
    /// For engines with these means.
    pub fn new(means: Means) -> Self {
        Self { means, idle: Mutex::new(Idle { workers: Vec::new(), most: 1 }) }
    }

    /// Has a task done, and waits.
    ///
    /// # Errors
    /// As for [`Worker::ask`].
    pub fn ask<T: Task>(
        &self,
        task: &T,
        share: &Share,
        cancel: &AtomicBool,
        progress: &dyn Progress,
    ) -> Result<T::Answer, Failure> {
        let idle = self.idle().workers.pop();
        let mut worker = idle.unwrap_or_else(|| Worker::new(self.means.clone()));
        worker.allowed = share.allowed.clone();
        let answer = worker.ask(task, share.effort, cancel, progress);
        let mut idle = self.idle();
        if worker.running.is_some() && idle.workers.len() < idle.most {
            idle.workers.push(worker);
        }
        answer
    }

    /// No more processes without a task stay than that.
    pub fn keep(&self, most: usize) {
        let mut idle = self.idle();
        idle.most = most;
        let superfluous = idle.workers.len().saturating_sub(most);
        let superfluous: Vec<_> = idle.workers.drain(..superfluous).collect();
        drop(idle);
        if !superfluous.is_empty() {
            // Their end is waited for. Without a thread that happens here.
            let _ = std::thread::Builder::new().name("workers".to_owned()).spawn(move || drop(superfluous));
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
