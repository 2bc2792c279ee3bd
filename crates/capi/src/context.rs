//! The context: what was asked for, with the codecs to do it. Everything here is safe; pointers end in [`crate::abi`].

use knarr_array::array::{ArraySpec, ArrayView, Endian, swap_bytes};
use knarr_array::quality::Accuracy;
use knarr_array::{Error, ErrorKind, Result};
use knarr_choose::profile::Profile;
use knarr_codec::client_data::FilterOptions;
use knarr_codec::codec::Loss;
use knarr_codec::frame::{self, Frame};
use knarr_flow::engine::Engine;
use knarr_flow::pack::Packer;
use knarr_native::FrameCodecs;
use std::sync::Arc;

use crate::hints::set_words;
use crate::memory::dtype_number;
use crate::types::{KNARR_MAX_RANK, knarr_hints, knarr_info, knarr_validation};

/// What was asked for, and the means to do it. Made by knarr_context_create(), freed by knarr_context_free(). Any number
/// of threads may use one at once.
#[allow(non_camel_case_types, reason = "this is its name in the C interface")]
pub struct knarr_context {
    packer: Packer,
    fill: Option<f64>,
    codecs: FrameCodecs,
}

impl knarr_context {
    pub(crate) fn new(hints: &knarr_hints) -> Result<Self> {
        let FilterOptions { goal, quality, missing } = hints.options()?;
        let (chain, codecs) = (hints.forced_chain()?, FrameCodecs::new());
        // Chains with plugins are not chosen: readers would need those as well.
        let list = if chain.is_some() { codecs.all()? } else { codecs.own()? };
        if let Some(chain) = &chain {
            chain.complete(&list)?;
        }
        let mut engine = Engine::new(list);
        if let Some(path) = hints.profile_path()? {
            engine.profile = Arc::new(Profile::read(&path)?);
        }
        Ok(Self { packer: Packer { engine, goal, quality, chain }, fill: missing, codecs })
    }

    /// Bytes that the frame of an array may take at most, whatever the context.
    pub(crate) fn frame_bound(array: &ArraySpec) -> Result<usize> {
        // A context adds no more than one fill value.
        frame::max_len(&ArraySpec { fills: vec![0], ..array.clone() })
    }

    fn with_fill(&self, array: ArraySpec) -> ArraySpec {
        let fills = self.fill.and_then(|fill| array.dtype.float_bits(fill)).into_iter().collect();
        ArraySpec { fills, ..array }
    }

    pub(crate) fn compress(&self, array: ArraySpec, bytes: &[u8]) -> Result<Vec<u8>> {
        let spec = self.with_fill(array);
        let view = ArrayView::new(&spec, bytes)?;
        // What is encoded and its proof take about twice the array; what fails is said before any work.
        reserve(bytes.len().saturating_mul(2))?;
        let mut out = Vec::new();
        self.packer.pack(&view, &mut out)?;
        Ok(out)
    }

    /// Decodes a frame of at most `most` bytes of values.
    pub(crate) fn decompress(&self, bytes: &[u8], most: usize) -> Result<Vec<u8>> {
        let frame = frame::read(bytes)?;
        let needed = frame.array.byte_len();
        if needed > most {
            return Err(Error::usage(format!(
                "the destination has {most} bytes, {} {:?} needs {needed}",
                frame.array.dtype, frame.array.shape
            ))
            .hint("ask knarr_inspect() for the size"));
        }
        self.decode(&frame)
    }

