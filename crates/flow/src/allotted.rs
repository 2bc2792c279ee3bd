//! Places in outputs that are given away.

use std::path::PathBuf;

/// The place of a chunk that somebody else writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allotted {
    /// The file, which is there and long enough.
    pub path: PathBuf,
    /// First byte in it.
    pub offset: u64,
}
