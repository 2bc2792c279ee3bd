//! Files whose names somebody waits for, and files that the program does not want any more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use knarr_capture::HandedOver;
use knarr_names::Began;

use super::Supervisor;
use super::running_jobs::Todo;
use crate::launch::outcome::Outcome;

impl Supervisor<'_> {
    /// What somebody waits for comes first, and what the program has given up goes.
    pub(super) fn hasten(&mut self) {
        for directory in self.setup.names.urgent(self.others.gathering.keys()) {
            // One that has just ended hears nothing.
            self.others.gathering.get(&directory).map(|want| want.send(()));
        }
        let waiting = self.jobs.queue.waiting().filter_map(Todo::directory).map(Path::to_owned);
        let directories: Vec<_> =
            waiting.chain(self.jobs.delivering().map(|(_, directory)| directory.clone())).collect();
        let urgent: BTreeSet<PathBuf> = self.setup.names.urgent(directories.iter()).into_iter().collect();
        if urgent.is_empty() {
            return;
        }
        // Versions of a file are made in their order: the earlier ones are as urgent.
        self.jobs.queue.raise(|todo| todo.directory().is_some_and(|directory| urgent.contains(directory)));
        let running: Vec<_> = self.jobs.delivering().filter(|(_, directory)| urgent.contains(*directory)).collect();
        let running: Vec<_> = running.into_iter().map(|(id, _)| id).collect();
        running.into_iter().for_each(|id| self.jobs.queue.raise_running(id));
    }

    /// Files that are to be made of sessions. Until now nobody waited for their names.
    pub(super) fn keep_sessions(&mut self) {
        for directory in self.transfers.settle() {
            if let Ok(Some(handed)) = HandedOver::read(&directory) {
                self.setup.names.enter(&handed, &directory);
            }
            self.push_delivery(directory);
        }
    }

    /// True if the program wants a file of what lies in a directory: it cannot change its mind from now on. `None` if it says so in a
    /// moment.
    pub(super) fn is_wanted(&mut self, directory: &Path) -> Option<bool> {
        let began = self.setup.names.begin(directory);
        // A process that is killed as it gives a file up may have come so far.
        let given_up = HandedOver::given_up(directory);
        match began {
            Began::Yes if given_up.is_none() => return Some(true),
            Began::Held => return None,
            Began::Written => {
                self.written_again(directory);
                return Some(false);
            }
            Began::Yes | Began::GivenUp => {}
        }
        self.setup.names.end(directory, &Outcome::GivenUp);
        match given_up.or_else(|| HandedOver::read(directory).ok().flatten()) {
            Some(handed) => {
                handed.remove(directory);
                self.report.files.add(handed.target, Outcome::GivenUp, String::new());
            }
            None => HandedOver::discard(directory),
        }
        Some(false)
    }
}
