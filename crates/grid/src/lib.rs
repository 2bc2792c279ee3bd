//! `grid`: a lossless codec for gridded numbers of any type, rank and shape.
//!
//! What it uses: numbers that are secretly integers or decimals, masks and fill values, smoothness along every axis,
//! residuals whose size depends on their surroundings, and repeats and symmetries of irregular meshes. Blocks that are none
//! of this are left to other codecs ([`Libraries`]). Every bit of every element comes back, NaN payloads and the sign of
//! zero included.
//!
//! Reading order: `coding` (bits, and what entropy coders make of them), `fields` (neighbours, masks, prediction, repeats),
//! `numbers` (lattices, and other ways to see numbers as integers), `blocks` (a block from the search for its model to its
//! bytes). How `grid` is one of the codecs is told by `knarr_codec`.
//!
//! # Stream, version 1
//!
//! ```text
//! stream  = version:u8=1 block*             one block per part of the array, see `parts`; none for no elements
//! block   = length:varint mode:u8 body
//! mode 0  = stored: the bytes of the elements
//! mode 1  = constant: the bytes of one element
//! mode 2  = grid, see `body`
//! mode 3  = the elements as the codec `pcodec` writes them
//! mode 4  = the elements as the codec `brotli` writes them
//! mode 5  = a block of the shape without its first axis longer than 1, along which it repeats
//! ```
//!
//! Type and shape are known from outside. Multi-byte numbers are little-endian; `varint` is unsigned LEB128.

#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "bit plumbing: every narrowing is of a value masked, shifted or bounded to fit just before"
)]

mod blocks;
mod coding;
mod fields;
mod numbers;

pub use blocks::library::{BROTLI, Libraries, Library, PCODEC};

use blocks::{body, library, plan};
use coding::bits::{Cursor, put_section};
use knarr_array::array::DType;

/// Why a stream could not be written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The stream ends before the data does.
    Truncated,
    /// The stream contradicts itself or the shape.
    Corrupt(&'static str),
    /// The array does not fit the address space.
    TooLarge,
    /// The bytes to encode are not as many as type and shape say.
    Length,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => f.write_str("grid stream is truncated"),
            Self::Corrupt(what) => write!(f, "grid stream is corrupt: {what}"),
            Self::TooLarge => f.write_str("array does not fit the address space"),
            Self::Length => f.write_str("byte length does not match type and shape"),
        }
    }
}

impl std::error::Error for Error {}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// First byte of a stream.
pub const VERSION: u8 = 1;
const STORED: u8 = 0;
const CONSTANT: u8 = 1;
/// Mode of a block with a model of its numbers, as the head of this file describes it.
pub const GRID: u8 = 2;
/// Mode of a block that repeats along its first axis; modes 3 and 4 are [`PCODEC`] and [`BROTLI`].
const REPEATED: u8 = 5;

/// Elements per block at most, which bounds working memory; the last two axes may exceed it.
pub const BLOCK_ELEMENTS: usize = 1 << 22;

/// Elements of a shape, or an error when the bytes would not fit the address space.
fn count(dtype: DType, shape: &[usize]) -> Result<usize> {
    if shape.contains(&0) {
        return Ok(0);
    }
    shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .filter(|n| n.checked_mul(dtype.size()).is_some_and(|b| b <= isize::MAX as usize))
        .ok_or(Error::TooLarge)
}

/// Shapes of the parts an array is cut into, in storage order: whole trailing axes, a run of the axis before.
fn parts(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut tail = 1usize;
    let mut axis = shape.len();
    while axis > 0 && tail * shape[axis - 1] <= BLOCK_ELEMENTS {
        axis -= 1;
        tail *= shape[axis];
    }
    if axis == 0 {
        return vec![shape.to_vec()];
    }
    let step = (BLOCK_ELEMENTS / tail).max(1);
    let lead: usize = shape[..axis - 1].iter().product();
    let along = shape[axis - 1];
    let mut out = Vec::new();
    for _ in 0..lead {
        for first in (0..along).step_by(step) {
            let mut s = vec![step.min(along - first)];
            s.extend_from_slice(&shape[axis..]);
            out.push(s);
        }
    }
    out
}

