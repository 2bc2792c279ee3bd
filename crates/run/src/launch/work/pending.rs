//! What the program has handed over, and asks for. Its messages are hints: what is to be done lies in the spool.

use std::path::PathBuf;

use knarr_array::error::{Error, ErrorKind};
use knarr_capture::{HandedOver, Request};

use super::Work;
use crate::launch::outcome::Outcome;
use crate::launch::spool::Spool;

impl Work<'_> {
    /// Looks for what nobody has told of. True if there was something.
    pub(super) fn look_for_more(&mut self) -> bool {
        let Some(spool) = self.begun.spool.as_ref().map(Spool::path) else { return false };
        self.unused.release(spool, self.waiting.is_any());
        let before = self.known.len();
        // What cannot be looked at now is looked at later.
        for directory in HandedOver::directories(spool).unwrap_or_default() {
            if self.known.contains(&directory) {
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
        self.known.len() > before
    }

    /// All ranks have closed the file in a directory.
    pub(super) fn closed(&mut self, directory: PathBuf) {
        // One that is shown is known already, and is handed over when the program has changed it.
        let is_new = self.known.insert(directory.clone()) || self.lent.remove(&directory);
        if is_new && !self.transfers.close(&directory) {
            self.take(directory);
        }
    }

    /// A file could not be handed over. What was put is kept, but for sessions of which no file is to be made.
    pub(super) fn set_aside(&mut self, directory: PathBuf) {
        let is_new = self.known.insert(directory.clone()) || self.lent.remove(&directory);
        if !is_new {
            return;
        }
        let unknown = || Error::new(ErrorKind::Write, "its values could not be handed over");
        let Some(kept) = HandedOver::left_in(&directory) else {
            if directory.exists() {
                let outcome = Outcome::Undelivered(unknown(), directory.clone());
                self.begun.names.end(&directory, &outcome);
                self.files.add(directory, outcome, String::new());
            }
            return;
        };
        let error = kept.failure.clone().unwrap_or_else(unknown);
        self.begun.names.end(&directory, &Outcome::Undelivered(error.clone(), directory.clone()));
        if kept.session > 0 && !kept.is_owed(&directory) {
            let why = format!("its values could not be handed over: {error}");
            return self.transfers.break_off(&directory, &kept, &why, false);
        }
        self.begun.notices.warn(&format!("{}: {error}", kept.target.display()));
        self.files.add(kept.target, Outcome::Undelivered(error, directory), String::new());
    }

    /// The program waits for an answer.
    pub(super) fn asked_for(&mut self, directory: PathBuf) {
        if self.known.insert(directory.clone()) {
            self.lent.insert(directory.clone());
            self.asked.push_back(directory);
        }
    }
}
