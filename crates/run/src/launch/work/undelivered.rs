//! What waits for its delivery, or could not be delivered, leaves memory. What a bucket did not take is tried again.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use knarr_array::error::{Error, ErrorKind};
use knarr_capture::HandedOver;
use knarr_capture::config::Output;

use super::super::drain::Drained;
use super::Work;

impl Work<'_> {
    /// Moves what waits for its delivery, and what was not closed, out of memory. What other components read stays.
    pub(super) fn drain(&mut self) {
        let Some(spool) = &self.begun.spool else { return };
        let under_way = self.under_way.as_ref().map(|under_way| &under_way.path);
        let left = HandedOver::left(spool.path()).into_iter();
        let waiting: Vec<PathBuf> = left
            .filter(|(_, handed)| {
                handed.as_ref().is_ok_and(|handed| Some(&handed.target) != under_way && handed.session == 0)
            })
            .map(|(directory, _)| directory)
            .collect();
        self.move_out(waiting);
    }

    /// Moves these directories from memory to the disk.
    fn move_out(&mut self, waiting: Vec<PathBuf>) {
        if waiting.is_empty() {
            return;
        }
        if self.drained.is_none() {
            self.drained = Drained::create(self.begun.scratch.path()).ok();
        }
        let Some(drained) = &self.drained else { return };
        self.begun.nodes.add(drained.path());
        for from in waiting {
            let to = drained.take(&from);
            for directory in self.handed_over.iter_mut().filter(|directory| **directory == from) {
                to.clone_into(directory);
            }
            self.files.moved(&from, &to);
        }
    }

    /// Keeps what was not delivered. While a bucket takes nothing the program goes on: its values are not to fill the memory.
    pub(super) fn keep(&mut self, directory: &Path, error: &Error) {
        let Some(handed) = HandedOver::left_in(directory).filter(is_for_bucket) else { return };
        // Others are told at the end.
        if self.ended.is_none() && self.files.undelivered() == 1 {
            let then = if may_pass(error) { ", and it is tried again when the program has ended" } else { "" };
            let path = handed.target.display();
            self.begun.notices.warn(&format!("{path}: {error}\n  its values are kept, the program goes on{then}"));
        }
        // Ranks that wait for the outcome look for it there.
        if handed.rule.compress.wait.is_none() {
            self.move_out(vec![directory.to_owned()]);
        }
    }

    /// Has what a bucket did not take delivered once more when all else is done.
    pub(super) fn try_again(&mut self) {
        let is_idle = self.under_way.is_none() && self.handed_over.is_empty() && self.awaited == 0;
        let is_stopped = self.begun.engine.cancel.load(Ordering::Relaxed);
        if self.ended.is_none() || !is_idle || is_stopped || std::mem::replace(&mut self.has_tried_again, true) {
            return;
        }
        let is_worth_it = |error: &Error, directory: &Path| {
            // Other nodes have ended.
            let is_here = |handed: &HandedOver| is_for_bucket(handed) && handed.parts.is_empty();
            let is_one = may_pass(error) && HandedOver::left_in(directory).is_some_and(|handed| is_here(&handed));
            is_one && HandedOver::hand_over_again(directory).is_ok()
        };
        let mut again = self.files.take_undelivered(is_worth_it);
        again.sort_by_key(|directory| HandedOver::since(directory));
        self.handed_over.extend(again);
    }
}

/// True for errors of a server or of the way to it.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Write | ErrorKind::Read)
}

fn is_for_bucket(handed: &HandedOver) -> bool {
    matches!(handed.rule.compress.output(), Output::S3(_))
}
