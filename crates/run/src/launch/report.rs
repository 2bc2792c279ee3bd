//! What is told of files besides what became of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use knarr_array::error::Error;
use knarr_capture::Snapshot;

use super::jobs::deliver::made_instead;
use super::outcome::{Files, Outcome};

/// Files, and what was heard of them.
#[derive(Default)]
pub(super) struct Report {
    pub(super) files: Files,
    /// Why parallel HDF5 has written files itself that were to be handed over.
    pub(super) by_itself: BTreeMap<PathBuf, String>,
    /// Seconds that the program spent in calls for files that were handed over.
    pub(super) blocked: BTreeMap<PathBuf, f64>,
    /// Files whose packing was tried, and the process that did it died.
    pub(super) died: BTreeMap<PathBuf, Error>,
    /// Files that the program has got back as it has made them.
    pub(super) given_back: BTreeSet<PathBuf>,
}

impl Report {
    /// The note on a file on which work has ended. `is_delivery` is true if it was handed over.
    pub(super) fn note(&mut self, path: &Path, outcome: &Outcome, is_delivery: bool, snapshot: &Snapshot) -> String {
        let mut note = match (outcome, self.died.remove(path)) {
            (Outcome::Packed(_), Some(earlier)) => format!("at the second attempt: {}", earlier.message()),
            (Outcome::Packed(made), None) => match self.blocked.get(path) {
                Some(blocked) => {
                    let rule = snapshot.rule_for(path).map(|(_, rule)| rule);
                    let instead = rule.and_then(|rule| made_instead(rule, made)).map(|why| format!("; {why}"));
                    format!("handed over: the program waited {blocked:.2} s{}", instead.unwrap_or_default())
                }
                None => self.by_itself.get(path).map(|why| format!("not handed over: {why}")).unwrap_or_default(),
            },
            _ => String::new(),
        };
        if matches!(outcome, Outcome::Packed(_)) && !is_delivery && self.given_back.contains(path) {
            note.push_str(if note.is_empty() { "" } else { "; " });
            note.push_str("its ranks opened it again to write: packed again after the program had ended");
        }
        note
    }
}
