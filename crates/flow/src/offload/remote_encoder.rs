//! Other nodes that have values of a source, and encode chunks of them. Fewer bytes cross the network, and nodes encode in
//! parallel.

use knarr_array::error::Result;
use knarr_array::region::Region;
use serde::{Deserialize, Serialize};

use crate::offload::reserved::ReservedOffset;
use crate::pipeline::{ChunkOutcome, Recipe};

/// Other nodes that have values of a source, and encode chunks of them.
pub trait RemoteEncoder: Sync {
    /// Number of other nodes. They work at the same time.
    fn nodes(&self) -> usize;

    /// The node, below [`RemoteEncoder::nodes`], that has all values of a region. `None` if several nodes have them, if they are
    /// here, or if nobody can tell.
    fn node_of(&self, variable: usize, region: &Region) -> Option<usize>;

    /// Has a chunk encoded on its [node](RemoteEncoder::node_of), into `out`, and waits for that. `None` if it is not done there:
    /// its values can be read all the same, unless something is wrong with the node, as reading them then tells.
    ///
    /// With `may_keep` the node may keep the bytes, as [`Proven::kept`] says, for [`RemoteEncoder::write`]; `out` stays empty then.
    ///
    /// # Errors
    /// `Corrupt` for puts that make no sense.
    fn encode(
        &self,
        node: usize,
        chunk: &ChunkToEncode<'_>,
        may_keep: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Proven>>;

    /// Asks a node to write pending chunks at their final offsets, and reads some of them back. Returns false if any of them was
    /// not written: those that were have the right bytes, and the node drops all of them in either case.
    fn write(&self, node: usize, chunks: &[(PendingChunk, ReservedOffset)]) -> bool;

    /// Makes durable what a node has written of this file.
    ///
    /// # Errors
    /// `Write` if it is not known to be durable.
    fn sync(&self, node: usize) -> Result<()>;
}

/// An encoded chunk that another node keeps until it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingChunk {
    /// What the node knows it by.
    pub number: u64,
    /// Bytes of it.
    pub length: u64,
    /// CRC-32C of these.
    pub checksum: u32,
}

/// A chunk that is to be encoded on another node, or before its file is made.
#[derive(Debug, Clone, Copy)]
pub struct ChunkToEncode<'a> {
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
    /// The node keeps the bytes.
    #[serde(default)]
    pub kept: Option<PendingChunk>,
}
