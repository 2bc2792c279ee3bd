//! Arrays in memory, each packed into one frame: what the bindings for other languages use.

use crate::pipeline::{Buffers, ChunkEncoder, ChunkOutcome, Container, plan_array};
use crate::settings::{ChunkRule, VariableSettings};
use crate::threads::engine::Engine;
use knarr_array::array::ArrayView;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::goal::Goal;
use knarr_array::quality::Quality;
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::Choice;
use knarr_codec::chain::{Chain, ChainSpec};
use knarr_codec::codec::ReaderLevel;

/// A frame is Knarr's own container: every codec may be used.
const TARGET: FormatLimits = FormatLimits::hdf5(ReaderLevel::Knarr);

/// Packs arrays. Immutable, so that threads can share it; each call works in the calling thread alone, and equal
/// arrays give equal frames.
#[derive(Clone)]
pub struct Packer {
    /// Codecs to choose from, and what they cost.
    pub engine: Engine,
    /// What to optimise.
    pub goal: Goal,
    /// What may change in the values.
    pub quality: Quality,
    /// Chain to use without choosing.
    pub chain: Option<ChainSpec>,
}

impl Packer {
    /// The choice for an array, with its reasons.
    ///
    /// # Errors
    /// `Quality` or `Unsupported` if the quality or the chain cannot be served for the array.
    pub fn plan(&self, array: &ArrayView<'_>) -> Result<Choice> {
        let settings = VariableSettings {
            quality: self.quality,
            kept_lossless: None,
            chain: self.chain.clone(),
            chunks: ChunkRule::Auto,
        };
        plan_array(&self.engine, array.spec(), array.bytes(), &settings, &self.goal, TARGET, None)
    }

    /// Replaces `out` by the frame of an array, which was decoded and compared, and is at most
    /// [`knarr_codec::frame::max_len`] long. Where a bound would not hold for every element the frame is lossless.
    ///
    /// # Errors
    /// As for [`Packer::plan`]; what a forced chain reports, and `Quality` if it breaks the bound anywhere.
    pub fn pack(&self, array: &ArrayView<'_>, out: &mut Vec<u8>) -> Result<ChunkOutcome> {
        let choice = self.plan(array)?;
        let mut chains = vec![choice.chain.clone()];
        if self.chain.is_none() {
            // Some codecs take less at once than the array has, which trials on samples do not show.
            let others = choice.candidates.iter().filter(|other| other.is_usable()).map(|other| other.chain.clone());
            chains.extend(others.filter(|chain| *chain != choice.chain));
            chains.push(ChainSpec::raw());
        }
        let mut buffers = Buffers::default();
        let mut failed = Error::internal("no chain was tried");
        for chain in &chains {
            match self.encode(&choice, chain, array, &mut buffers, out) {
                Ok(outcome) if outcome.fell_back && self.chain.is_some() => {
                    return Err(Error::new(ErrorKind::Quality, format!("chain '{chain}' breaks the bound"))
                        .hint("choose another chain or bound, or leave the chain out"));
                }
                Ok(outcome) => return Ok(outcome),
                Err(error) => failed = error.at_once(&format!("chain '{chain}'")),
            }
        }
        Err(failed)
    }

    fn encode(
        &self,
        choice: &Choice,
        chain: &ChainSpec,
        array: &ArrayView<'_>,
        buffers: &mut Buffers,
        out: &mut Vec<u8>,
    ) -> Result<ChunkOutcome> {
        let (codecs, spec) = (&self.engine.codecs, array.spec());
        let fallback = TARGET.fallback(codecs, &Chain::prepare(codecs, chain, spec)?);
        let bound = match &fallback {
            Some(_) => choice.bound.or_else(|| self.quality.bound_of(spec, array.bytes())),
            None => None,
        };
        let encoder =
            ChunkEncoder::new(codecs, chain, fallback.as_ref(), spec.clone(), bound, true, Container::Filter)?;
        encoder.encode(array.bytes(), buffers, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::{ArraySpec, DType};
    use knarr_codec::chain::Scratch;
    use knarr_codec::codec::CodecList;
    use knarr_codec::frame;

    fn packer(quality: Quality, chain: Option<&str>) -> Packer {
        let engine = Engine::new(CodecList::pure());
        Packer { engine, goal: Goal::balanced(), quality, chain: chain.map(|chain| chain.parse().unwrap()) }
    }

    fn field(shape: &[usize]) -> (ArraySpec, Vec<u8>) {
        let spec = ArraySpec::new(DType::F32, shape);
        let count = u16::try_from(spec.len()).unwrap();
        let bytes = (0..count).flat_map(|i| (280.0 + 10.0 * (f32::from(i) * 0.01).sin()).to_le_bytes()).collect();
        (spec, bytes)
    }

    fn unpacked(packed: &[u8]) -> (ArraySpec, Vec<u8>) {
        let frame = frame::read(packed).unwrap();
        let mut out = Vec::new();
        frame.decode(&CodecList::pure(), &mut Scratch::default(), &mut out).unwrap();
        (frame.array, out)
    }

    #[test]
    fn arrays_of_any_size_come_back_within_the_length_promised() {
        for shape in [&[][..], &[0], &[3, 0, 7], &[1], &[40, 50], &[2, 1, 3, 1, 4, 1, 5]] {
            let (spec, bytes) = field(shape);
            let mut packed = vec![1];
            packer(Quality::LOSSLESS, None).pack(&ArrayView::new(&spec, &bytes).unwrap(), &mut packed).unwrap();
            assert!(packed.len() <= frame::max_len(&spec).unwrap(), "{shape:?}");
            assert_eq!(unpacked(&packed), (spec, bytes));
        }
    }

    #[test]
    fn bounds_hold_and_forced_chains_that_miss_them_are_refused() {
        // Noise below the bound, which no lossless chain gets rid of; only the first value is beyond the limit.
        let (spec, smooth) = field(&[40, 50]);
        let noise = (0..u16::MAX).map(|i| f32::from(i.wrapping_mul(40_503)) / 16_777_216.0);
        let values = smooth.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value) - 6.0);
        let mut values: Vec<f32> = values.zip(noise).map(|(value, noise)| value + noise).collect();
        values[0] = 299.7;
        let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
        let view = ArrayView::new(&spec, &bytes).unwrap();
        let quality = Quality { max_abs_error: Some(0.01), exact_from: Some(285.0), ..Quality::LOSSLESS };
        let mut packed = Vec::new();
        packer(quality, None).pack(&view, &mut packed).unwrap();
        let bound = quality.bound_of(&spec, &bytes).unwrap();
        assert!(bound.check(&spec, &bytes, &unpacked(&packed).1).unwrap().changed > 0);
        let error = packer(quality, Some("bitround:2 | shuffle | brotli:4")).pack(&view, &mut packed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Quality);
        let error = packer(Quality::LOSSLESS, Some("bitround:2")).pack(&view, &mut packed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Quality);
    }
}
