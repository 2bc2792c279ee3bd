//! Moves what waits in memory to the disk when SIGTERM comes: the batch system ends all some seconds later, and clears memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::{Error, Result};
use knarr_capture::HandedOver;

use super::Work;
use crate::launch::news::{News, spawn};
use crate::launch::outcome::Outcome;
use crate::launch::spools::drain::Drained;

impl Work<'_> {
    /// When SIGTERM has come: what the program has closed goes to the disk at once, and what it has not closed when it has
    /// ended. What other components read stays.
    pub(super) fn heed_termination(&mut self) {
        let has_ended = self.ended.is_some();
        if !self.begun.signals.is_terminated() || self.has_drained[usize::from(has_ended)] {
            return;
        }
        self.has_drained[usize::from(has_ended)] = true;
        let Some(spool) = &self.begun.spool else { return };
        let is_meant = |directory: &PathBuf, handed: &HandedOver| {
            let is_set_aside = HandedOver::is_set_aside(directory);
            let is_closed = HandedOver::is_closed(directory) || has_ended;
            (is_set_aside || is_closed && handed.session == 0) && !self.copies.contains_key(directory)
        };
        let left = HandedOver::left(spool.path()).into_iter();
        let waiting =
            left.filter(|(directory, handed)| handed.as_ref().is_ok_and(|handed| is_meant(directory, handed)));
        let mut waiting: Vec<_> = waiting.filter_map(|(directory, handed)| Some((directory, handed.ok()?))).collect();
        // The oldest ones first.
        waiting.sort_by_key(|(_, handed)| handed.generation);
        self.move_out(waiting.into_iter().map(|(directory, _)| directory).collect());
    }

    /// The place on the disk, made if there is none yet. The user is told if there can be none.
    fn place(&mut self) -> Option<Arc<Drained>> {
        if self.drained.is_none() {
            match Drained::create(self.begun.scratch.path()) {
                Ok(drained) => self.drained = Some(Arc::new(drained)),
                Err(error) => self.stays(&error),
            }
        }
        let drained = self.drained.clone()?;
        self.begun.nodes.add(drained.path());
        Some(drained)
    }

    /// Tells that something stays in memory.
    fn stays(&self, error: &Error) {
        self.begun
            .notices
            .warn(&format!("what was handed over stays in memory, and is lost if that is cleared: {error}"));
    }

    /// Moves these directories from memory to the disk.
    pub(super) fn move_out_now(&mut self, waiting: &[PathBuf]) {
        if waiting.is_empty() {
            return;
        }
        let Some(drained) = self.place() else { return };
        for from in waiting {
            match drained.copy(from) {
                Ok(Some(to)) => self.moved(from, &to),
                Ok(None) => {}
                Err(error) => self.stays(&error),
            }
        }
    }

    /// Begins to move these directories from memory to the disk.
    pub(super) fn move_out(&mut self, waiting: Vec<PathBuf>) {
        if waiting.is_empty() {
            return;
        }
        let Some(drained) = self.place() else { return };
        let send = self.send.clone();
        let started = spawn("drain", move || {
            for from in waiting {
                let to = drained.copy(&from);
                let _ = send.send(News::Drained(from, to));
            }
            let _ = send.send(News::DrainEnded);
        });
        self.draining += usize::from(started.is_ok());
    }

    /// What lies in `from` was copied.
    pub(super) fn drained(&mut self, from: &Path, to: Result<Option<PathBuf>>) {
        let to = match to {
            Ok(Some(to)) => to,
            Ok(None) => return,
            Err(error) => return self.stays(&error),
        };
        self.known.insert(to.clone());
        let under_way = self.under_way.as_ref().and_then(|under_way| under_way.directory.as_deref());
        if under_way == Some(from) {
            self.copies.insert(from.to_owned(), to);
        } else if HandedOver::left_in(from).is_ok_and(|left| left.is_none()) {
            // It was delivered meanwhile.
            HandedOver::discard(&to);
        } else {
            self.moved(from, &to);
        }
    }

    /// From now on the copy counts.
    fn moved(&mut self, from: &Path, to: &Path) {
        for directory in self.handed_over.iter_mut().filter(|directory| *directory == from) {
            to.clone_into(directory);
        }
        self.files.moved(from, to);
        HandedOver::moved(from);
    }

    /// What lies in a directory was delivered, or was not: one of two copies is enough.
    pub(super) fn drop_copy(&mut self, directory: &Path, outcome: &mut Outcome) {
        let Some(copy) = self.copies.remove(directory) else { return };
        match outcome {
            Outcome::Undelivered(_, kept) => {
                let _ = HandedOver::set_aside(&copy);
                HandedOver::moved(directory);
                *kept = copy;
            }
            _ => HandedOver::discard(&copy),
        }
    }
}
