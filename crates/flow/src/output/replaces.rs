//! What an output may take the place of.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Replaces {
    /// Nothing may have its name.
    #[default]
    Nothing,
    /// Whatever has its name.
    Anything,
    /// One of these, if anything has its name. Something else is newer than the output, and stays.
    Known(Known),
}

/// What is older than an output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// What had the name before.
    pub older: Vec<FileIdentity>,
    /// The file in which the output is [noted](Placed) before it gets its name: whoever makes it again finds it older.
    pub note: Option<PathBuf>,
}

/// A file that lists what got a name, or was about to, one in each line.
#[derive(Debug)]
pub struct Placed<'p>(pub &'p Path);

impl Placed<'_> {
    /// What is in the list. A line that was not written as a whole counts for nothing.
    pub fn list(&self) -> Vec<FileIdentity> {
        let text = std::fs::read(self.0).unwrap_or_default();
        text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Adds to the list.
    ///
    /// # Errors
    /// Of the system.
    pub fn add(&self, placed: &[FileIdentity]) -> io::Result<()> {
        let mut lines = Vec::new();
        for one in placed {
            // It does not go on a line that was not finished.
            lines.push(b'\n');
            serde_json::to_writer(&mut lines, one)?;
        }
        let mut file = File::options().append(true).create(true).open(self.0)?;
        file.write_all(&lines)?;
        file.sync_data()
    }
}

impl From<bool> for Replaces {
    /// Whether an output may replace what has its name.
    fn from(force: bool) -> Self {
        if force { Self::Anything } else { Self::Nothing }
    }
}

impl Replaces {
    /// True if something may have its name.
    pub fn may(&self) -> bool {
        *self != Self::Nothing
    }

    /// True if this may be replaced.
    pub fn allows(&self, found: Option<FileIdentity>) -> bool {
        match (self, found) {
            (_, None) | (Self::Anything, _) => true,
            (Self::Nothing, Some(_)) => false,
            (Self::Known(known), Some(found)) => known.older.contains(&found),
        }
    }

    /// Refuses what has the name `target` now, if it may not be replaced.
    ///
    /// # Errors
    /// `Exists`.
    pub fn check(&self, target: &Path) -> Result<()> {
        if self.allows(FileIdentity::at(target)) { Ok(()) } else { Err(self.refused(target)) }
    }

    /// Notes that the output which is at `path` now is about to get its name, if that is wanted.
    pub(super) fn note(&self, path: &Path) {
        if let Self::Known(Known { note: Some(note), .. }) = self
            && let Some(identity) = FileIdentity::at(path)
        {
            // Without it, an output that gets its name in vain is taken for a newer one, and stays.
            let _ = Placed(note).add(&[identity]);
        }
    }

    pub(super) fn refused(&self, target: &Path) -> Error {
        let (what, hint) = match self {
            Self::Known(_) => {
                ("a newer file has its name: that one stays", "move it away, then 'knarr run --recover' makes this one")
            }
            _ => ("the output exists", "choose another name, or ask to replace it (--force)"),
        };
        Error::new(ErrorKind::Exists, what).hint(hint).at(target.display().to_string())
    }
}
