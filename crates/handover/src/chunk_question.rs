//! What a node is asked whose values are all of a chunk: to encode it. Who asks says how, and where the values are, because
//! it alone knows all logs.

use knarr_array::error::{Error, Result};
use knarr_flow::pipeline::{Container, Recipe};
use serde::{Deserialize, Serialize};

use crate::runs::Move;

/// Bytes of a chunk, at most: what comes of it is one answer.
pub(crate) const LARGEST: usize = 1 << 24;
/// Nodes with the same codecs write the same bytes.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// A chunk as the node that has its values is asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkQuestion {
    /// Version of the program that asks.
    pub(crate) program: String,
    pub(crate) recipe: Recipe,
    /// Elements of the chunk along each axis that lie in the variable.
    pub(crate) count: Vec<u64>,
    /// One element, for all that is not copied.
    pub(crate) padding: Vec<u8>,
    /// Some elements of the variable have no values.
    pub(crate) fills: bool,
    /// The ranks that have put values, and how these are copied; the files of a move are numbered by place in this list.
    pub(crate) ranks: Vec<usize>,
    pub(crate) moves: Vec<Move>,
}

impl ChunkQuestion {
    /// Bytes of the region, if the question is one that can be.
    ///
    /// # Errors
    /// `Usage` if it is not; `Unsupported` from another version of the program.
    pub(crate) fn check(&self) -> Result<usize> {
        let Self { program, recipe, count, padding, .. } = self;
        if program != PROGRAM {
            let what = format!("version {program} of Knarr asks for a chunk, this is {PROGRAM}");
            return Err(Error::unsupported(what).hint("install the same version on all nodes"));
        }
        let size = recipe.spec.dtype.size();
        let is_chunk = recipe.spec.checked_len()?.checked_mul(size).is_some_and(|bytes| (1..=LARGEST).contains(&bytes));
        let is_inside = count.len() == recipe.spec.shape.len()
            && count.iter().zip(&recipe.spec.shape).all(|(&count, &extent)| (1..=extent as u64).contains(&count));
        let bytes = count.iter().product::<u64>().saturating_mul(size as u64);
        if is_chunk && is_inside && padding.len() == size && recipe.container != Container::Filter {
            return usize::try_from(bytes).map_err(|_| Error::usage("a chunk that is too large"));
        }
        Err(Error::usage("a chunk that cannot be"))
    }
}
