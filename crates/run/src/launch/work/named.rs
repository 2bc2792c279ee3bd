//! Files whose names somebody waits for, and files that the program does not want any more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use knarr_capture::HandedOver;
use knarr_names::Began;

use super::super::outcome::Outcome;
use super::Work;

impl Work<'_> {
    /// What somebody waits for comes first, and what the program has given up goes.
    pub(super) fn hasten(&mut self) {
        let urgent = self.begun.names.urgent(self.handed_over.iter());
        if urgent.is_empty() {
            return;
        }
        // Versions of a file are made in their order.
        let target = |directory: &PathBuf| Some(HandedOver::left_in(directory).ok()??.target);
        let targets: BTreeSet<PathBuf> = urgent.iter().filter_map(target).collect();
        let is_urgent = |directory: &PathBuf| {
            urgent.contains(directory) || target(directory).is_some_and(|target| targets.contains(&target))
        };
        let (first, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.handed_over).into_iter().partition(is_urgent);
        self.handed_over.extend(first.into_iter().chain(rest));
    }

    /// Files that are to be made of sessions. Until now nobody waited for their names.
    pub(super) fn keep_sessions(&mut self) {
        for directory in self.transfers.settle() {
            if let Ok(Some(handed)) = HandedOver::read(&directory) {
                self.begun.names.enter(&handed, &directory);
            }
            self.handed_over.push_back(directory);
        }
    }

    /// The directory, if the program wants a file of it. It cannot change its mind from now on.
    pub(super) fn wanted(&mut self, directory: PathBuf) -> Option<PathBuf> {
        let began = self.begun.names.begin(&directory);
        // A process that is killed as it gives a file up may have come so far.
        let given_up = HandedOver::given_up(&directory);
        match began {
            Began::Yes if given_up.is_none() => return Some(directory),
            // It says so in a moment.
            Began::Held => self.handed_over.push_front(directory),
            Began::Yes | Began::GivenUp => {
                self.begun.names.end(&directory, &Outcome::GivenUp);
                match given_up.or_else(|| HandedOver::read(&directory).ok().flatten()) {
                    Some(handed) => {
                        handed.remove(&directory);
                        self.files.add(handed.target, Outcome::GivenUp, String::new());
                    }
                    None => HandedOver::discard(&directory),
                }
            }
        }
        None
    }

    /// No file comes of a directory.
    pub(super) fn not_made(&mut self, directory: &Path, path: PathBuf, outcome: Outcome) {
        self.begun.names.end(directory, &outcome);
        self.done(path, outcome, None);
    }
}