    /// Values in the byte order of this machine: the HDF5 filter makes frames of both.
    fn decode(&self, frame: &Frame<'_>) -> Result<Vec<u8>> {
        reserve(frame.array.byte_len())?;
        let mut out = Vec::new();
        self.codecs.decode(frame, &mut out)?;
        let own = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };
        if frame.array.endian != own {
            swap_bytes(&mut out, frame.array.dtype.size());
        }
        Ok(out)
    }

    pub(crate) fn inspect(&self, bytes: &[u8]) -> Result<knarr_info> {
        let frame = frame::read(bytes)?;
        let (array, too_many) = (&frame.array, || Error::corrupt("a frame with too many dimensions"));
        let dtype = dtype_number(array.dtype)
            .ok_or_else(|| Error::unsupported(format!("a frame of elements of type {}", array.dtype)))?;
        let codecs = match self.codecs.own()? {
            own if frame.chain(&own).is_ok() => own,
            _ => self.codecs.all()?,
        };
        let chain = frame.chain(&codecs)?;
        let lossy = knarr_codec::chain::Chain::prepare(&codecs, &chain, array)?.loss() == Loss::Lossy;
        let mut info = knarr_info {
            size: size_of::<knarr_info>(),
            dtype,
            rank: i32::try_from(array.shape.len()).map_err(|_| too_many())?,
            shape: [0; KNARR_MAX_RANK],
            raw_size: array.byte_len(),
            frame_size: bytes.len(),
            lossy: i32::from(lossy),
            chain: [0; 512],
        };
        info.shape.get_mut(..array.shape.len()).ok_or_else(too_many)?.copy_from_slice(&array.shape);
        let most = info.chain.len() - 1;
        set_words("chain", &mut info.chain, &cut(&chain.to_string(), most))?;
        Ok(info)
    }

    /// Decodes a frame and compares it with the original, which this context's hints are about.
    pub(crate) fn validate(
        &self,
        bytes: &[u8],
        array: ArraySpec,
        original: &[u8],
    ) -> Result<(knarr_hints, knarr_validation)> {
        let frame = frame::read(bytes)?;
        let spec = self.with_fill(array);
        let held = &frame.array;
        if (held.dtype, held.endian, &held.shape) != (spec.dtype, spec.endian, &spec.shape) {
            return Err(Error::usage(format!(
                "the frame holds {} {:?}, the original is {} {:?}",
                held.dtype, held.shape, spec.dtype, spec.shape
            ))
            .hint("compare it with the array that it was made from"));
        }
        let view = ArrayView::new(&spec, original)?;
        let seen = Accuracy::measure(&view, &self.decode(&frame)?, &self.packer.quality)?;
        let index = |index: Option<usize>| index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1);
        let mut found = knarr_validation {
            size: size_of::<knarr_validation>(),
            holds: i32::from(seen.miss.is_none()),
            elements: index(Some(spec.len())),
            changed: i64::try_from(seen.changed).unwrap_or(i64::MAX),
            worst_abs: index(seen.max_abs.at),
            worst_rel: index(seen.max_rel.at),
            worst_bits: index(seen.bits.and_then(|bits| bits.at)),
            worst_digits: index(seen.digits.and_then(|digits| digits.at)),
            first_miss: index(seen.miss.as_ref().map(|miss| miss.index)),
            miss: [0; 256],
        };
        if let Some(miss) = &seen.miss {
            let most = found.miss.len() - 1;
            set_words("miss", &mut found.miss, &cut(&miss.why, most))?;
        }
        Ok((knarr_hints::observed(&seen), found))
    }

    pub(crate) fn explain(&self, array: ArraySpec, bytes: &[u8]) -> Result<String> {
        let spec = self.with_fill(array);
        let choice = self.packer.plan(&ArrayView::new(&spec, bytes)?)?;
        Ok(format!("{} for goal '{}'\n{}", choice.chain, self.packer.goal, choice.explained(choice.reader.in_words())))
    }
}

/// Text of at most `most` bytes; "..." says that there is more.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most.saturating_sub(3)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}...", text.get(..end).unwrap_or_default())
}

/// Fails if the system does not give this much memory, which Rust's own containers end the process for.
fn reserve(bytes: usize) -> Result<()> {
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| {
        Error::new(ErrorKind::Unsupported, format!("there is no memory for {bytes} bytes"))
            .hint("compress the array in parts")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abc...");
        assert_eq!(cut("aéééé", 6), "aé...");
    }

    #[test]
    fn values_come_in_the_byte_order_of_the_machine() {
        let context = knarr_context::new(&knarr_hints::UNSTATED).unwrap();
        let values: Vec<u32> = (0..1000).collect();
        let native: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        for (endian, bytes) in [
            (Endian::Big, values.iter().flat_map(|value| value.to_be_bytes()).collect::<Vec<u8>>()),
            (Endian::Little, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        ] {
            let spec = ArraySpec { endian, ..ArraySpec::new(knarr_array::array::DType::U32, [1000]) };
            let frame = context.compress(spec, &bytes).unwrap();
            assert_eq!(context.decompress(&frame, native.len()).unwrap(), native);
        }
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        assert_eq!(reserve(isize::MAX as usize).unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(reserve(1 << 20).is_ok());
    }
}
