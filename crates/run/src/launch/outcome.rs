//! What became of files and time steps.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use knarr_array::error::Error;
use knarr_routes::compress::{Forecast, Repacked};
use serde_json::Value;

use super::aggregators::lossy_transfers::{LossyTransfer, LossyTransfers};
use knarr_capture::processes::Listings;

/// What became of a file.
pub enum Outcome {
    /// The packed file is in place.
    Packed(Box<Repacked>),
    /// The file stays as it is, and this is told of it.
    Told(Box<Told>),
    /// The file stays as it is, for this reason.
    Left(String),
    /// It is being written again, or was: packing may be tried later.
    Changed(String),
    /// The process that was to pack it died: packing may be tried later.
    Died(Error),
    /// Packing failed; the file stays as it is.
    Failed(Error),
    /// What the program wrote has another name, which the error tells.
    Displaced(Error),
    /// It was transferred between components.
    Transferred {
        /// Bytes of all sessions; on the side that reads, what was read of them.
        bytes: u64,
        /// Which way, and how often.
        words: String,
    },
    /// Something of it did not come from another component, or did not go there.
    Missed(Error),
    /// Sessions of it were discarded that a component was to read.
    Discarded(Error),
    /// It is in a file that another node has made or looks after, or in one that it has transferred.
    Gathered {
        /// That node.
        node: String,
    },
    /// The program did not want it any more before it was made: it has removed it, or written it anew.
    GivenUp,
    /// No file could be made of what the program handed over, which stays in this directory.
    Undelivered(Error, PathBuf),
    /// No file could be made of what the program handed over, and it is not here any more: it is lost, or on another node.
    Lost(Error),
}

/// What is told of a file that stays as it is.
pub struct Told {
    /// Its name now.
    pub path: PathBuf,
    /// What became of it, in one word for programs.
    pub outcome: &'static str,
    /// The same for people.
    pub words: String,
    /// What the document says of it besides.
    pub more: Value,
    /// What packing it would give, if that was asked.
    pub forecast: Option<Forecast>,
}

impl Outcome {
    /// What the system says of the packed file, which is in place.
    pub(super) fn made(&self) -> Option<Metadata> {
        let Self::Packed(made) = self else { return None };
        let found = std::fs::symlink_metadata(&made.output).ok()?;
        (found.is_dir() || found.len() == made.output_bytes).then_some(found)
    }
}

/// A file, and what became of it.
pub struct Done {
    /// Its name.
    pub path: PathBuf,
    /// What became of it.
    pub outcome: Outcome,
    /// What there is to say besides.
    pub note: String,
    /// What crossed the network of variables that may lose something on their way.
    pub lossy_transfers: Vec<LossyTransfer>,
    /// Its place among the others.
    order: Order,
}

/// Where a file is told: files are told in the order in which work on them began, whatever was done first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order(u64);

/// Files in the order in which they were done.
#[derive(Default)]
pub(super) struct Files {
    done: Vec<Done>,
    /// How many places were given.
    last: u64,
    /// Which files were made under these names: the program may give them others.
    made: BTreeMap<PathBuf, Metadata>,
}

impl Files {
    /// The next place: for a file on which work begins.
    pub(super) fn next(&mut self) -> Order {
        self.last += 1;
        Order(self.last)
    }

    /// Notes an outcome, in place of an earlier one of the same file. What was not delivered is told in any case: it lies in the spool.
    pub(super) fn add(&mut self, path: PathBuf, outcome: Outcome, note: String) {
        let order = self.next();
        self.add_made(order, path, (outcome, None), note);
    }

    /// The same with its place and what [`Outcome::made`] said.
    pub(super) fn add_made(
        &mut self,
        order: Order,
        path: PathBuf,
        (outcome, made): (Outcome, Option<Metadata>),
        note: String,
    ) {
        self.follow(&path, &mut Listings::default());
        self.made.extend(made.map(|made| (path.clone(), made)));
        self.done.retain(|other| other.path != path || is_kept(other));
        if matches!(outcome, Outcome::Left(_)) && self.done.iter().any(|other| other.path == path) {
            return;
        }
        self.done.push(Done { path, outcome, note, lossy_transfers: Vec::new(), order });
    }

    /// What was made under this name has another name beside it now, if the program has renamed it.
    fn follow(&mut self, path: &Path, listings: &mut Listings) {
        let Some(name) = self.made.get(path).and_then(|known| listings.named_beside(path, known)) else { return };
        let is_it = |done: &Done| done.path == path && matches!(done.outcome, Outcome::Packed(_));
        let (Some(known), Some(at)) = (self.made.remove(path), self.done.iter().position(is_it)) else { return };
        let mut moved = self.done.remove(at);
        // What had that name may have another one, too: programs turn a few names around.
        self.follow(&name, listings);
        self.done.retain(|done| done.path != name || is_kept(done));
        if let Outcome::Packed(made) = &mut moved.outcome {
            made.output.clone_from(&name);
        }
        moved.path.clone_from(&name);
        self.done.insert(at.min(self.done.len()), moved);
        self.made.insert(name, known);
    }

    /// How many could not be delivered.
    pub(super) fn undelivered(&self) -> usize {
        self.done.iter().filter(|done| matches!(done.outcome, Outcome::Undelivered(..))).count()
    }

