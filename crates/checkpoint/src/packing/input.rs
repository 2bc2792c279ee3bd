//! What is packed.

use std::path::PathBuf;

/// The file of one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Where it lies.
    pub path: PathBuf,
    /// Its name in the set: a relative path below the directory that a restore writes to.
    pub name: Vec<u8>,
    /// Number of its rank, as the program counts; its place where nothing says so.
    pub number: u64,
}
