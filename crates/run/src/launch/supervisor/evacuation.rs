//! Moves what waits in memory to a disk when SIGTERM comes: the batch system ends all some seconds later, and clears memory. Files of
//! route `stage` go to a tier that has room, also when their rule says how soon they are to survive a restart of the node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::{Error, Result};
use knarr_capture::HandedOver;

use super::Supervisor;
use super::running_jobs::Todo;
use crate::launch::news::{News, spawn};
use crate::launch::outcome::Outcome;
use crate::launch::spools::on_disk::SpoolOnDisk;
use knarr_decisions::queue::Key;

/// What was moved out of memory.
#[derive(Default)]
pub(super) struct Evacuation {
    /// Where it lies.
    pub(super) place: Option<Arc<SpoolOnDisk>>,
    /// Threads that move something.
    pub(super) threads: usize,
    /// Copies of what is being delivered from memory.
    copies: BTreeMap<PathBuf, PathBuf>,
    /// SIGTERM was heeded: while the program ran, and when it had ended.
    has_heeded: [bool; 2],
}

impl Supervisor<'_> {
    /// When SIGTERM has come: what the program has closed goes to the disk at once, and what it has not closed when it has
    /// ended. What other components read stays.
    pub(super) fn check_termination(&mut self) {
        let has_ended = self.ended.is_some();
        if !self.setup.signals.is_terminated() || self.evacuation.has_heeded[usize::from(has_ended)] {
            return;
        }
        self.evacuation.has_heeded[usize::from(has_ended)] = true;
        let Some(spool) = &self.setup.spool else { return };
        let is_meant = |directory: &PathBuf, handed: &HandedOver| {
            let is_set_aside = HandedOver::is_set_aside(directory);
            let is_closed = HandedOver::is_closed(directory) || has_ended;
            (is_set_aside || is_closed && handed.session == 0) && !self.evacuation.copies.contains_key(directory)
        };
        let left = HandedOver::left(spool.path()).into_iter();
        let waiting =
            left.filter(|(directory, handed)| handed.as_ref().is_ok_and(|handed| is_meant(directory, handed)));
        let waiting: Vec<_> = waiting.filter_map(|(directory, handed)| Some((directory, handed.ok()?))).collect();
        self.move_out(waiting);
    }

    /// Moves files to a tier, as they were handed over, that would otherwise be safe from a restart of the node too late.
    pub(super) fn check_local(&mut self) {
        if self.setup.signals.is_terminated() {
            return;
        }
        let late = self.jobs.directories_of(&self.stage.late(self.now())).into_iter();
        let late = late.filter_map(|directory| Some((directory.clone(), HandedOver::read(&directory).ok()??)));
        self.move_out(late.collect());
    }

    /// The place on the disk, made if there is none yet. The user is told if there can be none.
    fn place(&mut self) -> Option<Arc<SpoolOnDisk>> {
        if self.evacuation.place.is_none() {
            match SpoolOnDisk::create(self.setup.scratch.path()) {
                Ok(on_disk) => self.evacuation.place = Some(Arc::new(on_disk)),
                Err(error) => self.stays(&error),
            }
        }
        let on_disk = self.evacuation.place.clone()?;
        self.setup.nodes.add(on_disk.path());
        Some(on_disk)
    }

    /// Tells that something stays in memory.
    fn stays(&self, error: &Error) {
        self.setup
            .notices
            .warn(&format!("what was handed over stays in memory, and is lost if that is cleared: {error}"));
    }

    /// Moves these directories from memory to the disk.
    pub(super) fn move_out_now(&mut self, waiting: &[PathBuf]) {
        if waiting.is_empty() {
            return;
        }
        let Some(on_disk) = self.place() else { return };
        for from in waiting {
            match on_disk.copy(from) {
                Ok(Some(to)) => self.moved(from, &to),
                Ok(None) => {}
                Err(error) => self.stays(&error),
            }
        }
    }

    /// Begins to move what was handed over in these directories from memory to a disk, the oldest first.
    pub(super) fn move_out(&mut self, mut waiting: Vec<(PathBuf, HandedOver)>) {
        if waiting.is_empty() {
            return;
        }
        waiting.sort_by_key(|(_, handed)| handed.generation);
        let is_staged = |handed: &HandedOver| handed.rule.stage().is_some();
        let staged = waiting.iter().find(|(_, handed)| is_staged(handed)).cloned();
        let tiers = staged.map(|(_, handed)| self.staging(&handed).1).unwrap_or_default();
        // The disk of all nodes comes last.
        let needs_no_other = !tiers.is_empty() && waiting.iter().all(|(_, handed)| is_staged(handed));
        let last = if needs_no_other && !self.setup.signals.is_terminated() { None } else { self.place() };
        let send = self.send.clone();
        let started = spawn("evacuation", move || {
            for (from, handed) in waiting {
                let tiers = tiers.iter().filter(|_| is_staged(&handed));
                let mut copied = Ok(None);
                for place in tiers.chain(&last) {
                    copied = place.copy(&from);
                    if copied.is_ok() {
                        break;
                    }
                }
                let _ = send.send(News::MovedOut(from, copied));
            }
            // They go with the main loop.
            drop((tiers, last));
            let _ = send.send(News::MovingEnded);
        });
        self.evacuation.threads += usize::from(started.is_ok());
    }

    /// What lies in `from` was copied.
    pub(super) fn moved_out(&mut self, from: &Path, to: Result<Option<PathBuf>>) {
        let to = match to {
            Ok(Some(to)) => to,
            Ok(None) => return,
            Err(error) => return self.stays(&error),
        };
        self.in_spool.known.insert(to.clone());
        // It may have been encoded meanwhile.
        if let Err(error) = HandedOver::bring_image(from, &to) {
            HandedOver::drop_copy(&to);
            return self.stays(&error);
        }
        if let Ok(Some(handed)) = HandedOver::read(&to) {
            self.stage.copied(handed.generation, self.now());
        }
        if self.jobs.delivering().any(|(_, directory)| directory == from) {
            self.evacuation.copies.insert(from.to_owned(), to);
        } else if HandedOver::left_in(from).is_ok_and(|left| left.is_none()) && !self.jobs.is_to_be_made(from) {
            // It was delivered meanwhile, or another copy counts: what links lead to is not this one's.
            HandedOver::drop_copy(&to);
        } else {
            self.moved(from, &to);
        }
    }

    /// From now on the copy counts.
    fn moved(&mut self, from: &Path, to: &Path) {
        for (keys, todo) in self.jobs.queue.waiting_mut() {
            if let Todo::Deliver { directory, .. } | Todo::Drain { directory, .. } = todo
                && directory == from
            {
                to.clone_into(directory);
                keys.insert(Key::Path(to.to_owned()));
            }
        }
        self.report.files.moved(from, to);
        HandedOver::moved(from, to);
    }

    /// What lay in a directory waits in a tier, and is known in another directory there, if `is_known`: a copy is of no use. Otherwise
    /// the copy may be that directory, which is returned.
    pub(super) fn drop_copy_of_staged(&mut self, directory: &Path, is_known: bool) -> Option<PathBuf> {
        let copy = self.evacuation.copies.remove(directory)?;
        let may_be_it = !is_known && self.staged_spools().any(|spool| copy.starts_with(spool));
        if may_be_it && HandedOver::bring_image(directory, &copy) == Ok(true) {
            return Some(copy);
        }
        HandedOver::drop_copy(&copy);
        None
    }

    /// What lies in a directory was delivered, or was not: one of two copies is enough.
    pub(super) fn drop_copy(&mut self, directory: &Path, outcome: &mut Outcome) {
        let Some(copy) = self.evacuation.copies.remove(directory) else { return };
        match outcome {
            Outcome::Undelivered(_, kept) => {
                let _ = HandedOver::set_aside(&copy);
                HandedOver::moved(directory, &copy);
                *kept = copy;
            }
            // It was cleared away where it lay.
            Outcome::Lost(error) => {
                let _ = HandedOver::set_aside(&copy);
                *outcome = Outcome::Undelivered(error.clone(), copy);
            }
            _ => HandedOver::discard(&copy),
        }
    }
}
