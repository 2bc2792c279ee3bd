//! Blosc chunks: a header, the start of each block, and the blocks (`README_CHUNK_FORMAT` of C-Blosc2).

use knarr_array::{Error, Result};
use knarr_codec::codec::check_limit;

use super::blosclz;
use super::filters::{self, Buffers, Filter, Pipeline, Place};
use crate::support::{Coder, Format, Method, reserve, resize};

/// Which header a chunk is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// 16 bytes, one of two filters: what every Blosc reads.
    One,
    /// 32 bytes with a pipeline of filters.
    Two,
}

impl Version {
    fn header_len(self) -> usize {
        match self {
            Self::One => HEADER,
            Self::Two => EXTENDED_HEADER,
        }
    }

    fn format_number(self) -> u8 {
        match self {
            Self::One => 2,
            Self::Two => 5,
        }
    }
}

/// `BLOSC1_VERSION_FORMAT`: chunks up to this version have Blosc 1's rules for splitting and bit shuffle.
const LAST_FIRST_FORMAT: u8 = 2;
const HEADER: usize = 16;
pub(super) const EXTENDED_HEADER: usize = 32;
/// Largest chunk: sizes are signed 32-bit numbers and include the header.
const LARGEST: usize = i32::MAX as usize - EXTENDED_HEADER;
/// Largest element size that the header can state; larger elements are treated as bytes.
const LARGEST_TYPESIZE: usize = 255;
/// Blosc 1 splits blocks of elements up to so many bytes.
const MOST_SPLITS: usize = 16;
/// Blosc 1 does not split blocks with fewer elements.
const FEWEST_SPLIT_ELEMENTS: usize = 128;

const SHUFFLED: u8 = 0x01;
const STORED: u8 = 0x02;
const BITSHUFFLED: u8 = 0x04;
const NOT_SPLIT: u8 = 0x10;
/// Both shuffles at once announce the extended header.
const EXTENDED: u8 = SHUFFLED | BITSHUFFLED;
/// Second byte of flags.
const HAS_DICTIONARY: u8 = 0x01;
const LAZY: u8 = 0x08;

/// How chunks are written.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) version: Version,
    pub(super) method: Method,
    pub(super) pipeline: Pipeline,
    pub(super) typesize: usize,
    /// Bytes per block, as far as the chunk is longer.
    pub(super) block: usize,
}

/// What an encoder or decoder keeps from chunk to chunk.
#[derive(Default)]
pub(super) struct Workspace {
    coder: Coder,
    buffers: Buffers,
}

/// Element size as the header states it.
pub(super) fn header_typesize(size: usize) -> usize {
    if (1..=LARGEST_TYPESIZE).contains(&size) { size } else { 1 }
}

/// Upper bound of the length of a chunk: incompressible ones are stored behind the header.
pub(super) fn max_len(version: Version, input_len: usize) -> usize {
    input_len + version.header_len()
}

/// Appends the chunk of `input` to `out`.
pub(super) fn append(settings: &Settings, input: &[u8], work: &mut Workspace, out: &mut Vec<u8>) -> Result<()> {
    if input.len() > LARGEST {
        return Err(Error::unsupported(format!("blosc cannot serve chunks of {} bytes", input.len()))
            .hint("use chunks below 2 GiB"));
    }
    let start = out.len();
    let header_len = settings.version.header_len();
    let typesize = header_typesize(settings.typesize);
    // Filters take whole elements; a chunk of some other length is compressed as it is.
    let pipeline: &[Filter] = if input.len().is_multiple_of(typesize) { &settings.pipeline } else { &[] };
    let block = block_len(settings.block, typesize, input.len());
    out.resize(start + header_len, 0);
    let stored = !append_blocks(settings.method, pipeline, typesize, block, input, work, start, out)?;
    if stored {
        out.truncate(start + header_len);
        out.extend_from_slice(input);
    }
    let header = header(settings, pipeline, stored, [input.len(), block, out.len() - start]);
    if let Some(place) = out.get_mut(start..start + header_len) {
        place.copy_from_slice(header.get(..header_len).unwrap_or(&[]));
    }
    Ok(())
}

/// A multiple of 8 elements, so that bit shuffle takes every block whole, but at most the chunk.
fn block_len(wanted: usize, typesize: usize, input_len: usize) -> usize {
    let group = 8 * typesize;
    (wanted / group * group).max(group).min(input_len.max(1))
}

