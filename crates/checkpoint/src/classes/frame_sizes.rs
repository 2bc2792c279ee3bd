//! Sizes of frames, and what they take in memory.

/// No frame is larger than this when it is decoded.
pub(crate) const MAX_DECODED_FRAME: u64 = 64 << 20;
/// A frame may have as many bytes as this if variables are whole in it then.
pub(crate) const TARGET_FRAME: u64 = 8 << 20;
/// What a worker takes: copies of a frame that were fetched, merged, two of the chain, proof, result.
pub(crate) const WORKER: u64 = 6 * TARGET_FRAME;
