//! Values as they cross a network: as they are, or in a frame that is shorter, with the CRC-32C of the values. The last byte
//! says which.

use std::sync::OnceLock;

use knarr_array::array::{ArraySpec, DType};
use knarr_array::error::{Error, Result};
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_codec::codec::CodecList;
use knarr_codec::frame;

/// How values are packed: a codec that every process has, and that gains on real fields as much as others.
const CHAIN: &str = "pcodec:4";
/// What the last byte says.
const PLAIN: u8 = 0;
const FRAME: u8 = 1;

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

/// The `bytes` bytes of values that were sent. What was sent is hostile.
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
