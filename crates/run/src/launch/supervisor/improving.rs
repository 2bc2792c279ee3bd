//! Files that wait in tiers are encoded anew while there is time until they are moved, so that they become smaller. What else there is
//! to do comes first, and stops it.

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
use knarr_decisions::level::EncodingLevel;
use knarr_decisions::plan_cache::Family;
use knarr_decisions::queue::{Class, JobId};
use knarr_decisions::stage::improve::WaitingFile;

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
        let is_time = !is_ending && !self.setup.names.is_awaited() && !self.jobs.has_more_than_to_move();
        if self.stage.is_to_stop(is_time)
            && let Some(generation) = self.jobs.stop_improving()
        {
            self.stage.improved(generation, 0, true);
        }
        if self.stage.is_improving() || !is_time {
            return;
        }
        let rule = self.stage.rule_to_improve().and_then(|rule| self.setup.snapshot.config.file.get(rule));
        let rule = rule.and_then(FileRule::stage).cloned();
        let Some(outlook) = rule.and_then(|rule| self.outlook(&rule, 0)) else { return };
        let cores = if outlook.idle_cores < IDLE { 0.0 } else { outlook.idle_cores };
        let Some((generation, level)) = self.stage.improve(&self.planner, outlook.drain, cores) else { return };
        let raw = self.stage.waiting(generation).map_or(0, |file| file.raw);
        self.jobs.queue.push(Class::Improve, [], cost::of_bytes(raw), Todo::Improve { generation, level });
    }

    /// Begins to encode a file that waits at another level.
    pub(super) fn begin_improving(&mut self, start: Start, generation: u64, level: EncodingLevel) {
        let Start { id, share, cancel } = start;
        let directory = self.jobs.directories_of(&[generation]).pop();
        let found = directory.and_then(|directory| {
            let handed = HandedOver::read(&directory).ok()??;
            Some((self.staging(&handed).0?, handed, directory))
        });
        let Some((staging, handed, directory)) = found else {
            self.jobs.queue.end(id);
            return self.stage.improved(generation, 0, false);
        };
        let todo = Todo::Improve { generation, level };
        let running = self.running((handed.target.clone(), None), todo, &share, &cancel);
        let family = self.stage.waiting(generation).and_then(|file| file.family.clone());
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
            Err(_) => {
                self.jobs.queue.end(id);
                self.stage.improved(generation, 0, false);
            }
        }
    }

    /// A file was encoded anew, or was not.
    pub(super) fn improved(&mut self, job: JobId, improved: Result<Box<Improved>>) {
        let Some(running) = self.jobs.end(job) else { return };
        let Todo::Improve { generation, level } = running.todo else { return };
        let file = self.stage.waiting(generation).cloned();
        let (mut saved, mut again) = (0, false);
        match (improved, file.and_then(|file| Some((file.family?.at(Some(level)), file.bytes)))) {
            (Ok(improved), Some((family, before))) => {
                let Improved { repacked, is_kept } = *improved;
                saved = if is_kept { before.saturating_sub(repacked.output_bytes) } else { 0 };
                self.planner.improved((&family, &repacked.plan, &repacked.execution), is_kept.then_some(saved));
            }
            (Ok(_), None) => {}
            // One that was interrupted is tried again when there is time. If it is damaged, whoever moves it says so.
            (Err(error), _) => again = error.kind() == ErrorKind::Interrupted,
        }
        // Once is enough.
        self.stage.improved(generation, saved, again);
        // It may have been exchanged before whoever did that was killed.
        let directory = self.jobs.directories_of(&[generation]).pop();
        directory.into_iter().for_each(|directory| self.show_staged(&directory));
    }
}
