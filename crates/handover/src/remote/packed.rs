//! Values as they cross a network: as they are, or in a frame that is shorter, with the CRC-32C of the values. The last byte
//! says which.
//!
//! Values that may lose something are encoded by the same encoder as the chunks of files: it decodes them again and proves the
//! bound for each of them, or they go without loss. Beside them go the largest errors.

use std::sync::OnceLock;

use knarr_array::array::{ArraySpec, DType};
use knarr_array::error::{Error, Result};
use knarr_array::quality::Observed;
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_codec::codec::CodecList;
use knarr_codec::frame;
use knarr_flow::pipeline::{Buffers, ChunkEncoder};

use crate::remote::transfer_bound::TransferBound;

/// How values are packed: a codec that every process has, and that gains on real fields as much as others.
const CHAIN: &str = "pcodec:4";
/// The same for values that were rounded: it takes as long, and finds much more in them.
const ROUNDED: &str = "pcodec:8";
/// What the last byte says.
const PLAIN: u8 = 0;
const FRAME: u8 = 1;
const BOUNDED: u8 = 2;

fn codecs() -> &'static CodecList {
    static CODECS: OnceLock<CodecList> = OnceLock::new();
    CODECS.get_or_init(CodecList::pure)
}

/// The type as which values are packed; `None` for bytes, of which the codec gains little. HDF5 does not say what is in its
/// elements, and any bits come back.
fn as_numbers(dtype: DType) -> Option<DType> {
    match dtype {
        DType::Opaque(2) => Some(DType::U16),
        DType::Opaque(4) => Some(DType::F32),
        DType::Opaque(8) => Some(DType::F64),
        other => Some(other).filter(|dtype| dtype.is_number() && dtype.size() > 1),
    }
}

/// The frame of values of a type; `None` if there is none that is shorter.
pub(crate) fn frame_of(values: &[u8], dtype: DType) -> Option<Vec<u8>> {
    let (dtype, spec): (DType, ChainSpec) = (as_numbers(dtype)?, CHAIN.parse().ok()?);
    let count = values.len() / dtype.size();
    if count * dtype.size() != values.len() {
        return None;
    }
    let chain = Chain::prepare(codecs(), &spec, &ArraySpec::new(dtype, [count])).ok()?;
    let (mut payload, mut framed) = (Vec::new(), Vec::new());
    chain.encode(values, &mut Scratch::default(), &mut payload).ok()?;
    frame::write(&chain, &payload, &mut framed).ok()?;
    framed.extend_from_slice(&crc32c::crc32c(values).to_le_bytes());
    (framed.len() < values.len()).then_some(framed)
}

/// The values of a frame.
///
/// # Errors
/// `Corrupt` if it is none, or has not `bytes` bytes of values; as for [`frame::Frame::decode`].
pub(crate) fn values_of(framed: &[u8], bytes: usize) -> Result<Vec<u8>> {
    let (framed, sum) = framed.split_last_chunk().ok_or_else(|| Error::corrupt("no frame"))?;
    let frame = frame::read(framed)?;
    if frame.array.byte_len() != bytes {
        return Err(Error::corrupt("a frame of other values than were asked for"));
    }
    let mut values = Vec::new();
    frame.decode(codecs(), &mut Scratch::default(), &mut values)?;
    match values.len() == bytes && crc32c::crc32c(&values) == u32::from_le_bytes(*sum) {
        true => Ok(values),
        false => Err(Error::corrupt("a frame of other values than it says")),
    }
}

/// Values to be sent, in a frame if their type is given and it is shorter.
pub(crate) fn pack(mut values: Vec<u8>, dtype: Option<DType>) -> Vec<u8> {
    match dtype.and_then(|dtype| frame_of(&values, dtype)) {
        Some(mut framed) => {
            framed.push(FRAME);
            framed
        }
        None => {
            values.push(PLAIN);
            values
        }
    }
}

