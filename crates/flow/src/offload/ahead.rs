//! Chunks that are encoded before a file is made: a program has it open for long, and processors have time.

use knarr_array::error::Result;
use knarr_codec::codec::CodecList;

use crate::offload::remote_encoder::{ChunkToEncode, Proven};

/// Who keeps chunks of a source that were encoded before.
pub trait Ahead: Sync {
    /// Encodes a chunk for later, unless that was done, or some of its values are missing.
    ///
    /// # Errors
    /// Those of reading, encoding and keeping.
    fn encode(&self, codecs: &CodecList, chunk: &ChunkToEncode<'_>) -> Result<()>;

    /// The chunk as it was encoded, into `out`. `None` if it was not, or not in this way, or if its values have changed since.
    ///
    /// # Errors
    /// `Corrupt` for puts that make no sense.
    fn find(&self, chunk: &ChunkToEncode<'_>, out: &mut Vec<u8>) -> Result<Option<Proven>>;
}