/// Appends starts and blocks. Returns false, with `out` in any state, if that takes more room than the input.
#[expect(clippy::too_many_arguments, reason = "the parts of one chunk, used once")]
fn append_blocks(
    method: Method,
    pipeline: &[Filter],
    typesize: usize,
    block: usize,
    input: &[u8],
    work: &mut Workspace,
    start: usize,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let data = out.len();
    let starts_len = 4 * input.len().div_ceil(block);
    out.resize(data + starts_len, 0);
    let first = input.get(..block.min(input.len())).unwrap_or(&[]);
    for (index, plain) in input.chunks(block).enumerate() {
        let place = Place { typesize, reference: (index > 0).then_some(first) };
        let filtered = work.buffers.forward(pipeline, place, plain);
        let block_start = u32_field(out.len() - start)?;
        if let Some(field) = out.get_mut(data + 4 * index..data + 4 * index + 4) {
            field.copy_from_slice(&block_start);
        }
        let size_at = out.len();
        out.extend_from_slice(&[0; 4]);
        work.coder.append(method, filtered, out)?;
        if out.len() - size_at - 4 >= plain.len() {
            out.truncate(size_at + 4);
            out.extend_from_slice(filtered);
        }
        let size = u32_field(out.len() - size_at - 4)?;
        if let Some(field) = out.get_mut(size_at..size_at + 4) {
            field.copy_from_slice(&size);
        }
        if out.len() - data >= input.len() {
            return Ok(false);
        }
    }
    Ok(!input.is_empty())
}

fn u32_field(value: usize) -> Result<[u8; 4]> {
    u32::try_from(value).map(u32::to_le_bytes).map_err(|_| Error::internal("blosc: a size exceeds 32 bits"))
}

fn header(settings: &Settings, pipeline: &[Filter], stored: bool, sizes: [usize; 3]) -> [u8; EXTENDED_HEADER] {
    let mut flags = NOT_SPLIT
        | (match settings.method.format() {
            Format::Lz4 => 1,
            Format::Snappy => 2,
            Format::Zlib => 3,
            Format::Zstd => 4,
        } << 5);
    flags |= match (settings.version, pipeline.first()) {
        (Version::Two, _) => EXTENDED,
        (Version::One, Some(Filter::Shuffle)) => SHUFFLED,
        (Version::One, Some(Filter::Bitshuffle { .. })) => BITSHUFFLED,
        (Version::One, _) => 0,
    };
    if stored {
        flags |= STORED;
    }
    let typesize = u8::try_from(header_typesize(settings.typesize)).unwrap_or(1);
    let (ids, parameters) = filters::to_header(pipeline);
    let mut header = [0; EXTENDED_HEADER];
    let sizes = sizes.into_iter().flat_map(|size| u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes());
    let bytes = [settings.version.format_number(), 1, flags, typesize].into_iter().chain(sizes);
    let bytes = bytes.chain(ids).chain([0, 0]).chain(parameters);
    for (place, byte) in header.iter_mut().zip(bytes) {
        *place = byte;
    }
    header
}

/// A chunk's header, checked, with the chunk cut to its length.
struct Header<'a> {
    bytes: &'a [u8],
    version: u8,
    flags: u8,
    typesize: usize,
    plain_len: usize,
    block: usize,
    header_len: usize,
    pipeline: Pipeline,
    special: u8,
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("blosc: {what}"))
}

impl<'a> Header<'a> {
    fn parse(chunk: &'a [u8]) -> Result<Self> {
        let (&head, _) = chunk.split_first_chunk::<HEADER>().ok_or_else(|| damaged("the header ends early"))?;
        let [version, _, flags, typesize, ..] = head;
        let number = |at: usize| read_u32(chunk, at).and_then(|value| i32::try_from(value).ok());
        let size = |at: usize| number(at).and_then(|value| usize::try_from(value).ok());
        let (Some(plain_len), Some(block), Some(length)) = (size(4), size(8), size(12)) else {
            return Err(damaged("a size is negative"));
        };
        let bytes = chunk.get(..length).ok_or_else(|| damaged("the chunk ends early"))?;
        let typesize = usize::from(typesize);
        if typesize == 0 || block == 0 && plain_len > 0 {
            return Err(damaged("an element or block of 0 bytes"));
        }
        let mut header = Self {
            bytes,
            version,
            flags,
            typesize,
            plain_len,
            block,
            header_len: HEADER,
            pipeline: vec![],
            special: 0,
        };
        if flags & EXTENDED == EXTENDED {
            header.read_extension()?;
        } else if flags & SHUFFLED != 0 && typesize > 1 {
            header.pipeline.push(Filter::Shuffle);
        } else if flags & BITSHUFFLED != 0 && block >= typesize {
            header.pipeline.push(Filter::Bitshuffle { whole_blocks_only: version <= LAST_FIRST_FORMAT });
        }
        Ok(header)
    }

    fn read_extension(&mut self) -> Result<()> {
        self.header_len = EXTENDED_HEADER;
        let extension = self
            .bytes
            .get(HEADER..)
            .and_then(|rest| rest.first_chunk::<16>())
            .ok_or_else(|| damaged("the extended header ends early"))?;
        let [a, b, c, d, e, f, _, _, m0, m1, m2, m3, m4, m5, _, flags] = *extension;
        self.pipeline = filters::from_header([a, b, c, d, e, f], [m0, m1, m2, m3, m4, m5], self.typesize)?;
        self.special = (flags >> 4) & 7;
        if flags & (HAS_DICTIONARY | LAZY) != 0 {
            return Err(Error::unsupported("blosc chunks with a dictionary or without their data are not read"));
        }
        Ok(())
    }

