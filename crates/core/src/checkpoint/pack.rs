//! Packing the files of many ranks into one set: what goes in, how, and what came out.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::grouping::{Grouping, Member, deal};
use super::manifest::Manifest;
use super::scan::Finder;
use super::scheme::{BLOCK_SIZE, Scheme};
use super::similarity::Similarity;
use super::together::Together;
use crate::comm::Solo;
use crate::engine::{Engine, Progress};
use crate::error::{Error, Result};
use crate::goal::Goal;

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

/// What packing did.
#[derive(Debug, Clone)]
pub struct Packed {
    /// What the set holds.
    pub manifest: Manifest,
    /// Bytes of the ranks' files.
    pub raw_bytes: u64,
    /// Bytes that were written: frames and manifest.
    pub packed_bytes: u64,
    /// Bytes of pieces that repeat others of the same group.
    pub repeated_bytes: u64,
    /// Bytes of pieces that the earlier set holds.
    pub reused_bytes: u64,
    /// Bytes of pieces that the earlier set holds and that are stored again, because its files would have to stay for them.
    pub apart_bytes: u64,
    /// Bytes of second copies of what is shared.
    pub copied_bytes: u64,
    /// Files that are carried as bytes, with the reason.
    pub carried_whole: Vec<(Vec<u8>, String)>,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// Packs `inputs`, in the order of ranks, into the set `target`. On error nothing is left behind and an existing set is
/// untouched.
///
/// # Errors
/// `Usage` for no inputs, names twice or impossible options; what reading and writing report, with the file; `Differs`
/// if a file changes meanwhile.
pub fn pack(
    engine: &Engine,
    inputs: &[Input],
    target: &Path,
    options: &PackOptions,
    find: Finder<'_>,
    progress: &dyn Progress,
) -> Result<Packed> {
    let members: Vec<Member> = inputs.iter().cloned().enumerate().map(|(rank, input)| Member { rank, input }).collect();
    let groups = deal(&Solo, &members, Grouping::RankOrder, options.group_size)?;
    let together = Together::begin(engine, &Solo, target, options)?;
    let part = together.pack_groups(&groups, find, progress);
    together.finish(&Solo, part)?.ok_or_else(|| Error::internal("one process got nothing back"))
}
