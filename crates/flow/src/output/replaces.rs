//! What an output may take the place of.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use knarr_array::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// By what a file or directory is known again under its name: one that was written since is another one. The number of its
/// device does not count, because that changes when a machine restarts, and from node to node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    inode: u64,
    bytes: u64,
    /// Time of the last change, in nanoseconds since 1970.
    modified: i64,
}

impl FileIdentity {
    /// Of what was looked at.
    pub fn of(found: &Metadata) -> Self {
        let modified = found.mtime().wrapping_mul(1_000_000_000).wrapping_add(found.mtime_nsec());
        Self { inode: found.ino(), bytes: found.len(), modified }
    }

    /// Of what has this name, if anything has.
    pub fn at(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok().map(|found| Self::of(&found))
    }
}

/// What an output may take the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replaces {
    /// Nothing may have its name.
    #[default]
    Nothing,
    /// Whatever has its name.
    Anything,
    /// One of these, if anything has its name. Something else is newer than the output, and stays.
    Known([Option<FileIdentity>; 2]),
}

impl From<bool> for Replaces {
    /// Whether an output may replace what has its name.
    fn from(force: bool) -> Self {
        if force { Self::Anything } else { Self::Nothing }
    }
}

impl Replaces {
    /// True if something may have its name.
    pub fn may(self) -> bool {
        self != Self::Nothing
    }

    /// True if this may be replaced.
    pub fn allows(self, found: Option<FileIdentity>) -> bool {
        match (self, found) {
            (_, None) | (Self::Anything, _) => true,
            (Self::Nothing, Some(_)) => false,
            (Self::Known(known), Some(_)) => known.contains(&found),
        }
    }

    /// Refuses what has the name `target` now, if it may not be replaced.
    ///
    /// # Errors
    /// `Exists`.
    pub fn check(self, target: &Path) -> Result<()> {
        if self.allows(FileIdentity::at(target)) { Ok(()) } else { Err(self.refused(target)) }
    }

    pub(super) fn refused(self, target: &Path) -> Error {
        let (what, hint) = match self {
            Self::Known(_) => {
                ("a newer file has its name: that one stays", "move it away, then 'knarr run --recover' makes this one")
            }
            _ => ("the output exists", "choose another name, or ask to replace it (--force)"),
        };
        Error::new(ErrorKind::Exists, what).hint(hint).at(target.display().to_string())
    }
}
