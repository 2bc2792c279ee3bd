//! How steps go through levels, as every door of the library is told it: by words.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::schedule::Every;
use knarr_array::error::{Error, Result};
use knarr_handover::count;

/// How steps go through levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelOptions {
    /// Directory on a disk of each node. The path may differ between nodes. `None`: steps go to the directory of sets at once.
    pub local: Option<PathBuf>,
    /// Sets that stay on the node, at least 1.
    pub keep: usize,
    /// Which of them are brought to the directory of sets. The last one of a session always is.
    pub flush: Every,
    /// What keeps a step when a node is lost.
    pub protection: Protection,
}

/// What keeps a step when a node is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// Nothing: the steps that are in the directory of sets stay.
    None,
    /// The next node has a copy of each file.
    #[default]
    Partner,
}

impl Default for LevelOptions {
    /// Without a directory on the nodes. With one two sets stay there, and all are brought to the directory of sets.
    fn default() -> Self {
        Self { local: None, keep: 2, flush: Every::Sets(1), protection: Protection::default() }
    }
}

impl LevelOptions {
    /// The directory on the node, if there is one.
    ///
    /// # Errors
    /// `Usage` if something is said of levels without it.
    pub fn local(&self) -> Result<Option<&PathBuf>> {
        match self.local.is_none() && *self != Self::default() {
            true => Err(Error::usage("options 'local_keep', 'flush' and 'protect' are for sets on the nodes")
                .hint("name a directory on a disk of each node: local=/local/scratch")),
            false => Ok(self.local.as_ref()),
        }
    }

    /// Sets what `key` stands for: `local`, `local_keep`, `flush` or `protect`. False for another key.
    ///
    /// # Errors
    /// `Usage` for values that mean nothing.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool> {
        match key {
            "local" if value.is_empty() => return Err(Error::usage("it names no directory")),
            "local" => self.local = Some(value.into()),
            "local_keep" => self.keep = count(value)?,
            "flush" => self.flush = every(value)?,
            "protect" => {
                self.protection = match value {
                    "none" => Protection::None,
                    "partner" => Protection::Partner,
                    _ => return Err(Error::usage("neither none nor partner")),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A number of sets, or a time.
fn every(value: &str) -> Result<Every> {
    if let Ok(sets) = count(value) {
        return Ok(Every::Sets(sets as u64));
    }
    let time = humantime::parse_duration(value).ok().filter(|&time| time > Duration::ZERO);
    time.map(Every::Time)
        .ok_or_else(|| Error::usage("neither a number of checkpoints, such as 10, nor a time, such as 30m"))
}
