//! What was asked for when a run began.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::{Config, FileRule, Route};

use super::Prescription;

/// The configuration as the launcher read and checked it. Later changes of `knarr.toml` are for the next run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The rules.
    pub config: Config,
    /// Filters asked for and learnt, for files that are compressed as they are written. Later ones win.
    pub prescriptions: Vec<Prescription>,
}

impl Snapshot {
    /// Reads the snapshot in the directory of a run; `None` if it is not there or cannot be read.
    pub fn read(directory: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(directory.join(super::SNAPSHOT)).ok()?).ok()
    }

    /// The rule by which the file at the absolute path `path` is to be compressed, with its number.
    pub fn rule_for(&self, path: &Path) -> Option<(usize, &FileRule)> {
        let rule = self.config.rule_for(path).filter(|rule| rule.route == Route::Compress)?;
        let number = self.config.file.iter().position(|other| std::ptr::eq(other, rule))?;
        Some((number, rule))
    }
}
