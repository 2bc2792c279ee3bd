//! Frames: Knarr's self-describing, checksummed record of one encoded chunk.
//!
//! A frame says how to decode itself: type, byte order, shape and fill values of the chunk, and each step of the
//! chain with all its options spelled out, so that defaults may change. Layout, version 1; numbers without a
//! size are LEB128, fixed-size ones little-endian:
//!
//! ```text
//! "KNRF"  version: u8  type: u8  [element size, if opaque]  byte order: u8
//! rank  extents...  fill values: count, u64...  steps: count, then wire id, options length, options text...
//! payload length  checksum of all before: u32  payload  checksum of the payload: u32
//! ```
//!
//! The checksum is CRC-32C: it finds every error within 32 consecutive bits for certain, which a hash of that
//! length finds only very probably, processors compute it at memory speed, and Zarr and file systems use the
//! same one. Bytes that do not belong to the frame are an error.

mod codec;

pub use codec::Framed;

use crate::chain::{Chain, ChainSpec, Scratch};
use crate::codec::CodecList;
use knarr_array::array::{ArraySpec, DType, Endian};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::wire::{Reader, put_number};

const MAGIC: [u8; 4] = *b"KNRF";
const VERSION: u8 = 1;
const CHECKSUM: usize = 4;

/// More axes than HDF5 and netCDF allow are not sensible, and neither are more fill values or steps.
const MAX_COUNT: u64 = 32;

/// Numbers of the data types in frames. Pinned: never reused, never changed.
const TYPES: [(u8, DType); 11] = [
    (1, DType::I8),
    (2, DType::I16),
    (3, DType::I32),
    (4, DType::I64),
    (5, DType::U8),
    (6, DType::U16),
    (7, DType::U32),
    (8, DType::U64),
    (9, DType::F16),
    (10, DType::F32),
    (11, DType::F64),
];
const OPAQUE: u8 = 12;

/// Number of a data type, in frames and in the filter's client data. An opaque type's size is said apart.
pub fn dtype_number(dtype: DType) -> u8 {
    TYPES.iter().find(|(_, other)| *other == dtype).map_or(OPAQUE, |(number, _)| *number)
}

/// The data type of a number; `size` reads that of an opaque type.
///
/// # Errors
/// Those of `size`.
pub fn numbered_dtype(number: u8, size: impl FnOnce() -> Result<u32>) -> Result<Option<DType>> {
    if number == OPAQUE {
        return size().map(|size| Some(DType::Opaque(size)));
    }
    Ok(TYPES.iter().find(|(other, _)| *other == number).map(|(_, dtype)| *dtype))
}

/// A step as a frame holds it: the codec's number and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameStep {
    /// [`crate::codec::Codec::wire_id`].
    pub wire_id: u16,
    /// Options as in the text form of chains: `name=value,...`.
    pub options: String,
}

/// A frame that was read: its checksums hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What the decoded bytes mean.
    pub array: ArraySpec,
    /// The chain that encoded them.
    pub steps: Vec<FrameStep>,
    /// The encoded chunk.
    pub payload: &'a [u8],
}

/// Replaces the contents of `out` by the frame of `payload`, which `chain` encoded.
///
/// # Errors
/// `Unsupported` if the array has more than 32 axes or fill values, or the chain more than 32 steps.
pub fn write(chain: &Chain, payload: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let array = chain.input();
    out.clear();
    out.extend_from_slice(&MAGIC);
    out.push(VERSION);
    out.push(dtype_number(array.dtype));
    if let DType::Opaque(size) = array.dtype {
        put_number(out, u64::from(size));
    }
    out.push(match array.endian {
        Endian::Little => 0,
        Endian::Big => 1,
    });
    put_count(out, array.shape.len(), "axes")?;
    for &extent in &array.shape {
        put_number(out, extent as u64);
    }
    put_count(out, array.fills.len(), "fill values")?;
    for fill in &array.fills {
        out.extend_from_slice(&fill.to_le_bytes());
    }
    put_count(out, chain.steps().count(), "steps")?;
    for (codec, options) in chain.steps() {
        let options: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let options = options.join(",");
        put_number(out, u64::from(codec.wire_id()));
        put_number(out, options.len() as u64);
        out.extend_from_slice(options.as_bytes());
    }
    put_number(out, payload.len() as u64);
    out.extend_from_slice(&crc32c::crc32c(out).to_le_bytes());
    out.reserve(payload.len() + CHECKSUM);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    Ok(())
}

/// Bytes that the frame of an array may take at most: encoding that does not gain is not kept.
///
/// # Errors
/// `Unsupported` if the shape is too large, or has more than 32 axes or fill values.
pub fn max_len(array: &ArraySpec) -> Result<usize> {
    let raw = Chain::prepare(&CodecList::default(), &ChainSpec::raw(), array)?;
    let mut header = Vec::new();
    write(&raw, &[], &mut header)?;
    // The length of the payload takes one byte in this header and up to ten in others.
    (header.len() + 9)
        .checked_add(array.byte_len())
        .ok_or_else(|| Error::unsupported(format!("shape {:?} of {} is too large", array.shape, array.dtype)))
}

