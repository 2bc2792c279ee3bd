//! Encoding chunks of a file for later, and finding them: see [`AheadChunks`](crate::AheadChunks).

use knarr_array::error::Result;
use knarr_codec::codec::CodecList;
use knarr_flow::ahead::Ahead;
use knarr_flow::remote_encoder::{ChunkToEncode, Proven};

use crate::encode::ahead_chunks::key_of;
use crate::encode::chunk_question::{ChunkQuestion, LARGEST};
use crate::encode::encoding::split;
use crate::gather::assembled_puts::AssembledPuts;

/// True if each element of the region is copied from somewhere, as far as their number tells.
fn is_whole(question: &ChunkQuestion) -> bool {
    let bytes = question.moves.iter().fold(0u64, |sum, one| sum.saturating_add(one.bytes()));
    let wanted = question.count.iter().product::<u64>().saturating_mul(question.padding.len() as u64);
    !question.fills || bytes >= wanted
}

impl Ahead for AssembledPuts {
    fn encode(&self, codecs: &CodecList, chunk: &ChunkToEncode<'_>) -> Result<()> {
        let Some(ahead) = self.ahead_chunks().filter(|_| chunk.recipe.spec.byte_len() <= LARGEST) else {
            return Ok(());
        };
        let question = self.question(chunk)?;
        let key = key_of(&question)?;
        if !is_whole(&question) || ahead.has(&key) {
            return Ok(());
        }
        let ChunkToEncode { variable, region, padding, recipe } = *chunk;
        let read = |out: &mut Vec<u8>| self.read(variable, region, padding, out);
        let parts = (region.count.as_slice(), padding);
        let encoded = ahead.encoding(|encoding| encoding.encoded(codecs, recipe.clone(), parts, read))?;
        ahead.add(key, &encoded)
    }

    fn find(&self, chunk: &ChunkToEncode<'_>, out: &mut Vec<u8>) -> Result<Option<Proven>> {
        let Some(ahead) = self.ahead_chunks() else { return Ok(None) };
        let key = key_of(&self.question(chunk)?)?;
        Ok(ahead.read(&key).and_then(|bytes| split(&bytes, out).ok()))
    }
}
