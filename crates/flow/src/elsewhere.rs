//! Values that lie at other places, whose keepers can encode them there. Fewer bytes then go from place to place, and places
//! encode at the same time.

use knarr_array::error::Result;
use knarr_array::region::Region;
use serde::{Deserialize, Serialize};

use crate::allotted::Allotted;
use crate::pipeline::{ChunkOutcome, Recipe};

/// Who keeps the values of a source at other places.
pub trait Elsewhere: Sync {
    /// Number of places. Each works beside the others.
    fn places(&self) -> usize;

    /// The place, below [`Elsewhere::places`], from which all values of a region come. `None` if there are several of them, if
    /// they are here, or if nobody can tell.
    fn place(&self, variable: usize, region: &Region) -> Option<usize>;

    /// Has a chunk encoded at its [`Elsewhere::place`], into `out`, and waits for that. `None` if it is not done there: its
    /// values can be read all the same, unless something is wrong with the place, as reading them then tells.
    ///
    /// With `may_keep` the place may keep the bytes, as [`Proven::kept`] says, for [`Elsewhere::write`]; `out` stays empty then.
    ///
    /// # Errors
    /// `Corrupt` for puts that make no sense.
    fn encode(
        &self,
        place: usize,
        chunk: &ChunkElsewhere<'_>,
        may_keep: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Proven>>;

    /// Has chunks that a place keeps written where they belong, and looks after some of them. False if that is not so for all of
    /// them: those that were written have the right bytes, and none of them is kept any more.
    fn write(&self, place: usize, chunks: &[(KeptChunk, Allotted)]) -> bool;

    /// Makes durable what a place has written of this file.
    ///
    /// # Errors
    /// `Write` if it is not known to be durable.
    fn sync(&self, place: usize) -> Result<()>;
}

/// An encoded chunk that another place keeps until it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptChunk {
    /// What the place knows it by.
    pub number: u64,
    /// Bytes of it.
    pub length: u64,
    /// CRC-32C of these.
    pub checksum: u32,
}

/// A chunk that is to be encoded at another place.
#[derive(Debug, Clone, Copy)]
pub struct ChunkElsewhere<'a> {
    /// Number of the variable.
    pub variable: usize,
    /// The elements of the variable that lie in it. The chunk has the shape that the recipe says.
    pub region: &'a Region,
    /// One element, in stored byte order, for where there are no values.
    pub padding: &'a [u8],
    /// How it is encoded.
    pub recipe: &'a Recipe,
}

/// What who has encoded a chunk says of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Proven {
    /// What happened to it.
    pub outcome: ChunkOutcome,
    /// CRC-32C of the chunk that readers get: the values, or for a lossy chain what is within the bound.
    pub values: u32,
    /// The place keeps the bytes.
    #[serde(default)]
    pub kept: Option<KeptChunk>,
}
