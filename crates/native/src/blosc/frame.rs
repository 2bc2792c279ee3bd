//! Contiguous frames of Blosc 2 (`README_CFRAME_FORMAT` of C-Blosc2) that hold one chunk: what the HDF5 filter
//! stores.

use knarr_array::{Error, Result};

use super::b2nd::Layout;
use super::chunk::{self, Settings, Workspace};
use super::filters::to_header;
use super::header_reader::{Reader, ends_early};
use crate::support::reserve;

const MAGIC: &[u8; 8] = b"b2frame\0";
/// Fixed part of the header, up to the metalayers.
const FIXED_HEADER: usize = 87;
/// Header of a frame without metalayers.
const HEADER: usize = FIXED_HEADER + NO_METALAYERS.len();
/// An empty index of metalayers: array of 3, its size (uint16), empty map, empty array.
const NO_METALAYERS: [u8; 10] = [0x93, 0xCD, 0, 7, 0xDE, 0, 0, 0xDC, 0, 0];
/// Index of chunks: the offset 0 as a stored chunk.
const INDEX: usize = chunk::EXTENDED_HEADER + 8;
/// Trailer without variable-length metalayers.
const TRAILER: [u8; 35] = {
    let mut trailer = [0; 35];
    // Array of 4; version; index of metalayers (array of 3, size, empty map, empty array); length (uint32);
    // fingerprint of type 0 (fixext 16).
    let start = [0x94, 0x01, 0x93, 0xCD, 0, 6, 0xDE, 0, 0, 0xDC, 0, 0, 0xCE, 0, 0, 0, 35, 0xD8, 0];
    let mut at = 0;
    while at < start.len() {
        trailer[at] = start[at];
        at += 1;
    }
    trailer
};

/// Byte of flags: format version 2, with 64-bit offsets.
const GENERAL_FLAGS: u8 = 0x12;
/// `BLOSC_NEVER_SPLIT`, as stored.
const NEVER_SPLIT: u8 = 1;
/// Byte in an offset's highest byte that stands for a chunk of one value.
const SPECIAL: u8 = 0x80;

/// Upper bound of the length of a frame.
pub(super) fn max_len(input_len: usize) -> usize {
    HEADER + chunk::max_len(chunk::Version::Two, input_len) + INDEX + TRAILER.len()
}

/// What the frame's header says about the encoder; readers only show it.
pub(super) struct Encoder {
    /// Blosc's number of the compressor.
    pub(super) compressor: u8,
    /// Blosc's level.
    pub(super) level: u8,
}

/// Replaces the contents of `out` by a frame with the chunk of `input`.
pub(super) fn encode(
    settings: &Settings,
    encoder: &Encoder,
    input: &[u8],
    work: &mut Workspace,
    out: &mut Vec<u8>,
) -> Result<()> {
    reserve(out, max_len(input.len()))?;
    out.resize(HEADER, 0);
    chunk::append(settings, input, work, out)?;
    let chunk_len = out.len() - HEADER;
    let block = out.get(HEADER + 8..HEADER + 12).map(<[u8]>::to_vec).unwrap_or_default();
    put_index(out);
    out.extend_from_slice(&TRAILER);
    let mut header = Vec::with_capacity(HEADER);
    header.push(0x9E);
    header.push(0xA8);
    header.extend_from_slice(MAGIC);
    put_i32(&mut header, HEADER)?;
    header.push(0xCF);
    header.extend_from_slice(&(out.len() as u64).to_be_bytes());
    header.push(0xA4);
    header.extend_from_slice(&[GENERAL_FLAGS, 0, (encoder.level << 4) | encoder.compressor, NEVER_SPLIT]);
    put_i64(&mut header, input.len());
    put_i64(&mut header, chunk_len);
    put_i32(&mut header, chunk::header_typesize(settings.typesize))?;
    header.push(0xD2);
    header.extend(block.iter().rev());
    put_i32(&mut header, input.len())?;
    // Threads of encoder and decoder; no variable-length metalayers.
    header.extend_from_slice(&[0xD1, 0, 1, 0xD1, 0, 1, 0xC2]);
    let (ids, parameters) = to_header(&settings.pipeline);
    header.extend_from_slice(&[0xD8, 6]);
    header.extend_from_slice(&ids);
    header.extend_from_slice(&[0, 0]);
    header.extend_from_slice(&parameters);
    header.extend_from_slice(&[0, 0]);
    header.extend_from_slice(&NO_METALAYERS);
    match out.get_mut(..HEADER) {
        Some(place) if header.len() == HEADER => place.copy_from_slice(&header),
        _ => return Err(Error::internal("blosc2: the frame header has another length")),
    }
    Ok(())
}

/// The index: one stored chunk of one 64-bit number, the offset 0.
fn put_index(out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[5, 1, 7, 8, 8, 0, 0, 0, 8, 0, 0, 0, 40, 0, 0, 0]);
    out.resize(start + INDEX, 0);
}

fn put_i32(out: &mut Vec<u8>, value: usize) -> Result<()> {
    let value = i32::try_from(value).map_err(|_| Error::internal("blosc2: a size exceeds 31 bits"))?;
    out.push(0xD2);
    out.extend_from_slice(&value.to_be_bytes());
    Ok(())
}

