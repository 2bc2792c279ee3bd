//! How sets are packed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::classes::scheme::{BLOCK_SIZE, Scheme};
use crate::classes::similarity::Similarity;
use knarr_array::goal::Goal;

/// How to pack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PackOptions {
    /// How pieces are merged.
    pub scheme: Scheme,
    /// Bytes of the blocks of schemes with blocks.
    pub block_size: u64,
    /// Ranks that share a file of frames, 1 to [`LARGEST_GROUP`](super::grouping::LARGEST_GROUP).
    pub group_size: usize,
    /// What to optimise in the choice of chains.
    pub goal: Goal,
    /// Which variables are alike.
    pub similarity: Similarity,
    /// Decode and compare every frame before it is written.
    pub verify: bool,
    /// Replace an existing set.
    pub force: bool,
    /// An earlier set whose content need not be stored again.
    pub base: Option<PathBuf>,
    /// Only so many of the newest sets will stay beside this one, which counts: the earlier set's content is stored again
    /// where linking its files would take more room.
    pub keep: Option<usize>,
    /// How many copies there are of what is shared with earlier sets: 1 or 2.
    pub copies: u8,
    /// Why nothing says that the files are whole, in words.
    pub unproven: Option<String>,
    /// Keep permissions and times of files, and the numbers of ranks. Not for files that are made to be packed.
    pub attributes: bool,
}

/// Goal of checkpoints where none is asked for: they are written often and read rarely, but whole sets of them are kept,
/// so what makes them a tenth smaller may take many times as long.
pub const GOAL: &str = "ratio=0.97,encode=0.02,decode=0.01";

impl Default for PackOptions {
    fn default() -> Self {
        Self {
            scheme: Scheme::Auto,
            block_size: BLOCK_SIZE,
            group_size: 32,
            goal: GOAL.parse().unwrap_or_else(|_| Goal::balanced()),
            similarity: Similarity::default(),
            verify: true,
            force: false,
            base: None,
            keep: None,
            copies: 1,
            unproven: None,
            attributes: false,
        }
    }
}