/// Values to be sent that may lose something, and the largest errors: as for [`pack`] where the bound cannot be kept, or where
/// that is no longer.
pub(crate) fn pack_within(values: Vec<u8>, dtype: Option<DType>, within: &TransferBound) -> (Vec<u8>, Observed) {
    rounded(&values, within).unwrap_or_else(|| (pack(values, dtype), Observed::default()))
}

/// Values within their bound: a frame, its sum, and the errors. `None` if there is none that is shorter.
fn rounded(values: &[u8], within: &TransferBound) -> Option<(Vec<u8>, Observed)> {
    let (spec, quality) = (within.spec(values.len())?, within.quality().ok()?);
    // A fraction of the range is one of the range of these values, which that of the variable holds.
    let bound = quality.bound_of(&spec, values).filter(|bound| bound.abs > 0.0)?;
    let encoder = ChunkEncoder::within(codecs(), &ROUNDED.parse().ok()?, spec, bound).ok()?;
    let (mut buffers, mut sent) = (Buffers::default(), Vec::new());
    let outcome = encoder.encode(values, &mut buffers, &mut sent).ok()?;
    let seen = outcome.observed.filter(|_| !outcome.fell_back && !outcome.stored)?;
    sent.extend_from_slice(&crc32c::crc32c(encoder.read_back(values, &outcome, &buffers)).to_le_bytes());
    for number in [seen.max_abs.to_bits(), seen.max_rel.to_bits(), seen.changed] {
        sent.extend_from_slice(&number.to_le_bytes());
    }
    sent.push(BOUNDED);
    (sent.len() < values.len()).then_some((sent, seen))
}

/// The `bytes` bytes of values that were sent and may have lost something, and the largest errors. What was sent is hostile.
///
/// # Errors
/// `Corrupt` if they are not that.
pub(crate) fn unpack_within(mut sent: Vec<u8>, bytes: usize) -> Result<(Vec<u8>, Observed)> {
    let Some(_) = sent.pop_if(|last| *last == BOUNDED) else {
        return unpack(sent, bytes).map(|values| (values, Observed::default()));
    };
    let senseless = || Error::corrupt("an answer that makes no sense");
    let (framed, errors) = sent.split_last_chunk::<24>().ok_or_else(senseless)?;
    let [abs, rel, changed] = std::array::from_fn(|at| {
        errors[at * 8..at * 8 + 8].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
    });
    let (max_abs, max_rel) = (f64::from_bits(abs), f64::from_bits(rel));
    if !(0.0..f64::INFINITY).contains(&max_abs) || !(0.0..=f64::INFINITY).contains(&max_rel) {
        return Err(senseless());
    }
    Ok((values_of(framed, bytes)?, Observed { max_abs, max_rel, worst: 0, changed }))
}