    /// Streams that a full block of `len` bytes is made of.
    fn streams(&self, len: usize, is_last_and_shorter: bool) -> usize {
        let split = self.flags & NOT_SPLIT == 0 && !is_last_and_shorter;
        let enough = self.version > LAST_FIRST_FORMAT
            || (self.typesize <= MOST_SPLITS && self.block / self.typesize >= FEWEST_SPLIT_ELEMENTS);
        if split && enough && len >= self.typesize { self.typesize } else { 1 }
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|field| u32::from_le_bytes(*field))
}

/// Replaces the contents of `out` by what a chunk holds; at most `limit` bytes.
pub(super) fn decode(chunk: &[u8], limit: usize, work: &mut Workspace, out: &mut Vec<u8>) -> Result<()> {
    let header = Header::parse(chunk)?;
    check_limit(header.plain_len, limit)?;
    let data = header.bytes.get(header.header_len..).unwrap_or(&[]);
    if header.special != 0 {
        return fill_special(&header, data, out);
    }
    if header.flags & STORED != 0 {
        let stored = data.get(..header.plain_len).ok_or_else(|| damaged("a stored chunk ends early"))?;
        reserve(out, stored.len())?;
        out.extend_from_slice(stored);
        return Ok(());
    }
    resize(out, header.plain_len)?;
    if header.plain_len == 0 {
        return Ok(());
    }
    let (first, later) = out.split_at_mut(header.block.min(header.plain_len));
    decode_block(&header, 0, None, work, first)?;
    for (index, block) in later.chunks_mut(header.block).enumerate() {
        decode_block(&header, index + 1, Some(first), work, block)?;
    }
    Ok(())
}

fn decode_block(
    header: &Header<'_>,
    index: usize,
    reference: Option<&[u8]>,
    work: &mut Workspace,
    block: &mut [u8],
) -> Result<()> {
    let start = read_u32(header.bytes, header.header_len + 4 * index).and_then(|start| usize::try_from(start).ok());
    let mut rest = start
        .filter(|start| *start >= header.header_len)
        .and_then(|start| header.bytes.get(start..))
        .ok_or_else(|| damaged(format!("block {index} starts outside the chunk")))?;
    let filtered = work.buffers.filtered(block.len());
    let streams = header.streams(block.len(), block.len() < header.block);
    if !block.len().is_multiple_of(streams) {
        return Err(damaged(format!("block {index} does not part into {streams} streams")));
    }
    for stream in filtered.chunks_mut((block.len() / streams).max(1)) {
        rest = decode_stream(header, rest, &mut work.coder, stream)?;
    }
    work.buffers.backward(&header.pipeline, Place { typesize: header.typesize, reference }, block)
}

/// Decodes one stream and returns what follows it.
fn decode_stream<'a>(header: &Header<'_>, input: &'a [u8], coder: &mut Coder, plain: &mut [u8]) -> Result<&'a [u8]> {
    let ends_early = || damaged("a block ends early");
    let (size, rest) = input.split_first_chunk::<4>().ok_or_else(ends_early)?;
    let size = i32::from_le_bytes(*size);
    if size <= 0 {
        // Runs of one byte (Blosc 2): zeros, or a byte that the negative size holds, announced by a token.
        let rest = if size < 0 { rest.strip_prefix(&[1]).ok_or_else(|| damaged("an unknown token"))? } else { rest };
        plain.fill(u8::try_from(size.unsigned_abs()).map_err(|_| damaged("a run of something else than a byte"))?);
        return Ok(rest);
    }
    let (data, rest) = rest.split_at_checked(usize::try_from(size).unwrap_or(usize::MAX)).ok_or_else(ends_early)?;
    if data.len() == plain.len() {
        plain.copy_from_slice(data);
        return Ok(rest);
    }
    match header.flags >> 5 {
        0 => blosclz::expand(data, plain)?,
        1 => coder.expand(Format::Lz4, data, plain)?,
        2 => coder.expand(Format::Snappy, data, plain)?,
        3 => coder.expand(Format::Zlib, data, plain)?,
        4 => coder.expand(Format::Zstd, data, plain)?,
        other => return Err(Error::unsupported(format!("blosc compressor {other} is not known"))),
    }
    Ok(rest)
}

/// Chunks of one value, which have no blocks.
fn fill_special(header: &Header<'_>, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let typesize = header.typesize;
    let value: Vec<u8> = match header.special {
        // Zeros, and values that were never set.
        1 | 4 => vec![0; typesize],
        2 if typesize == 4 => f32::NAN.to_le_bytes().to_vec(),
        2 if typesize == 8 => f64::NAN.to_le_bytes().to_vec(),
        3 => data.get(..typesize).ok_or_else(|| damaged("a repeated value ends early"))?.to_vec(),
        other => return Err(damaged(format!("special value {other}"))),
    };
    resize(out, header.plain_len)?;
    for element in out.chunks_mut(typesize) {
        element.copy_from_slice(value.get(..element.len()).unwrap_or(&[]));
    }
    Ok(())
}