/// Reads a frame that takes up all of `bytes`, and verifies its checksums.
///
/// # Errors
/// `Corrupt` if `bytes` are not a whole, undamaged frame; `Unsupported` if a later version wrote it.
pub fn read(bytes: &[u8]) -> Result<Frame<'_>> {
    let mut reader = Reader::new("frame", bytes);
    let (array, steps, payload_len) = header(&mut reader)?;
    let header_len = bytes.len() - reader.left();
    verify("header", bytes.get(..header_len).unwrap_or_default(), reader.array()?)?;
    let payload = reader.take(payload_len)?;
    verify("payload", payload, reader.array()?)?;
    if reader.left() > 0 {
        return Err(Error::corrupt(format!("{} bytes follow the frame", reader.left())));
    }
    array.checked_len().map_err(|_| damaged("shape"))?;
    Ok(Frame { array, steps, payload })
}

/// The chain of the frame that begins with `bytes`, of which the header must be there. The payload is not looked at.
///
/// # Errors
/// As for [`read()`] and [`Frame::chain`].
pub fn head_chain(bytes: &[u8], codecs: &CodecList) -> Result<ChainSpec> {
    let mut reader = Reader::new("frame", bytes);
    let (array, steps, _) = header(&mut reader)?;
    let header_len = bytes.len() - reader.left();
    verify("header", bytes.get(..header_len).unwrap_or_default(), reader.array()?)?;
    Frame { array, steps, payload: &[] }.chain(codecs)
}

/// Reads everything before the checksum of the header; last comes the length of the payload.
fn header(reader: &mut Reader<'_>) -> Result<(ArraySpec, Vec<FrameStep>, usize)> {
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(Error::corrupt("not a frame: it does not begin with 'KNRF'"));
    }
    let version = reader.byte()?;
    if version != VERSION {
        return Err(Error::unsupported(format!("frame of version {version}, this is version {VERSION}"))
            .hint("read it with a newer Knarr"));
    }
    let number = reader.byte()?;
    let size = || u32::try_from(reader.number()?).map_err(|_| damaged("element size"));
    let dtype = numbered_dtype(number, size)?.ok_or_else(|| damaged("type"))?;
    let endian = match reader.byte()? {
        0 => Endian::Little,
        1 => Endian::Big,
        _ => return Err(damaged("byte order")),
    };
    let extent = |reader: &mut Reader<'_>| usize::try_from(reader.number()?).map_err(|_| damaged("extent"));
    let shape = (0..count(reader)?).map(|_| extent(reader)).collect::<Result<_>>()?;
    let fills = (0..count(reader)?).map(|_| Ok(u64::from_le_bytes(reader.array()?))).collect::<Result<_>>()?;
    let steps = (0..count(reader)?).map(|_| step(reader)).collect::<Result<_>>()?;
    let payload_len = usize::try_from(reader.number()?).map_err(|_| damaged("length"))?;
    Ok((ArraySpec { dtype, endian, shape, fills }, steps, payload_len))
}

impl Frame<'_> {
    /// The chain that decodes the payload.
    ///
    /// # Errors
    /// `MissingFilter` if a codec is not in the list; `Corrupt` if its options are not understood.
    pub fn chain(&self, codecs: &CodecList) -> Result<ChainSpec> {
        let step = |step: &FrameStep| {
            let codec = codecs.with_wire_id(step.wire_id).ok_or_else(|| {
                Error::new(ErrorKind::MissingFilter, format!("codec number {} is not known", step.wire_id))
                    .hint("read the frame with a Knarr that has it")
            })?;
            let separator = if step.options.is_empty() { "" } else { ":" };
            let parsed: ChainSpec = format!("{}{separator}{}", codec.name(), step.options)
                .parse()
                .map_err(|error: Error| Error::corrupt(error.to_string()).at("frame"))?;
            match <[_; 1]>::try_from(parsed.0) {
                Ok([step]) => Ok(step),
                Err(_) => Err(damaged("options")),
            }
        };
        Ok(ChainSpec(self.steps.iter().map(step).collect::<Result<_>>()?))
    }

    /// Decodes the payload into `out`.
    ///
    /// # Errors
    /// As for [`Frame::chain`]; `Corrupt` if the payload is not what the chain writes.
    pub fn decode(&self, codecs: &CodecList, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        let chain = Chain::prepare(codecs, &self.chain(codecs)?, &self.array)?;
        chain.decode(self.payload, scratch, out)
    }
}

fn put_count(out: &mut Vec<u8>, count: usize, what: &str) -> Result<()> {
    if count as u64 > MAX_COUNT {
        return Err(Error::unsupported(format!("frames hold at most {MAX_COUNT} {what}, {count} given")));
    }
    put_number(out, count as u64);
    Ok(())
}

