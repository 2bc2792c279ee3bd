//! Blocks written by other codecs, for numbers that the model of this one does not suit: scattered
//! numbers without neighbours (pcodec), and repeats of bytes that are no repeats of elements (brotli).
//!
//! What they would take is estimated on samples; a whole block is coded only when it may come out smaller.

use crate::numbers::elements::spread;
use crate::{DType, Error, Result};

/// Another codec. `knarr_codec` has them; this crate knows only what blocks of theirs are good for.
pub trait Library: Sync {
    /// The stream of elements of a type; higher efforts take longer. `None` if the codec fails.
    fn encode(&self, dtype: DType, effort: i64, bytes: &[u8]) -> Option<Vec<u8>>;

    /// The bytes of a stream, `length` at most. `None` for bytes that are no stream of it.
    fn decode(&self, dtype: DType, length: usize, body: &[u8]) -> Option<Vec<u8>>;
}

/// The codecs that write blocks which the model of this crate does not suit.
#[derive(Clone, Copy)]
pub struct Libraries<'a> {
    /// Writes blocks of mode [`PCODEC`]. Its efforts are the levels of the codec `pcodec`.
    pub pcodec: &'a dyn Library,
    /// Writes blocks of mode [`BROTLI`]. Its efforts are the qualities of the codec `brotli`.
    pub brotli: &'a dyn Library,
}

impl<'a> Libraries<'a> {
    /// The codec behind a mode.
    fn of(self, mode: u8) -> &'a dyn Library {
        if mode == PCODEC { self.pcodec } else { self.brotli }
    }
}

/// Mode of a block that the codec `pcodec` wrote.
pub const PCODEC: u8 = 3;
/// Mode of a block that the codec `brotli` wrote.
pub const BROTLI: u8 = 4;

/// Elements of each window of a sample, and windows.
const WINDOW: usize = 2048;
const WINDOWS: usize = 4;
/// Length of a body that is mostly tables.
const SMALL: usize = 512;
/// Bytes of a short block.
const SHORT: usize = 1 << 12;
/// Bytes that are searched for repeats.
const SEARCHED: usize = 1 << 18;

/// Keeps the smallest of `best` (a mode and its body) and what other codecs make of the block.
pub(crate) fn improve(dtype: DType, bytes: &[u8], libraries: Libraries, best: &mut Vec<u8>) -> Result<()> {
    let n = bytes.len();
    if best.len() < 48 {
        return Ok(());
    }
    if best.len() < SMALL || n < 2 * SMALL {
        // So regular that the tables of a grid body outweigh the data.
        return small(dtype, bytes, libraries, best);
    }
    let size = dtype.size();
    let sample = sample(bytes, size);
    // Tables weigh a little more on a sample than on the whole.
    let promises = |estimate: usize, slack: f64, best: &[u8]| {
        estimate as f64 / sample.len() as f64 * n as f64 <= best.len() as f64 * slack
    };
    let estimate = run(dtype, PCODEC, 8, &sample, libraries)?.len();
    if promises(estimate, 1.03, best) {
        // Higher levels take ten times as long for a few parts in a thousand.
        attempt(dtype, PCODEC, 8, bytes, libraries, best)?;
    }
    let estimate = repeats_cost(bytes);
    if estimate < 0.75 * best.len() as f64 {
        find_repeats(dtype, bytes, libraries, best)?;
    }
    Ok(())
}

/// Tries brotli on what takes few bytes. Effort 9 clears 32 MB of tables, which takes longer than all else for short
/// blocks; 4 does not, and tells whether 11 may pay, which is slow per byte.
fn small(dtype: DType, bytes: &[u8], libraries: Libraries, best: &mut Vec<u8>) -> Result<()> {
    if bytes.len() > SHORT {
        return attempt(dtype, BROTLI, 9, bytes, libraries, best).map(drop);
    }
    let before = best.len() as f64;
    if attempt(dtype, BROTLI, 4, bytes, libraries, best)? as f64 * 0.8 < before {
        attempt(dtype, BROTLI, 11, bytes, libraries, best)?;
    }
    Ok(())
}

