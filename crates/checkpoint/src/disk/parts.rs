//! What is known of a set of which each node has a part, in each of these parts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use knarr_array::error::{Error, Result};

/// Name of the file in each part that says this.
pub(crate) const PARTS: &str = "parts.json";

/// Of a set of which each node has a part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parts {
    /// CRC-32C of every file of frames.
    pub(crate) crc32c: BTreeMap<String, u32>,
    /// For each node, by the lowest rank on it, the files of frames that its own processes wrote or use of an earlier set.
    pub(crate) used: BTreeMap<usize, BTreeSet<String>>,
    /// For how long the directory of sets had got none when this one was handed over.
    #[serde(default)]
    pub(crate) waited: Waited,
}

/// For how long the directory of sets has got none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waited {
    /// Sets that were complete on the nodes since the last one that came there, with the last of them.
    pub(crate) sets: u64,
    /// The time since then, in which programs ran.
    pub(crate) time: Duration,
}

impl Parts {
    /// True if the processes of a node use this file of frames.
    pub(crate) fn has(&self, node: usize, name: &str) -> bool {
        self.used.get(&node).is_some_and(|used| used.contains(name))
    }

    /// CRC-32C of a file of frames.
    ///
    /// # Errors
    /// `Corrupt` if it is not known.
    pub(crate) fn checksum(&self, name: &str) -> Result<u32> {
        let unknown = || Error::corrupt(format!("{PARTS} does not say the checksum of '{name}'"));
        self.crc32c.get(name).copied().ok_or_else(unknown)
    }

    /// Those of the set of which a part lies in this directory.
    ///
    /// # Errors
    /// `Read`, or `Corrupt` if they are damaged.
    pub(crate) fn read(set: &Path) -> Result<Self> {
        let path = set.join(PARTS);
        let bytes = std::fs::read(&path).map_err(|error| Error::read(&path, &error))?;
        let damaged = |error: serde_json::Error| Error::corrupt(error.to_string()).at(path.display().to_string());
        serde_json::from_slice(&bytes).map_err(damaged)
    }
}
