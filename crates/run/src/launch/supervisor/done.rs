//! What follows when a job has ended.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use knarr_array::error::{Error, Result};

use super::Supervisor;
use super::running_jobs::{RunningJob, Todo};
use crate::launch::aggregators::nodes::Fate;
use crate::launch::outcome::{Order, Outcome};
use knarr_decisions::plan_cache::Family;
use knarr_decisions::queue::JobId;

/// Work on a file that has ended.
pub(super) struct Ended {
    pub(super) path: PathBuf,
    /// In the spool, if the file was handed over and work on it had begun.
    pub(super) directory: Option<PathBuf>,
    /// It was told to stop.
    pub(super) is_stopped: bool,
    pub(super) took: Duration,
    /// The program had ended when it began: nobody but others can change the file.
    pub(super) after_end: bool,
    /// Where it is told.
    pub(super) order: Order,
    /// Family and number, if plans are kept for later files.
    pub(super) numbered: Option<(Family, u64)>,
    /// Of a file that was handed over, if work on it had begun.
    pub(super) generation: Option<u64>,
}

impl From<RunningJob> for Ended {
    fn from(running: RunningJob) -> Self {
        let is_stopped = running.cancel.load(Ordering::Relaxed);
        let RunningJob { path, directory, after_end, order, numbered, since, generation, .. } = running;
        Self { path, directory, is_stopped, took: since.elapsed(), after_end, order, numbered, generation }
    }
}

impl Supervisor<'_> {
    /// A job on a file has ended.
    pub(super) fn done(&mut self, job: JobId, outcome: Outcome, made: Option<Metadata>) {
        if let Some(running) = self.jobs.end(job) {
            self.conclude(running.into(), outcome, made);
        }
    }

    /// A job has found too little memory, and is tried again when it can have more.
    pub(super) fn again_with_more(&mut self, job: JobId) {
        let Some(running) = self.jobs.put_back(job) else { return };
        if let Todo::Drain { generation, .. } = running.todo {
            self.stage.waits_again(generation);
        }
        if let Some(numbered) = running.numbered {
            self.plan_cache.end(numbered, None);
        }
    }

    /// No file comes of a directory, on which work was not begun.
    pub(super) fn not_made(&mut self, directory: &Path, path: PathBuf, outcome: Outcome) {
        self.setup.names.end(directory, &outcome);
        let order = self.report.files.next();
        let (is_stopped, after_end, took) = (false, false, Duration::ZERO);
        let ended =
            Ended { path, directory: None, is_stopped, took, after_end, order, numbered: None, generation: None };
        self.conclude(ended, outcome, None);
    }

    pub(super) fn conclude(&mut self, ended: Ended, mut outcome: Outcome, made: Option<Metadata>) {
        let Ended { path, directory, is_stopped, took, after_end, order, numbered, generation } = ended;
        if let Some(directory) = &directory {
            self.drop_copy(directory, &mut outcome);
        }
        if let Some(numbered) = numbered {
            let made = if let Outcome::Packed(repacked) = &outcome { Some(&**repacked) } else { None };
            if let Some(made) = made {
                self.learn(&numbered.0, made);
            }
            self.plan_cache.end(numbered, made.map(|made| &made.plan));
        }
        match &outcome {
            // Stopped because the program writes it again: the ledger knows.
            Outcome::Failed(_) if is_stopped && !self.setup.engine.cancel.load(Ordering::Relaxed) => return,
            Outcome::Changed(_) if !after_end => return self.ledger.again(&path),
            Outcome::Died(error) if !after_end => {
                self.report.died.insert(path.clone(), error.clone());
                return self.ledger.again(&path);
            }
            _ => self.ledger.done(&path),
        }
        if let Some(handed) = self.others.multi_node.remove(&path) {
            self.setup.nodes.notify(&handed, delivered(&outcome));
        }
        let name = match &outcome {
            Outcome::Packed(repacked) => repacked.output.clone(),
            Outcome::Told(told) => told.path.clone(),
            _ => path.clone(),
        };
        match generation {
            Some(generation) if matches!(outcome, Outcome::Packed(_)) => {
                self.stage.durable(generation, self.now());
                self.supersede(&path, generation);
                self.drop_older_copies(&path, generation);
            }
            Some(generation) => self.stage.gone(generation),
            None => {}
        }
        let note = self.report.note(&path, &outcome, directory.is_some(), &self.setup.snapshot);
        let undelivered = match &outcome {
            Outcome::Undelivered(error, directory) => Some((error.clone(), directory.clone())),
            _ => None,
        };
        if let (Outcome::Packed(_), Some(directory)) = (&outcome, &directory) {
            self.transfers.made(&path, directory);
        }
        self.report.files.add_made(order, name, (outcome, made), note);
        if let Some((error, directory)) = undelivered {
            self.note_pending(&directory);
            self.keep(&directory, &error, took);
        }
    }
}

/// What other nodes are told of a file.
fn delivered(outcome: &Outcome) -> Result<Fate> {
    match outcome {
        Outcome::Packed(_) => Ok(Fate::Done),
        Outcome::Undelivered(error, _) | Outcome::Failed(error) | Outcome::Lost(error) => Err(error.clone()),
        _ => Err(Error::internal("it was not made")),
    }
}