/// Compresses the elements of an array of numbers ([`DType::is_number`], little-endian), appending to `out`.
///
/// `fills` are bit patterns of values known to mean "missing"; they only help the search. `libraries` write blocks that the
/// model does not suit.
///
/// # Errors
///
/// [`Error::Length`] when `bytes` are not as many as `shape` elements of `dtype` take, [`Error::TooLarge`] when the
/// shape overflows.
pub fn encode(
    dtype: DType,
    shape: &[usize],
    fills: &[u64],
    bytes: &[u8],
    libraries: Libraries,
    out: &mut Vec<u8>,
) -> Result<()> {
    let n = count(dtype, shape)?;
    if bytes.len() != n * dtype.size() {
        return Err(Error::Length);
    }
    out.push(VERSION);
    if n == 0 {
        return Ok(());
    }
    let mut rest = bytes;
    for part in parts(shape) {
        let (head, tail) = rest.split_at_checked(count(dtype, &part)? * dtype.size()).ok_or(Error::Length)?;
        rest = tail;
        put_section(out, &encode_part(dtype, &part, fills, head, libraries)?);
    }
    Ok(())
}

/// The axes from the first one that is longer than 1.
fn from_first_step(shape: &[usize]) -> &[usize] {
    shape.iter().position(|&d| d != 1).map_or(&[], |axis| &shape[axis..])
}

fn encode_part(dtype: DType, shape: &[usize], fills: &[u64], bytes: &[u8], libraries: Libraries) -> Result<Vec<u8>> {
    let first = &bytes[..dtype.size()];
    if bytes.chunks_exact(dtype.size()).all(|e| e == first) {
        return Ok([&[CONSTANT], first].concat());
    }
    if let [_, inner @ ..] = from_first_step(shape)
        && let slice = count(dtype, inner)? * dtype.size()
        && bytes[slice..] == bytes[..bytes.len() - slice]
    {
        return Ok([&[REPEATED], encode_part(dtype, inner, fills, &bytes[..slice], libraries)?.as_slice()].concat());
    }
    let mut best = Vec::new();
    if let Some(body) = plan::encode(dtype, shape, fills, bytes)? {
        best.push(GRID);
        best.extend_from_slice(&body);
    }
    if best.is_empty() {
        best.push(STORED);
        best.extend_from_slice(bytes);
    }
    library::improve(dtype, bytes, libraries, &mut best)?;
    if best.len() > bytes.len() {
        best.clear();
        best.push(STORED);
        best.extend_from_slice(bytes);
    }
    Ok(best)
}

/// Decompresses what [`encode`] wrote for the same type and shape, appending exactly the bytes of the array to `out`.
///
/// # Errors
///
/// Any damage that shows: truncation, contradictions, streams that do not end where they should. `out` is unchanged
/// then. Damage to raw low bits cannot show; callers that need certainty add a checksum.
pub fn decode(dtype: DType, shape: &[usize], bytes: &[u8], libraries: Libraries, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let result = decode_parts(dtype, shape, bytes, libraries, out);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn decode_parts(dtype: DType, shape: &[usize], bytes: &[u8], libraries: Libraries, out: &mut Vec<u8>) -> Result<()> {
    let n = count(dtype, shape)?;
    let mut c = Cursor::new(bytes);
    if c.u8()? != VERSION {
        return Err(Error::Corrupt("unknown version"));
    }
    if n > 0 {
        for part in parts(shape) {
            let body = c.section()?;
            decode_part(dtype, &part, body, libraries, out)?;
        }
    }
    if c.remaining() != 0 {
        return Err(Error::Corrupt("bytes after the end"));
    }
    Ok(())
}

fn decode_part(dtype: DType, shape: &[usize], body: &[u8], libraries: Libraries, out: &mut Vec<u8>) -> Result<()> {
    let n = count(dtype, shape)?;
    let (&mode, body) = body.split_first().ok_or(Error::Truncated)?;
    match mode {
        STORED if body.len() == n * dtype.size() => out.extend_from_slice(body),
        CONSTANT if body.len() == dtype.size() => {
            out.reserve(n * dtype.size());
            for _ in 0..n {
                out.extend_from_slice(body);
            }
        }
        GRID => body::decode(dtype, shape, body, out)?,
        REPEATED => {
            let [times, inner @ ..] = from_first_step(shape) else {
                return Err(Error::Corrupt("an array without axes repeats"));
            };
            let start = out.len();
            // Inner blocks are of fewer axes, so this ends.
            decode_part(dtype, inner, body, libraries, out)?;
            let end = out.len();
            for _ in 1..*times {
                out.extend_from_within(start..end);
            }
        }
        PCODEC | BROTLI => library::decode(dtype, mode, n * dtype.size(), body, libraries, out)?,
        STORED | CONSTANT => return Err(Error::Corrupt("block length")),
        _ => return Err(Error::Corrupt("unknown block mode")),
    }
    Ok(())
}
