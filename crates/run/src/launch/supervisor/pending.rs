//! What the program has handed over, and asks for. Its messages are hints: what is to be done lies in the spool.

use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind};
use knarr_capture::{HandedOver, Request};

use super::Supervisor;
use crate::launch::outcome::Outcome;
use crate::launch::spools::spool::Spool;

impl Supervisor<'_> {
    /// Looks for what nobody has told of. True if there was something.
    pub(super) fn look_for_more(&mut self) -> bool {
        let Some(spool) = self.setup.spool.as_ref().map(Spool::path) else { return false };
        self.in_spool.unused.release(spool, self.waiting.is_any());
        self.set_pending_aside();
        let before = self.in_spool.known.len();
        // What cannot be looked at now is looked at later.
        for directory in HandedOver::directories(spool).unwrap_or_default() {
            if self.in_spool.known.contains(&directory) {
                continue;
            }
            if HandedOver::is_closed(&directory) {
                self.closed(directory);
            } else if HandedOver::is_set_aside(&directory) {
                self.set_aside(directory);
            } else if Request::is_asked(&directory) {
                self.asked_for(directory);
            }
        }
        self.in_spool.known.len() > before
    }

    /// All ranks have closed the file in a directory.
    pub(super) fn closed(&mut self, directory: PathBuf) {
        // One that is shown is known already, and is handed over when the program has changed it.
        let is_new = self.in_spool.known.insert(directory.clone()) || self.in_spool.lent.remove(&directory);
        if !is_new {
            return;
        }
        match HandedOver::read(&directory) {
            Ok(Some(handed)) if self.transfers.close(&directory, &handed) => {}
            Ok(Some(handed)) if handed.maker().is_some() => self.await_maker(directory, handed),
            Ok(_) => self.push_delivery(directory),
            // Nobody knows which node makes the file.
            Err(error) => {
                let _ = HandedOver::set_aside(&directory);
                self.setup.nodes.tell_unread(&directory, &error);
                let outcome = Outcome::Undelivered(error, directory.clone());
                self.setup.names.end(&directory, &outcome);
                self.note_pending(&directory);
                self.report.files.add(directory, outcome, String::new());
            }
        }
    }

    /// Has a file that could not be made, and not be set aside either, set aside later: programs wait as long as it is pending.
    pub(super) fn note_pending(&mut self, directory: &Path) {
        if HandedOver::is_closed(directory) {
            self.in_spool.pending.insert(directory.to_owned());
        }
    }

    /// Sets aside what could not be set aside before.
    pub(super) fn set_pending_aside(&mut self) {
        self.in_spool
            .pending
            .retain(|directory| HandedOver::set_aside(directory).is_err() && HandedOver::is_closed(directory));
    }

    /// A file could not be handed over. What was put is kept, but for sessions of which no file is to be made.
    pub(super) fn set_aside(&mut self, directory: PathBuf) {
        let is_new = self.in_spool.known.insert(directory.clone()) || self.in_spool.lent.remove(&directory);
        if !is_new {
            return;
        }
        let unknown = || Error::new(ErrorKind::Write, "its values could not be handed over");
        let kept = match HandedOver::left_in(&directory) {
            Ok(Some(kept)) => kept,
            Ok(None) if !directory.exists() => return,
            unread => {
                let error = unread.err().unwrap_or_else(unknown);
                let outcome = Outcome::Undelivered(error, directory.clone());
                self.setup.names.end(&directory, &outcome);
                return self.report.files.add(directory, outcome, String::new());
            }
        };
        let error = kept.failure.clone().unwrap_or_else(unknown);
        self.setup.names.end(&directory, &Outcome::Undelivered(error.clone(), directory.clone()));
        if kept.session > 0 && !kept.is_owed(&directory) {
            let why = format!("its values could not be handed over: {error}");
            return self.transfers.break_off(&directory, &kept, &why, false);
        }
        self.setup.notices.warn(&format!("{}: {error}", kept.target.display()));
        self.report.files.add(kept.target, Outcome::Undelivered(error, directory), String::new());
    }
}