/// Tries brotli with growing effort while it promises to end below `best`.
fn find_repeats(dtype: DType, bytes: &[u8], libraries: Libraries, best: &mut Vec<u8>) -> Result<()> {
    let before = best.len() as f64;
    // What the next effort takes of the one before, at best.
    for (effort, promise) in [(2, 0.85), (5, 0.9), (9, 0.85)] {
        if attempt(dtype, BROTLI, effort, bytes, libraries, best)? as f64 * promise > before {
            return Ok(());
        }
    }
    // The highest effort takes a second per megabyte: only where repeats are all there is.
    if (best.len() as f64) < 0.8 * before && bytes.len() <= 1 << 21 {
        attempt(dtype, BROTLI, 11, bytes, libraries, best)?;
    }
    Ok(())
}

/// Codes the block and replaces `best` where that is smaller. Returns the length that came out.
fn attempt(
    dtype: DType,
    mode: u8,
    effort: i64,
    bytes: &[u8],
    libraries: Libraries,
    best: &mut Vec<u8>,
) -> Result<usize> {
    let body = run(dtype, mode, effort, bytes, libraries)?;
    let length = body.len() + 1;
    if length < best.len() && length < bytes.len() {
        best.clear();
        best.push(mode);
        best.extend_from_slice(&body);
    }
    Ok(length)
}

fn run(dtype: DType, mode: u8, effort: i64, bytes: &[u8], libraries: Libraries) -> Result<Vec<u8>> {
    let failed = Error::Corrupt("a library did not code the block");
    libraries.of(mode).encode(dtype, effort, bytes).ok_or(failed)
}

/// Decodes a block of one of the modes above to exactly `length` bytes, appended to `out`.
pub(crate) fn decode(
    dtype: DType,
    mode: u8,
    length: usize,
    body: &[u8],
    libraries: Libraries,
    out: &mut Vec<u8>,
) -> Result<()> {
    let failed = Error::Corrupt("body of another codec");
    let bytes = libraries.of(mode).decode(dtype, length, body).ok_or(failed)?;
    if bytes.len() != length {
        return Err(Error::Corrupt("body of another codec has another length"));
    }
    out.extend_from_slice(&bytes);
    Ok(())
}

/// Windows spread over the block, one after the other.
fn sample(bytes: &[u8], size: usize) -> Vec<u8> {
    let n = bytes.len() / size;
    if n <= WINDOW * WINDOWS {
        return bytes.to_vec();
    }
    spread(n - WINDOW, WINDOWS).flat_map(|at| &bytes[at * size..(at + WINDOW) * size]).copied().collect()
}

/// Bytes the block would take if nothing but its repeats of eight bytes were used, judged on a first part.
fn repeats_cost(bytes: &[u8]) -> f64 {
    const BITS: u32 = 15;
    let words = bytes[..bytes.len().min(SEARCHED)].as_chunks::<4>().0;
    let word = |i: usize| {
        words.get(i..i + 2).map(|w| u64::from(u32::from_le_bytes(w[0])) | u64::from(u32::from_le_bytes(w[1])) << 32)
    };
    let mut seen = vec![0u64; 1 << BITS];
    let (mut i, mut covered, mut runs, mut last) = (0, 0, 0, false);
    while let Some(w) = word(i) {
        let slot = &mut seen[(w.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)) as usize];
        let hit = *slot == w;
        *slot = w;
        covered += 2 * usize::from(hit);
        runs += usize::from(hit && !last);
        last = hit;
        i += 1 + usize::from(hit);
    }
    let literals = words.len() - covered.min(words.len());
    (3.6 * literals as f64 + 4.0 * runs as f64) * (bytes.len() as f64 / (4.0 * words.len().max(1) as f64))
}