fn verify(part: &str, bytes: &[u8], stored: [u8; CHECKSUM]) -> Result<()> {
    let (computed, stored) = (crc32c::crc32c(bytes), u32::from_le_bytes(stored));
    if computed == stored {
        return Ok(());
    }
    Err(Error::corrupt(format!("checksum of the frame's {part} is {computed:08x}, {stored:08x} was stored"))
        .hint("the data is damaged: restore it from a copy"))
}

fn damaged(field: &str) -> Error {
    Error::corrupt(format!("frame with an impossible {field}"))
}

/// The frame that `bytes` would be with the right checksums; `None` if its header makes no sense. For fuzzing what lies
/// behind the checksums.
pub fn with_checksums(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new("frame", bytes);
    let (_, _, payload_len) = header(&mut reader).ok()?;
    let (start, rest) = bytes.split_at_checked(bytes.len() - reader.left())?;
    let payload = rest.get(CHECKSUM..CHECKSUM.checked_add(payload_len)?)?;
    let mut mended = start.to_vec();
    mended.extend_from_slice(&crc32c::crc32c(start).to_le_bytes());
    mended.extend_from_slice(payload);
    mended.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    Some(mended)
}

fn count(reader: &mut Reader<'_>) -> Result<u64> {
    let count = reader.number()?;
    if count > MAX_COUNT { Err(damaged("count")) } else { Ok(count) }
}

fn step(reader: &mut Reader<'_>) -> Result<FrameStep> {
    let wire_id = u16::try_from(reader.number()?).map_err(|_| damaged("codec number"))?;
    let len = usize::try_from(reader.number()?).map_err(|_| damaged("length"))?;
    let options = str::from_utf8(reader.take(len)?).map_err(|_| damaged("option text"))?;
    Ok(FrameStep { wire_id, options: options.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(text: &str, array: &ArraySpec) -> Chain {
        Chain::prepare(&CodecList::pure(), &text.parse().unwrap(), array).unwrap()
    }

    fn framed(text: &str, array: &ArraySpec, bytes: &[u8]) -> Vec<u8> {
        let chain = chain(text, array);
        let (mut payload, mut frame) = (Vec::new(), Vec::new());
        chain.encode(bytes, &mut Scratch::default(), &mut payload).unwrap();
        write(&chain, &payload, &mut frame).unwrap();
        frame
    }

    fn array() -> ArraySpec {
        let fills = vec![u64::from(1e20f32.to_bits())];
        ArraySpec { dtype: DType::F32, endian: Endian::Big, shape: vec![3, 1, 5], fills }
    }

    #[test]
    fn frames_decode_themselves() {
        let bytes: Vec<u8> = (0..60).collect();
        for text in ["raw", "lorenzo:2 | shuffle | fletcher32", "quantize:1e-300,step=full", "pcodec:4 | snappy"] {
            let frame = framed(text, &array(), &bytes);
            let read = read(&frame).unwrap();
            assert_eq!(read.array, array());
            let mut out = Vec::new();
            read.decode(&CodecList::pure(), &mut Scratch::default(), &mut out).unwrap();
            assert_eq!(out, bytes, "{text}");
        }
        let scalar = ArraySpec::new(DType::Opaque(300), []);
        let bytes = vec![7; 300];
        let frame = framed("shuffle", &scalar, &bytes);
        assert_eq!(read(&frame).unwrap().array, scalar);
    }

    #[test]
    fn options_are_spelled_out() {
        let frame = framed("lorenzo | shuffle", &array(), &[0; 60]);
        let options: Vec<_> = read(&frame).unwrap().steps.into_iter().map(|step| step.options).collect();
        assert_eq!(options, ["dims=3,order=1", "size=0"]);
    }

    #[test]
    fn every_flip_cut_and_extension_is_noticed() {
        let frame = framed("lorenzo | shuffle | snappy", &array(), &[5; 60]);
        for position in 0..frame.len() {
            for bit in 0..8 {
                let mut damaged = frame.clone();
                damaged[position] ^= 1 << bit;
                assert!(read(&damaged).is_err(), "bit {bit} of byte {position}");
            }
            assert!(read(&frame[..position]).is_err(), "cut at {position}");
        }
        assert!(read(&[frame.as_slice(), &[0]].concat()).is_err());
    }

    #[test]
    fn what_a_frame_cannot_hold_is_refused() {
        let deep = ArraySpec::new(DType::U8, vec![1; 33]);
        let error = write(&chain("raw", &deep), &[0], &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn unknown_codecs_and_smuggled_steps_are_refused() {
        let step = |wire_id, options: &str| Frame {
            array: array(),
            steps: vec![FrameStep { wire_id, options: options.to_owned() }],
            payload: &[],
        };
        let codecs = CodecList::pure();
        assert_eq!(step(60_000, "").chain(&codecs).unwrap_err().kind(), ErrorKind::MissingFilter);
        assert_eq!(step(1, "size=4 | snappy").chain(&codecs).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
