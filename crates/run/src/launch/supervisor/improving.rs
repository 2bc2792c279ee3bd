//! Files that wait in tiers are encoded anew while there is time until they are moved, so that they become smaller. What else there is
//! to do comes first, and stops it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use knarr_array::error::{ErrorKind, Result};
use knarr_capture::HandedOver;
use knarr_choose::place::objective::Objective;
use knarr_choose::plan::Action;
use knarr_config::{FileRule, Output};
use knarr_flow::engine::Silent;
use knarr_routes::compress::Repacked;

use super::Supervisor;
use super::begin::Start;
use super::running_jobs::Todo;
use crate::launch::jobs::cost;
use crate::launch::jobs::stage::improve::{Improve, Improved};
use crate::launch::news::{News, spawn};
use knarr_decisions::improve::{Means, WaitingFile};
use knarr_decisions::level::EncodingLevel;
use knarr_decisions::plan_cache::Family;
use knarr_decisions::queue::{Class, JobId};

/// A core of which less is idle is the program's.
const IDLE: f64 = 0.5;

impl Supervisor<'_> {
    /// A file as it waits to be moved. `family` has the level at which it was encoded.
    pub(super) fn waiting_file(&self, family: Option<&Family>, handed: &HandedOver, made: &Repacked) -> WaitingFile {
        let is_lossless = made.plan.variables.iter().all(|variable| match &variable.action {
            Action::Encode(choice) => choice.bound.is_none(),
            Action::Copy(_) => true,
        });
        let rule = &handed.rule;
        let is_of_levels = rule.stage().is_some_and(|rule| !matches!(rule.objective(), Objective::Weighted { .. }));
        // What the program itself has written stays as it is, or was packed.
        let may_be = is_lossless && is_of_levels && handed.reserved.is_none();
        let may_be = may_be && *rule.compress().output() == Output::Netcdf4;
        let family = family.filter(|family| may_be && family.level.is_some()).cloned();
        WaitingFile { family, raw: handed.bytes, bytes: made.output_bytes }
    }

    /// Begins to encode a file anew, if there is nothing else to do but to move files; stops it otherwise.
    pub(super) fn improve(&mut self) {
        let is_ending = self.setup.engine.cancel.load(Ordering::Relaxed) || self.setup.signals.is_terminated();
        if is_ending || self.setup.names.is_awaited() || self.jobs.has_more_than_to_move() {
            return self.jobs.stop_improving();
        }
        if let Some(directory) = self.jobs.improving() {
            // The link is not to wait for it.
            if self.jobs.is_next_to_drain(directory) {
                self.jobs.stop_improving();
            }
            return;
        }
        let (waiting, moving) = self.jobs.row();
        let rule = waiting.iter().find_map(|(_, file)| file.family.as_ref()).map(|family| family.rule);
        let rule = rule.and_then(|rule| self.setup.snapshot.config.file.get(rule)).and_then(FileRule::stage).cloned();
        let Some(outlook) = rule.and_then(|rule| self.outlook(&rule, 0)) else { return };
        let cores = if outlook.idle_cores < IDLE { 0.0 } else { outlook.idle_cores };
        let files: Vec<WaitingFile> = waiting.iter().map(|(_, file)| file.clone()).collect();
        // Half of the file that is being moved is there, as a rule.
        let means = Means { moving: moving / 2, drain: outlook.drain, cores };
        let Some((index, level)) = self.planner.to_improve(&files, means) else { return };
        let Some((directory, file)) = waiting.into_iter().nth(index) else { return };
        self.jobs.queue.push(Class::Improve, [], cost::of_bytes(file.raw), Todo::Improve { directory, level });
    }

    /// Begins to encode the file that waits of a directory at another level.
    pub(super) fn begin_improving(&mut self, start: Start, directory: PathBuf, level: EncodingLevel) {
        let Start { id, share, cancel } = start;
        let handed = HandedOver::read(&directory).ok().flatten();
        let found = handed.and_then(|handed| Some((self.staging(&handed).0?, handed)));
        let Some((staging, handed)) = found else { return self.jobs.queue.end(id) };
        let todo = Todo::Improve { directory: directory.clone(), level };
        let running = self.running((handed.target.clone(), None), todo, &share, &cancel);
        let family = self.jobs.waiting_in(&directory).and_then(|file| file.family.clone());
        let earlier = family.as_ref().and_then(|family| self.plan_cache.earlier(&family.at(Some(level))));
        let (command, when) = (self.setup.command.clone(), self.setup.when.clone());
        let task = Improve { directory, handed, staging, level, earlier: earlier.as_deref().cloned(), command, when };
        let (workers, send) = (Arc::clone(&self.jobs.workers), self.send.clone());
        let started = spawn("improver", move || {
            let answer = workers.ask(&task, &share, &cancel, &Silent);
            let improved = task.ended(answer);
            let _ = send.send(News::Improved(id, improved.map(Box::new)));
        });
        match started {
            Ok(()) => drop(self.jobs.running.insert(id, running)),
            Err(_) => self.jobs.queue.end(id),
        }
    }

    /// A file was encoded anew, or was not.
    pub(super) fn improved(&mut self, job: JobId, improved: Result<Box<Improved>>) {
        let Some(running) = self.jobs.end(job) else { return };
        let Todo::Improve { directory, level } = running.todo else { return };
        let Some(file) = self.jobs.waiting_in(&directory) else { return };
        let Some(family) = file.family.as_ref().map(|family| family.at(Some(level))) else { return };
        let improved = match improved {
            Ok(improved) => *improved,
            Err(error) => {
                // One that was interrupted is tried again when there is time. If it is damaged, whoever moves it says so.
                if error.kind() != ErrorKind::Interrupted {
                    file.family = None;
                }
                // It may have been exchanged before whoever did that was killed.
                return self.show_staged(&directory);
            }
        };
        let Improved { repacked, is_kept } = improved;
        let saved = if is_kept { file.bytes.saturating_sub(repacked.output_bytes) } else { 0 };
        file.bytes -= saved;
        // Once is enough.
        file.family = None;
        self.planner.improved((&family, &repacked.plan, &repacked.execution), is_kept.then_some(saved));
        if is_kept {
            self.show_staged(&directory);
        }
    }
}
