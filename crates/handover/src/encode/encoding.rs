//! Encodes chunks for another node, which makes a file of them, or for this one before it makes the file.

use std::path::PathBuf;

use knarr_array::error::{Error, Result};
use knarr_array::quality::Observed;
use knarr_array::region::pad_chunk;
use knarr_codec::codec::CodecList;
use knarr_flow::pipeline::{Buffers, ChunkEncoder, Recipe};
use knarr_flow::remote_encoder::Proven;

use crate::encode::chunk_question::ChunkQuestion;
use crate::encode::pending_chunks::PendingChunks;
use crate::gather::moves::{Answer, Beneath};
use crate::gather::rank_values::{Found, Rank};
use crate::gather::source::Source;

/// Encoders that one thread keeps.
const KEPT: usize = 8;

/// An answer: the length of what is said of the chunk, what is said, and the encoded bytes. The largest errors are there as
/// bits, too: who reads JSON may be off by the last one.
fn joined(proven: &Proven, bytes: &[u8]) -> Result<Vec<u8>> {
    let seen = proven.outcome.observed.map_or([0; 2], |seen| [seen.max_abs.to_bits(), seen.max_rel.to_bits()]);
    let told = serde_json::to_vec(&(proven, seen)).map_err(|error| Error::internal(error.to_string()))?;
    let length = u32::try_from(told.len()).map_err(|_| Error::internal("an answer that is too long"))?;
    Ok([&length.to_le_bytes(), told.as_slice(), bytes].concat())
}

/// Takes an answer apart.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn split(answer: &[u8], out: &mut Vec<u8>) -> Result<Proven> {
    let senseless = || Error::corrupt("an answer that makes no sense");
    let (length, rest) = answer.split_first_chunk::<4>().ok_or_else(senseless)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| senseless())?;
    let (told, bytes) = rest.split_at_checked(length).ok_or_else(senseless)?;
    let (mut proven, seen): (Proven, [u64; 2]) = serde_json::from_slice(told).map_err(|_| senseless())?;
    if let Some(Observed { max_abs, max_rel, .. }) = &mut proven.outcome.observed {
        (*max_abs, *max_rel) = (f64::from_bits(seen[0]), f64::from_bits(seen[1]));
    }
    out.clear();
    out.extend_from_slice(bytes);
    Ok(proven)
}

/// Encodes chunks, in one thread.
#[derive(Default)]
pub struct Encoding {
    /// The latest last.
    kept: Vec<(Recipe, ChunkEncoder)>,
    buffers: Buffers,
    region: Vec<u8>,
    padded: Vec<u8>,
    encoded: Vec<u8>,
}

impl Encoding {
    /// The answer to a question, which is hostile. `values` is the path of the values of a rank. With `keep`, the chunk stays
    /// there as one of the file of that name, if there is room.
    ///
    /// # Errors
    /// `Usage` for what cannot be asked; `Unsupported` if another version of the program asks; `NotFound`, `Read`, and what
    /// encoding reports.
    pub fn answer(
        &mut self,
        codecs: &CodecList,
        chunk: &ChunkQuestion,
        values: impl Fn(usize) -> PathBuf,
        keep: Option<(&PendingChunks, &str)>,
    ) -> Result<Vec<u8>> {
        let bytes = chunk.check()?;
        let open = |&rank: &usize| Rank::open(Found::Here(values(rank)), u64::MAX, [0, 0]);
        let ranks = chunk.ranks.iter().map(open).collect::<Result<Vec<_>>>()?;
        let mut source = Source::new(&ranks, None);
        chunk.moves.iter().try_for_each(|one| source.check(*one, bytes))?;
        let read = |region: &mut Vec<u8>| {
            region.resize(bytes, 0);
            let beneath = Beneath::Fill(&chunk.padding);
            source.replay(&Answer { moves: chunk.moves.clone(), fills: chunk.fills }, beneath, region)
        };
        let proven = self.encode(codecs, chunk.recipe(), (&chunk.count, &chunk.padding), read)?;
        let kept = keep.and_then(|(chunks, file)| chunks.keep(file, &mut self.encoded));
        joined(&Proven { kept, ..proven }, if kept.is_some() { &[] } else { &self.encoded })
    }

    /// A chunk of which `count` elements along each axis are values that `read` gives, and the others are padding.
    ///
    /// # Errors
    /// Those of `read`, and of encoding.
    pub(crate) fn encoded(
        &mut self,
        codecs: &CodecList,
        recipe: Recipe,
        (count, padding): (&[u64], &[u8]),
        read: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<Vec<u8>> {
        let proven = self.encode(codecs, recipe, (count, padding), read)?;
        joined(&proven, &self.encoded)
    }

    /// As [`Encoding::encoded`]; the bytes are left in the buffer.
    fn encode(
        &mut self,
        codecs: &CodecList,
        recipe: Recipe,
        (count, padding): (&[u64], &[u8]),
        read: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<Proven> {
        let Self { kept, buffers, region, padded, encoded } = self;
        read(region)?;
        let shape: Vec<u64> = recipe.spec.shape.iter().map(|&n| n as u64).collect();
        let raw: &[u8] = if count == shape {
            region
        } else {
            pad_chunk(region, count, &shape, padding, padded);
            padded
        };
        let encoder = encoder(kept, codecs, recipe)?;
        let outcome = encoder.encode(raw, buffers, encoded)?;
        let values = crc32c::crc32c(encoder.read_back(raw, &outcome, buffers));
        Ok(Proven { outcome, values, kept: None })
    }
}

fn encoder<'k>(
    kept: &'k mut Vec<(Recipe, ChunkEncoder)>,
    codecs: &CodecList,
    recipe: Recipe,
) -> Result<&'k ChunkEncoder> {
    let encoder = match kept.iter().position(|(known, _)| *known == recipe) {
        Some(at) => kept.remove(at),
        None => {
            let encoder = recipe.encoder(codecs)?;
            (recipe, encoder)
        }
    };
    if kept.len() == KEPT {
        kept.remove(0);
    }
    kept.push(encoder);
    kept.last().map(|(_, encoder)| encoder).ok_or_else(|| Error::internal("no encoder"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_flow::pipeline::ChunkOutcome;

    #[test]
    fn what_was_seen_comes_as_it_was_sent() {
        for number in 1..2000u32 {
            let max_abs = 0.1 / f64::from(number);
            let max_rel = if number == 7 { f64::INFINITY } else { max_abs / 3.0 };
            let observed = Some(Observed { max_abs, max_rel, worst: 5, changed: 6 });
            let outcome = ChunkOutcome { observed, ..ChunkOutcome::default() };
            let sent = Proven { outcome, values: number, kept: None };
            let mut bytes = vec![9];
            assert_eq!(split(&joined(&sent, &[1, 2, 3]).unwrap(), &mut bytes).unwrap(), sent);
            assert_eq!(bytes, [1, 2, 3]);
        }
    }
}
