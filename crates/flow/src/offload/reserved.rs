//! An offset in an output that is reserved for a chunk which another node writes.

use std::path::PathBuf;

/// Where somebody else writes a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedOffset {
    /// The file, which is there and long enough.
    pub path: PathBuf,
    /// First byte in it.
    pub offset: u64,
}