    /// True if something that could not be delivered lies in this directory.
    pub(super) fn are_left_in(&self, directory: &Path) -> bool {
        let is_there =
            |done: &Done| matches!(&done.outcome, Outcome::Undelivered(_, left) if left.starts_with(directory));
        self.done.iter().any(is_there)
    }

    /// Takes out what could not be delivered, where `which` says so of the reason and the directory. Returns the directories. Older
    /// values of a file that has been delivered since are left where they are.
    pub(super) fn take_undelivered(&mut self, which: impl Fn(&Error, &Path) -> bool) -> Vec<PathBuf> {
        let (mut taken, mut newer) = (Vec::new(), BTreeSet::new());
        for done in std::mem::take(&mut self.done).into_iter().rev() {
            match &done.outcome {
                Outcome::Packed(made) => drop(newer.insert(made.input.clone())),
                Outcome::Undelivered(error, directory) if !newer.contains(&done.path) && which(error, directory) => {
                    taken.push(directory.clone());
                    continue;
                }
                _ => {}
            }
            self.done.push(done);
        }
        self.done.reverse();
        taken
    }

    /// What could not be delivered, and lies in this directory, is of no use any more: a newer version is there.
    pub(super) fn superseded(&mut self, of: &Path) {
        self.done.retain(|done| !matches!(&done.outcome, Outcome::Undelivered(_, directory) if directory == of));
    }

    /// What could not be delivered lies elsewhere now.
    pub(super) fn moved(&mut self, from: &Path, to: &Path) {
        for done in &mut self.done {
            if let Outcome::Undelivered(_, directory) = &mut done.outcome
                && directory == from
            {
                to.clone_into(directory);
            }
        }
    }

    /// Notes an outcome, unless more is known of the file: then that gets the note.
    pub(super) fn add_beside(&mut self, path: PathBuf, outcome: Outcome, note: &str) {
        let is_it = |other: &&mut Done| other.path == path && !matches!(other.outcome, Outcome::Discarded(_));
        match self.done.iter_mut().rev().find(is_it) {
            Some(other) => add_words(&mut other.note, note),
            None => {
                let order = self.next();
                self.done.push(Done { path, outcome, note: note.to_owned(), lossy_transfers: Vec::new(), order });
            }
        }
    }

    /// Notes that values of a file are lost, whatever else became of it.
    pub(super) fn add_loss(&mut self, path: PathBuf, outcome: Outcome) {
        let order = self.next();
        self.done.push(Done { path, outcome, note: String::new(), lossy_transfers: Vec::new(), order });
    }

    /// Notes what crossed the network of files, and which bounds could not be served.
    pub(super) fn add_lossy_transfers(&mut self, lossy: LossyTransfers, unserved: &BTreeMap<PathBuf, Vec<String>>) {
        let mut lossy: BTreeMap<PathBuf, Vec<LossyTransfer>> = lossy.into_files().collect();
        for done in &mut self.done {
            done.lossy_transfers.append(&mut lossy.remove(&done.path).unwrap_or_default());
            for why in unserved.get(&done.path).into_iter().flatten() {
                add_words(&mut done.note, &format!("a bound has no effect in flight: {why}"));
            }
        }
    }

    /// All of them, under the names that they have now.
    pub(super) fn into_list(mut self) -> Vec<Done> {
        let names: Vec<PathBuf> = self.made.keys().cloned().collect();
        let mut listings = Listings::default();
        names.iter().for_each(|name| self.follow(name, &mut listings));
        self.done.sort_by_key(|done| done.order);
        self.done
    }
}

/// True if it is told in any case.
fn is_kept(done: &Done) -> bool {
    matches!(done.outcome, Outcome::Undelivered(..) | Outcome::Discarded(_) | Outcome::Lost(_))
}

/// Adds to a note.
fn add_words(note: &mut String, words: &str) {
    if !note.is_empty() && !words.is_empty() {
        note.push_str("; ");
    }
    note.push_str(words);
}

/// The exit code for files that a program has handed over and that are not there; 0 if there are none.
pub fn undelivered(files: &[Done]) -> u8 {
    let code = |done: &Done| match &done.outcome {
        Outcome::Undelivered(error, _) | Outcome::Discarded(error) | Outcome::Lost(error) => {
            Some(error.kind().exit_code())
        }
        _ => None,
    };
    files.iter().find_map(code).unwrap_or(0)
}

/// The packed ones of these files.
pub fn packed(files: &[Done]) -> impl Iterator<Item = &Repacked> {
    files.iter().filter_map(|done| match &done.outcome {
        Outcome::Packed(repacked) => Some(repacked.as_ref()),
        _ => None,
    })
}

/// What became of a time step, or of a whole rule if it has none.
pub struct Row {
    /// The pattern of the rule.
    pub pattern: String,
    /// The step.
    pub step: Option<u64>,
    /// What became of it.
    pub became: Became,
}

/// What can become of the files of a time step.
pub enum Became {
    /// They are in a set.
    Packed {
        /// Where it is.
        set: PathBuf,
        /// How many files it holds.
        files: usize,
        /// Bytes of the files.
        raw_bytes: u64,
        /// Bytes that were written for them.
        packed_bytes: u64,
        /// What packing took.
        seconds: f64,
        /// Why nothing says that the files were whole.
        unproven: Option<String>,
    },
    /// Its files are as the program wrote them, for this reason.
    Left(String),
}
