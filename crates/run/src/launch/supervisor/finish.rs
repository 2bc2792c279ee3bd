//! What became of all files when the program has ended and no more can be made.

use std::collections::BTreeMap;
use std::path::PathBuf;

use knarr_array::error::{Error, ErrorKind};
use knarr_capture::HandedOver;

use super::Supervisor;
use super::begin::is_classic_there;
use super::running_jobs::Todo;
use crate::launch::jobs::deliver::{holds_nothing, was_not_begun};
use crate::launch::outcome::{Files, Outcome};
use crate::launch::spools::spool::Spool;

impl Supervisor<'_> {
    /// What became of all files.
    pub(in crate::launch) fn finish(&mut self) -> Files {
        let mut files = std::mem::take(&mut self.report.files);
        for (directory, open) in self.setup.spool.iter().flat_map(|spool| HandedOver::open(spool.path())) {
            if let Ok(open) = open
                && open.session > 0
            {
                let why = "the program has ended before it had closed the file";
                self.transfers.break_off(&directory, &open, why, open.may_be_kept());
            }
        }
        let late = self.transfers.finish(&mut files);
        if self.setup.signals.is_terminated() {
            self.move_out_now(&late);
        }
        let waiting: Vec<PathBuf> = self.jobs.take_deliveries().into_iter().chain(late).collect();
        for directory in waiting.iter().cloned() {
            let handed = HandedOver::read(&directory).ok().flatten();
            if let Some(handed) = &handed {
                self.setup.nodes.notify(handed, Err(Error::new(ErrorKind::Interrupted, "interrupted")));
            }
            let target = handed.map(|handed| handed.target);
            let outcome = Outcome::Undelivered(Error::new(ErrorKind::Interrupted, "interrupted"), directory.clone());
            files.add(target.unwrap_or(directory), outcome, String::new());
        }
        let memory = self.setup.spool.as_ref().map(Spool::path);
        let mut unknown = BTreeMap::new();
        for (directory, closed) in memory.into_iter().flat_map(HandedOver::pending) {
            match closed {
                // At this moment, by ranks that outlived the command.
                Ok(closed)
                    if closed.session == 0 && !waiting.contains(&directory) && !files.are_left_in(&directory) =>
                {
                    let error = Error::new(ErrorKind::Write, "it was closed after the program had ended");
                    files.add(closed.target, Outcome::Undelivered(error, directory), String::new());
                }
                Err(error) if !waiting.contains(&directory) => drop(unknown.insert(directory, error)),
                _ => {}
            }
        }
        let on_disk = self.evacuation.place.as_ref().map(|on_disk| on_disk.path());
        let spools = memory.into_iter().chain(on_disk).chain(self.staged_spools());
        for (directory, open) in spools.flat_map(HandedOver::open) {
            let open = match open {
                Ok(open) => open,
                Err(error) => {
                    unknown.insert(directory, error);
                    continue;
                }
            };
            // Other nodes may hold something of which no file can be made without all parts.
            let stands_alone = open.parts.is_empty() || was_not_begun(&directory, &open);
            if stands_alone && holds_nothing(&directory, &open) {
                // Nobody can have put anything.
                HandedOver::discard(&directory);
                continue;
            }
            let _ = HandedOver::set_aside(&directory);
            let what = match open.reserved.is_some() {
                true => "the program has ended, and one of its processes has it open in a tier",
                false => "the program has ended before it had closed the file",
            };
            let error = Error::new(ErrorKind::Write, what);
            files.add(open.target, Outcome::Undelivered(error, directory), String::new());
        }
        for (directory, error) in unknown {
            if !files.are_left_in(&directory) {
                files.add(directory.clone(), Outcome::Undelivered(error, directory), String::new());
            }
        }
        for todo in self.jobs.queue.take(|_| true) {
            if let Todo::Pack(due) = todo {
                self.ledger.again(&due.path);
            }
        }
        while let Some(due) = self.ledger.next(true, |_| false) {
            if !due.is_told && !is_classic_there(&due) {
                continue;
            }
            let path = due.path;
            let outcome = match self.report.died.remove(&path) {
                Some(error) => Outcome::Failed(error),
                None => Outcome::Left("interrupted before it was packed".to_owned()),
            };
            files.add(path, outcome, String::new());
        }
        for (path, why) in self.ledger.left() {
            files.add(path.to_path_buf(), Outcome::Left(why), String::new());
        }
        let (sent, unserved) = self.setup.nodes.transfer_bounds().take();
        files.add_lossy_transfers(sent, &unserved);
        files.add_lossy_transfers(self.transfers.take_lossy_transfers(), &BTreeMap::new());
        files
    }
}