/// The `bytes` bytes of values that were sent as they are. What was sent is hostile.
///
/// # Errors
/// `Corrupt` if they are not that.
pub(crate) fn unpack(mut sent: Vec<u8>, bytes: usize) -> Result<Vec<u8>> {
    match sent.pop() {
        Some(PLAIN) if sent.len() == bytes => Ok(sent),
        Some(FRAME) => values_of(&sent, bytes),
        _ => Err(Error::corrupt("an answer that makes no sense")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::Endian;

    #[test]
    fn values_of_any_type_come_back_bit_for_bit() {
        let smooth: Vec<u8> =
            (0..5000).flat_map(|n| ((f64::from(n) / 700.0).sin() * 99.0).round().to_le_bytes()).collect();
        let special = [f64::NAN, -0.0, f64::INFINITY, f64::from_bits(0x7FF0_0000_0000_0001), f64::MIN_POSITIVE / 4.0];
        let special: Vec<u8> = special.iter().cycle().take(5000).flat_map(|value| value.to_le_bytes()).collect();
        for values in [&smooth, &special] {
            let all = [DType::I8, DType::U16, DType::F16, DType::I32, DType::F32, DType::U64, DType::F64];
            for dtype in all.into_iter().chain([2, 4, 5, 8].map(DType::Opaque)).map(Some).chain([None]) {
                let sent = pack(values.clone(), dtype);
                assert!(sent.len() <= values.len() + 1, "{dtype:?}");
                assert_eq!(unpack(sent, values.len()).unwrap(), *values, "{dtype:?}");
            }
        }
        assert!(pack(smooth.clone(), Some(DType::F64)).len() < smooth.len());
        // A part of an element, and nothing.
        for values in [&smooth[..13], &[]] {
            assert_eq!(unpack(pack(values.to_vec(), Some(DType::F64)), values.len()).unwrap(), values);
        }
    }

    fn within(dtype: DType, endian: Endian, quality: &str) -> TransferBound {
        TransferBound { variable: "T".to_owned(), dtype, endian, fills: vec![], quality: quality.to_owned() }
    }

    #[test]
    fn what_may_be_lost_is_lost_within_the_bound_and_measured() {
        let wave = |n: u32| (f64::from(n) / 700.0).sin() * 99.0;
        for (endian, bytes) in
            [(Endian::Little, f64::to_le_bytes as fn(f64) -> [u8; 8]), (Endian::Big, f64::to_be_bytes)]
        {
            let values: Vec<u8> = (0..5000).flat_map(|n| bytes(wave(n))).collect();
            let exact = pack(values.clone(), Some(DType::F64)).len();
            for quality in ["max_abs_error=0.01", "max_rel_error=0.001", "significant_digits=3", "significant_bits=9"] {
                let within = within(DType::F64, endian, quality);
                let (sent, seen) = pack_within(values.clone(), Some(DType::Opaque(8)), &within);
                assert!(sent.len() < exact / 2, "{quality}: {} of {exact}", sent.len());
                let (found, told) = unpack_within(sent.clone(), values.len()).unwrap();
                assert_eq!((told.max_abs, told.max_rel, told.changed), (seen.max_abs, seen.max_rel, seen.changed));
                let bound = within.quality().unwrap().bound(None).unwrap();
                let proven = bound.check(&within.spec(values.len()).unwrap(), &values, &found).unwrap();
                assert_eq!(
                    (proven.max_abs, proven.max_rel, proven.changed),
                    (seen.max_abs, seen.max_rel, seen.changed)
                );
                assert!(seen.changed > 0);
                assert!(unpack(sent, values.len()).is_err(), "nobody gets it who did not ask for it");
            }
            // A fraction of a range is one of the range of these values.
            let (_, seen) = pack_within(values.clone(), None, &within(DType::F64, endian, "max_range_error=0.001"));
            assert!(seen.max_abs > 0.0 && seen.max_abs <= 0.198, "{seen:?}");
        }
    }

    #[test]
    fn what_must_not_change_comes_bit_for_bit() {
        let special = [f32::NAN, -0.0, f32::INFINITY, f32::NEG_INFINITY, 0.0, 1e20, f32::from_bits(0x7F80_0001)];
        let values: Vec<f32> = (0..4000u16)
            .map(|n| if n % 5 == 0 { special[usize::from(n / 5) % 7] } else { f32::from(n).sqrt() + 0.001 })
            .collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut within = within(DType::F32, Endian::Little, "max_abs_error=0.5, exact_from=60");
        within.fills = vec![u64::from(1e20f32.to_bits())];
        let (sent, seen) = pack_within(bytes.clone(), Some(DType::F32), &within);
        let (found, _) = unpack_within(sent, bytes.len()).unwrap();
        assert!(seen.changed > 0);
        for (value, found) in values.iter().zip(found.as_chunks::<4>().0) {
            let found = f32::from_le_bytes(*found);
            if special.iter().any(|special| special.to_bits() == value.to_bits()) && *value != 0.0 || *value >= 60.0 {
                assert_eq!(found.to_bits(), value.to_bits());
            } else {
                assert!((found - value).abs() <= 0.5 && found < 60.0);
            }
        }
    }

    #[test]
    fn where_nothing_is_to_be_lost_values_come_as_they_are() {
        let smooth: Vec<u8> = (0..999).flat_map(|n| (f64::from(n) / 70.0).sin().to_le_bytes()).collect();
        let constant = 7.5f64.to_le_bytes().repeat(999);
        let cases = [
            // No range, no bound that can be kept, no floating point, no whole elements, and nonsense.
            (&constant[..], within(DType::F64, Endian::Little, "max_range_error=0.1")),
            (&smooth[..], within(DType::F64, Endian::Little, "max_abs_error=1e-300")),
            (&smooth[..], within(DType::I64, Endian::Little, "max_abs_error=3")),
            (&smooth[..801], within(DType::F64, Endian::Little, "max_abs_error=0.1")),
            (&smooth[..], within(DType::F64, Endian::Little, "max_abs_error=-1")),
            (&smooth[..], within(DType::F64, Endian::Little, "lossless")),
            (&smooth[..], within(DType::F64, Endian::Little, "so so")),
            (&[][..], within(DType::F64, Endian::Little, "max_abs_error=0.1")),
        ];
        for (values, within) in cases {
            let (sent, seen) = pack_within(values.to_vec(), Some(DType::F64), &within);
            assert_eq!(seen, Observed::default(), "{within:?}");
            assert_eq!(unpack_within(sent, values.len()).unwrap(), (values.to_vec(), seen), "{within:?}");
        }
    }

    #[test]
    fn what_is_damaged_within_a_bound_is_refused() {
        let smooth: Vec<u8> = (0..500).flat_map(|n| (f64::from(n) / 70.0).sin().to_le_bytes()).collect();
        let within = within(DType::F64, Endian::Little, "max_abs_error=0.001");
        let (sent, seen) = pack_within(smooth.clone(), Some(DType::F64), &within);
        for end in 0..sent.len() {
            assert!(unpack_within(sent[..end].to_vec(), smooth.len()).is_err(), "{end}");
        }
        let errors = sent.len() - 25..sent.len() - 1;
        let exact = unpack_within(sent.clone(), smooth.len()).unwrap().0;
        for place in 0..sent.len() {
            let mut damaged = sent.clone();
            damaged[place] ^= 0x40;
            if let Ok((values, told)) = unpack_within(damaged, smooth.len()) {
                // Messages have a checksum of their own: here only what is told of the errors may differ.
                assert!(errors.contains(&place) && values == exact && told != seen, "{place}");
                assert!(told.max_abs.is_finite() && told.max_abs >= 0.0 && told.max_rel >= 0.0);
            }
        }
        for (from, bits) in [(0, f64::NAN), (0, f64::INFINITY), (0, -1.0), (8, f64::NAN), (8, -1.0)] {
            let mut damaged = sent.clone();
            let at = errors.start + from;
            damaged[at..at + 8].copy_from_slice(&bits.to_le_bytes());
            assert!(unpack_within(damaged, smooth.len()).is_err(), "{bits}");
        }
        assert!(unpack_within(sent.clone(), smooth.len() - 8).is_err() && unpack_within(sent, usize::MAX).is_err());
    }

    #[test]
    fn what_is_damaged_or_of_another_length_is_refused() {
        let smooth: Vec<u8> =
            (0..500).flat_map(|n| ((f64::from(n) / 70.0).sin() * 99.0).round().to_le_bytes()).collect();
        for dtype in [None, Some(DType::F64)] {
            let sent = pack(smooth.clone(), dtype);
            assert!(unpack(sent.clone(), smooth.len() - 8).is_err() && unpack(sent.clone(), usize::MAX).is_err());
            for end in 0..sent.len() {
                assert!(unpack(sent[..end].to_vec(), smooth.len()).is_err(), "{end}");
            }
        }
        let sent = pack(smooth.clone(), Some(DType::F64));
        for place in 0..sent.len() {
            let mut damaged = sent.clone();
            damaged[place] ^= 0x40;
            assert!(unpack(damaged, smooth.len()).is_err(), "{place}");
        }
    }
}
