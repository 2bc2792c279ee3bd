//! What could not be delivered to a bucket leaves memory, and is tried again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use knarr_array::error::{Error, ErrorKind};
use knarr_capture::HandedOver;

use super::Supervisor;
use super::running_jobs::Todo;
use crate::launch::jobs::outputs::Outputs;
use crate::launch::outcome::Outcome;
use crate::launch::spools::spool::Spool;

/// Files that are made of what was handed over.
#[derive(Default)]
pub(super) struct Deliveries {
    pub(super) outputs: Outputs,
    /// Versions of files that other nodes make.
    pub(super) versions: BTreeMap<PathBuf, u64>,
    /// Why a server did not answer: nothing more goes there before the program has ended.
    pub(super) server_is_down: Option<Error>,
    /// What was not delivered was tried again.
    has_tried_again: bool,
}

impl Supervisor<'_> {
    /// A version of a file was made: what could not be made of older ones is of no use any more.
    pub(super) fn supersede(&mut self, target: &Path, generation: u64) {
        let spools = self.spools().into_iter();
        let older: Vec<_> = spools.flat_map(|spool| HandedOver::superseded(&spool, target, generation)).collect();
        for directory in older {
            HandedOver::discard(&directory);
            self.report.files.superseded(&directory);
        }
        // One that waits in a tier was passed by one for which no tier has room.
        let is_older = |todo: &Todo| match todo {
            Todo::Drain { target: of, generation: its, .. } => of == target && *its < generation,
            _ => false,
        };
        for todo in self.jobs.queue.take(is_older) {
            let Todo::Drain { directory, generation, .. } = todo else { continue };
            self.setup.names.end(&directory, &Outcome::GivenUp);
            self.stage.gone(generation);
            match HandedOver::left_in(&directory).ok().flatten() {
                Some(handed) => handed.remove(&directory),
                None => HandedOver::discard(&directory),
            }
        }
    }

    /// Where versions of files may be.
    pub(super) fn spools(&self) -> Vec<PathBuf> {
        let on_disk = self.evacuation.place.iter().map(|on_disk| on_disk.path());
        let memory = self.setup.spool.iter().map(Spool::path);
        memory.chain(on_disk).chain(self.staged_spools()).map(Path::to_owned).collect()
    }

    /// Keeps what was not delivered, which was tried for so long. While a bucket takes nothing the program goes on: its values are
    /// not to fill the memory.
    pub(super) fn keep(&mut self, directory: &Path, error: &Error, took: Duration) {
        let Some(handed) = HandedOver::left_in(directory).ok().flatten().filter(is_for_bucket) else { return };
        if may_pass(error) && took > NO_ANSWER {
            // Each file would wait as long as the first one has.
            self.deliveries.server_is_down.get_or_insert_with(|| error.clone());
        }
        // Others are told at the end.
        if self.ended.is_none() && self.report.files.undelivered() == 1 {
            let then = if may_pass(error) { ", and it is tried again when the program has ended" } else { "" };
            let path = handed.target.display();
            self.setup.notices.warn(&format!("{path}: {error}\n  its values are kept, the program goes on{then}"));
        }
        // Ranks that wait for the outcome look for it there.
        if handed.rule.compress().wait.is_none() && !self.is_in_tier(directory) {
            self.move_out(vec![(directory.to_owned(), handed)]);
        }
    }

    /// Has what a bucket did not take delivered once more when all else is done.
    pub(super) fn try_again(&mut self) {
        let is_busy = self.jobs.queue.is_running() || self.jobs.queue.waiting().any(|todo| todo.directory().is_some());
        let is_idle = !is_busy && self.others.awaited + self.evacuation.threads == 0;
        let is_stopped = self.setup.engine.cancel.load(Ordering::Relaxed);
        if self.ended.is_none()
            || !is_idle
            || is_stopped
            || std::mem::replace(&mut self.deliveries.has_tried_again, true)
        {
            return;
        }
        let is_worth_it = |error: &Error, directory: &Path| {
            // Other nodes have ended.
            let is_whole = HandedOver::has_image(directory);
            let is_here = |handed: &HandedOver| is_for_bucket(handed) && (handed.parts.is_empty() || is_whole);
            let handed = HandedOver::left_in(directory).ok().flatten();
            let is_one = may_pass(error) && handed.is_some_and(|handed| is_here(&handed));
            is_one && HandedOver::hand_over_again(directory).is_ok()
        };
        self.deliveries.server_is_down = None;
        let mut again = self.report.files.take_undelivered(is_worth_it);
        again.sort_by_key(|directory| Some(HandedOver::left_in(directory).ok()??.generation));
        again.into_iter().for_each(|directory| self.push_delivery(directory));
    }
}

/// A server that says no does so sooner: this one was asked again and again.
const NO_ANSWER: Duration = Duration::from_secs(10);

/// True for errors of a server or of the way to it.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Write | ErrorKind::Read)
}

pub(super) fn is_for_bucket(handed: &HandedOver) -> bool {
    handed.rule.bucket().is_some()
}
