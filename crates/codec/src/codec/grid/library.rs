//! Blocks written by other codecs of this crate, for numbers that the model of this one does not suit: scattered
//! numbers without neighbours (pcodec), and repeats of bytes that are no repeats of elements (brotli).
//!
//! What they would take is estimated on samples; a whole block is coded only when it may come out smaller.

use super::elements::spread;
use super::{DType, Error, Result};
use crate::codec::brotli::Brotli;
use crate::codec::options::Options;
use crate::codec::pcodec::Pcodec;
use crate::codec::{Codec, Stage, Step};
use knarr_array::array::ArraySpec;

/// Block modes of this file; part of the format.
pub(super) const PCODEC: u8 = 3;
pub(super) const BROTLI: u8 = 4;

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
pub(super) fn improve(dtype: DType, bytes: &[u8], best: &mut Vec<u8>) -> Result<()> {
    let n = bytes.len();
    if best.len() < 48 {
        return Ok(());
    }
    if best.len() < SMALL || n < 2 * SMALL {
        // So regular that the tables of a grid body outweigh the data.
        return small(dtype, bytes, best);
    }
    let size = dtype.size();
    let sample = sample(bytes, size);
    // Tables weigh a little more on a sample than on the whole.
    let promises = |estimate: usize, slack: f64, best: &[u8]| {
        estimate as f64 / sample.len() as f64 * n as f64 <= best.len() as f64 * slack
    };
    let estimate = run(dtype, PCODEC, 8, &sample)?.len();
    if promises(estimate, 1.03, best) {
        // Higher levels take ten times as long for a few parts in a thousand.
        attempt(dtype, PCODEC, 8, bytes, best)?;
    }
    let estimate = repeats_cost(bytes);
    if estimate < 0.75 * best.len() as f64 {
        find_repeats(dtype, bytes, best)?;
    }
    Ok(())
}

/// Tries brotli on what takes few bytes. Effort 9 clears 32 MB of tables, which takes longer than all else for short
/// blocks; 4 does not, and tells whether 11 may pay, which is slow per byte.
fn small(dtype: DType, bytes: &[u8], best: &mut Vec<u8>) -> Result<()> {
    if bytes.len() > SHORT {
        return attempt(dtype, BROTLI, 9, bytes, best).map(drop);
    }
    let before = best.len() as f64;
    if attempt(dtype, BROTLI, 4, bytes, best)? as f64 * 0.8 < before {
        attempt(dtype, BROTLI, 11, bytes, best)?;
    }
    Ok(())
}

/// Tries brotli with growing effort while it promises to end below `best`.
fn find_repeats(dtype: DType, bytes: &[u8], best: &mut Vec<u8>) -> Result<()> {
    let before = best.len() as f64;
    // What the next effort takes of the one before, at best.
    for (effort, promise) in [(2, 0.85), (5, 0.9), (9, 0.85)] {
        if attempt(dtype, BROTLI, effort, bytes, best)? as f64 * promise > before {
            return Ok(());
        }
    }
    // The highest effort takes a second per megabyte: only where repeats are all there is.
    if (best.len() as f64) < 0.8 * before && bytes.len() <= 1 << 21 {
        attempt(dtype, BROTLI, 11, bytes, best)?;
    }
    Ok(())
}

/// Codes the block and replaces `best` where that is smaller. Returns the length that came out.
fn attempt(dtype: DType, mode: u8, effort: i64, bytes: &[u8], best: &mut Vec<u8>) -> Result<usize> {
    let body = run(dtype, mode, effort, bytes)?;
    let length = body.len() + 1;
    if length < best.len() && length < bytes.len() {
        best.clear();
        best.push(mode);
        best.extend_from_slice(&body);
    }
    Ok(length)
}

fn run(dtype: DType, mode: u8, effort: i64, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let failed = |_| Error::Corrupt("a library did not code the block");
    step(dtype, mode, effort, bytes.len()).and_then(|s| s.encode(bytes, &mut out)).map_err(failed)?;
    Ok(out)
}

/// Decodes a block of one of the modes above to exactly `length` bytes, appended to `out`.
pub(super) fn decode(dtype: DType, mode: u8, length: usize, body: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut bytes = Vec::new();
    let failed = |_| Error::Corrupt("body of another codec");
    step(dtype, mode, 5, length).and_then(|s| s.decode(body, length, &mut bytes)).map_err(failed)?;
    if bytes.len() != length {
        return Err(Error::Corrupt("body of another codec has another length"));
    }
    out.extend_from_slice(&bytes);
    Ok(())
}

/// The codec behind a mode, ready for `length` bytes.
fn step(dtype: DType, mode: u8, effort: i64, length: usize) -> knarr_array::Result<Box<dyn Step>> {
    let (codec, option): (&dyn Codec, _) = if mode == PCODEC { (&Pcodec, "level") } else { (&Brotli, "quality") };
    let spec = ArraySpec::new(dtype, [length / dtype.size()]);
    codec.prepare(&Options::default().with_int(option, effort), &Stage { spec, is_array: true })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_body_is_chosen_where_it_is_smaller() {
        let mut x = 1u64;
        let mut noise = || {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            x >> 33
        };
        // A sum of uniform numbers is nearly normal; the factor leaves no lattice. No neighbour tells anything.
        let normal: Vec<u8> = (0..40000)
            .flat_map(|_| {
                let sum: f32 = (0..12).map(|_| noise() as f32 / 2f32.powi(31)).sum();
                ((sum - 6.0) * (1.0 + noise() as f32 / 2f32.powi(31))).to_le_bytes()
            })
            .collect();
        let words = ["fjord ", "knarr ", "sail ", "north ", "stave ", "mast "];
        let text: String = (0..9000).map(|_| words[noise() as usize % words.len()]).collect();
        let text = &text.as_bytes()[..36000];
        let short = &text[..800];
        for (dtype, bytes, mode) in
            [(DType::F32, &normal[..], PCODEC), (DType::U8, text, BROTLI), (DType::U8, short, BROTLI)]
        {
            let mut best =
                super::super::plan::encode(dtype, &[bytes.len() / dtype.size()], &[], bytes).unwrap().unwrap();
            best.insert(0, super::super::GRID);
            improve(dtype, bytes, &mut best).unwrap();
            assert_eq!(best[0], mode);
            let mut out = Vec::new();
            decode(dtype, mode, bytes.len(), &best[1..], &mut out).unwrap();
            assert!(out == bytes);
            for cut in (0..best.len() - 1).step_by(97) {
                assert!(decode(dtype, mode, bytes.len(), &best[1..=cut], &mut Vec::new()).is_err());
            }
            for _ in 0..2000 {
                let mut bad = best[1..].to_vec();
                let at = noise() as usize % bad.len();
                bad[at] ^= 1 << (noise() & 7);
                let mut out = Vec::new();
                if decode(dtype, mode, bytes.len(), &bad, &mut out).is_ok() {
                    assert_eq!(out.len(), bytes.len());
                }
            }
        }
    }
}