fn put_i64(out: &mut Vec<u8>, value: usize) {
    out.push(0xD3);
    out.extend_from_slice(&(value as u64).to_be_bytes());
}

/// What of a frame's header is needed to decode it.
struct Header {
    header_len: usize,
    plain_len: usize,
    encoded_len: usize,
    typesize: usize,
    chunk_len: usize,
    layout: Option<Layout>,
}

impl Header {
    fn parse(frame: &[u8]) -> Result<Self> {
        if frame.get(2..10) != Some(MAGIC) {
            return Err(Error::corrupt("blosc2: the chunk is not a frame"));
        }
        let mut reader = Reader::new(frame);
        reader.skip(10)?;
        let header_len = reader.tagged_i32()?;
        let frame_len = reader.tagged_i64()?;
        if frame_len > frame.len() || header_len > frame_len {
            return Err(ends_early());
        }
        reader.skip(2)?;
        if reader.u8()? & 0x0F != 0 {
            return Err(Error::unsupported("blosc2: a frame of several files is not read"));
        }
        reader.skip(2)?;
        let (plain_len, encoded_len) = (reader.tagged_i64()?, reader.tagged_i64()?);
        let (typesize, _block) = (reader.tagged_i32()?, reader.tagged_i32()?);
        let chunk_len = reader.tagged_i32()?;
        let layout = match metalayer(frame, header_len, b"b2nd")? {
            Some(contents) => Some(Layout::parse(contents)?),
            None => None,
        };
        Ok(Self { header_len, plain_len, encoded_len, typesize, chunk_len, layout })
    }
}

/// Contents of the metalayer called `name`.
fn metalayer<'a>(frame: &'a [u8], header_len: usize, name: &[u8]) -> Result<Option<&'a [u8]>> {
    let header = frame.get(..header_len).ok_or_else(ends_early)?;
    let mut reader = Reader::new(header.get(FIXED_HEADER..).ok_or_else(ends_early)?);
    // Array of 3, size of the index (uint16), map of names to offsets (map 16).
    reader.skip(1 + 3 + 1)?;
    for _ in 0..reader.u16()? {
        let length = usize::from(reader.u8()? & 0x1F);
        let found = reader.0.get(..length) == Some(name);
        reader.skip(length)?;
        let offset = reader.tagged_i32()?;
        if found {
            let mut contents = Reader::new(header.get(offset..).ok_or_else(ends_early)?);
            let length = contents.tagged_i32()?;
            return contents.0.get(..length).map(Some).ok_or_else(ends_early);
        }
    }
    Ok(None)
}

/// Replaces the contents of `out` by what the only chunk of a frame holds; at most `limit` bytes.
pub(super) fn decode(frame: &[u8], limit: usize, work: &mut Workspace, out: &mut Vec<u8>) -> Result<()> {
    let header = Header::parse(frame)?;
    if header.plain_len > header.chunk_len {
        return Err(Error::unsupported("blosc2: a frame of several chunks within one HDF5 chunk is not read"));
    }
    if header.plain_len == 0 {
        out.clear();
        return Ok(());
    }
    let chunks = frame.get(header.header_len..).ok_or_else(ends_early)?;
    let index = chunks.get(header.encoded_len..).ok_or_else(ends_early)?;
    let mut offset = Vec::new();
    chunk::decode(index, 8, work, &mut offset)?;
    let offset = offset.first_chunk::<8>().ok_or_else(|| Error::corrupt("blosc2: the index of chunks is empty"))?;
    let plain_limit = header.layout.as_ref().map_or(limit, |_| Layout::padded_limit(limit));
    let mut blocks = Vec::new();
    let plain = if header.layout.is_some() { &mut blocks } else { &mut *out };
    if offset[7] & SPECIAL != 0 {
        special_chunk(offset[7] & 7, &header, plain_limit, plain)?;
    } else {
        let offset = usize::try_from(u64::from_le_bytes(*offset)).unwrap_or(usize::MAX);
        chunk::decode(chunks.get(offset..).ok_or_else(ends_early)?, plain_limit, work, plain)?;
    }
    match &header.layout {
        Some(layout) => layout.gather(&blocks, header.typesize, out),
        None => Ok(()),
    }
}

/// A chunk that is only stated by its offset: zeros, values never set, or NaN.
fn special_chunk(which: u8, header: &Header, limit: usize, out: &mut Vec<u8>) -> Result<()> {
    knarr_codec::codec::check_limit(header.chunk_len, limit)?;
    crate::support::resize(out, header.chunk_len)?;
    match (which, header.typesize) {
        (1 | 4, _) => out.fill(0),
        (2, 4) => out.as_chunks_mut().0.iter_mut().for_each(|element| *element = f32::NAN.to_le_bytes()),
        (2, 8) => out.as_chunks_mut().0.iter_mut().for_each(|element| *element = f64::NAN.to_le_bytes()),
        _ => return Err(Error::corrupt(format!("blosc2: special chunk {which}"))),
    }
    Ok(())
}
