//! Where blocks of bytes begin and end: where their distribution changes, if that is worth a header.
//!
//! In planes of shuffled numbers the high bytes of neighbours are alike, and a few kilobytes on they are others: a prefix
//! code for each stretch is much shorter than one for all. Planes of noise stay whole.
#![expect(clippy::cast_precision_loss, reason = "estimates")]

use crate::entropy::{Histogram, log2};
use crate::runs::{self, Run};

/// Bytes after which a block may end.
const GRANULE: usize = 4 << 10;
/// Bits that a block of its own must save: its header, and the time that it takes to read.
const HEADER_BITS: f32 = 800.0;
/// Shortest run worth a match.
pub(super) const SHORTEST_RUN: usize = 3;
/// Bits of a run, about.
pub(super) const RUN_BITS: f32 = 10.0;
/// Parts of a bit that costs of bytes are counted in: whole numbers add up faster.
pub(super) const PARTS: f32 = 256.0;
/// Most bytes that are judged to be noise at once, and the bits per byte from which on they are.
const NOISE: usize = 40 << 10;
const NOISE_BITS: f32 = 7.6;
/// They are judged by a stripe of so many bytes out of eight such.
const STRIPE: usize = 256;
/// Fewest stripes to judge by.
const STRIPES: usize = 16;

/// A block: where it and its runs end, and what its bytes cost.
pub(super) struct Cut {
    pub(super) end: usize,
    /// Number of runs before its end.
    pub(super) runs: usize,
    /// Bits of each byte as a literal, times [`PARTS`].
    pub(super) bits: [u32; 256],
    /// Bits of all literals and runs.
    pub(super) total: f32,
    is_noise: bool,
}

/// Cuts `input[begin..end]` into blocks and puts their runs into `runs`, which is emptied before.
pub(super) fn cut(input: &[u8], begin: usize, end: usize, runs: &mut Vec<Run>) -> Vec<Cut> {
    runs.clear();
    let mut cuts: Vec<Cut> = Vec::new();
    let mut open = Open::nothing();
    for part in equal_parts(begin, end, NOISE) {
        if let Some((bits, total)) = noise(&input[part.clone()]) {
            open.close(&mut cuts);
            match cuts.last_mut() {
                Some(last) if last.is_noise => (last.end, last.total) = (part.end, last.total + total),
                _ => cuts.push(Cut { end: part.end, runs: runs.len(), bits, total, is_noise: true }),
            }
            continue;
        }
        for piece in equal_parts(part.start, part.end, GRANULE) {
            let before = runs.len();
            let counts = counts(input, piece.start, piece.end, runs);
            let found = runs.len() - before;
            let alone = literal_bits(&counts) + RUN_BITS * found as f32;
            let together: [u32; 256] = std::array::from_fn(|byte| open.counts[byte] + counts[byte]);
            let total = literal_bits(&together) + RUN_BITS * (open.found + found) as f32;
            if !open.is_nothing() && total > open.total + alone + HEADER_BITS {
                open.close(&mut cuts);
                (open.counts, open.total, open.found) = (counts, alone, found);
            } else {
                let fewer = if open.is_nothing() { 0 } else { join(runs, before) };
                (open.counts, open.total, open.found) = (together, total, open.found + found - fewer);
            }
            (open.end, open.runs) = (piece.end, runs.len());
        }
    }
    open.close(&mut cuts);
    cuts
}

/// Ranges of at most `most` places that make up `begin..end` and differ by one at most.
fn equal_parts(begin: usize, end: usize, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let length = end - begin;
    let parts = length.div_ceil(most);
    (0..parts).map(move |part| begin + length * part / parts..begin + length * (part + 1) / parts)
}

/// Joins the run at `place` with the one before if it continues it, and returns by how many runs there are fewer.
fn join(runs: &mut Vec<Run>, place: usize) -> usize {
    if let Some([run, next]) = runs.get_mut(place.wrapping_sub(1)..).and_then(|runs| runs.first_chunk_mut())
        && run.start + run.length == next.start
    {
        run.length += next.length;
        runs.remove(place);
        return 1;
    }
    0
}

/// The block whose end is not decided.
struct Open {
    end: usize,
    /// Number of runs before its end, and of its own.
    runs: usize,
    found: usize,
    counts: [u32; 256],
    total: f32,
}

impl Open {
    fn nothing() -> Self {
        Self { end: 0, runs: 0, found: 0, counts: [0; 256], total: 0.0 }
    }

    fn is_nothing(&self) -> bool {
        self.end == 0
    }

    /// Ends the block here and begins none.
    fn close(&mut self, cuts: &mut Vec<Cut>) {
        if !self.is_nothing() {
            let bits = bits(&self.counts);
            cuts.push(Cut { end: self.end, runs: self.runs, bits, total: self.total, is_noise: false });
            *self = Self::nothing();
        }
    }
}

/// Finds the runs of `input[begin..end]` and counts the other bytes.
fn counts(input: &[u8], begin: usize, end: usize, runs: &mut Vec<Run>) -> [u32; 256] {
    let mut histogram = Histogram::new();
    let mut literals = begin;
    runs::find(&input[..end], begin, end, SHORTEST_RUN, |run| {
        histogram.add(&input[literals..run.start]);
        literals = run.start + run.length;
        runs.push(run);
    });
    histogram.add(&input[literals..end]);
    histogram.counts()
}

/// Bits of each byte as a literal, times [`PARTS`].
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bits of a byte, not negative")]
fn bits(counts: &[u32; 256]) -> [u32; 256] {
    let log = log2(counts.iter().sum::<u32>().max(1) as f32);
    counts.map(|count| ((log - log2(count.max(1) as f32)) * PARTS) as u32)
}

/// Bits of all literals.
fn literal_bits(counts: &[u32; 256]) -> f32 {
    let log = log2(counts.iter().sum::<u32>().max(1) as f32);
    // Sums of their own, so that the loop runs in vectors.
    let mut sums = [0.0f32; 16];
    for counts in counts.as_chunks::<16>().0 {
        for (sum, &count) in sums.iter_mut().zip(counts) {
            *sum += (log - log2(count.max(1) as f32)) * count as f32;
        }
    }
    sums.iter().sum()
}

/// [`bits`] and [`literal_bits`] of noise, judged by a part of it: runs in noise are not worth looking for.
fn noise(block: &[u8]) -> Option<([u32; 256], f32)> {
    let mut histogram = Histogram::new();
    let stripes = block.chunks(8 * STRIPE).filter_map(|part| part.first_chunk::<STRIPE>());
    let looked_at = STRIPE * stripes.map(|stripe| histogram.add(stripe)).count();
    let counts = histogram.counts();
    let per_byte = literal_bits(&counts) / looked_at.max(1) as f32;
    (looked_at >= STRIPES * STRIPE && per_byte > NOISE_BITS).then(|| (bits(&counts), per_byte * block.len() as f32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_testing::data::Random;

    fn ends(input: &[u8]) -> Vec<usize> {
        cut(input, 0, input.len(), &mut Vec::new()).iter().map(|cut| cut.end).collect()
    }

    #[test]
    fn blocks_end_where_bytes_become_others() {
        let mut random = Random::new(1);
        let mut bytes = |count: usize, mask: u8, add: u8| -> Vec<u8> {
            (0..count).map(|_| (random.bits().to_le_bytes()[3] & mask) + add).collect()
        };
        let alike = bytes(16 * GRANULE, 7, 0);
        assert_eq!(ends(&alike), [alike.len()]);
        let changes = [bytes(2 * GRANULE, 7, 0), bytes(3 * GRANULE, 7, 90), bytes(5 * GRANULE, 3, 40)].concat();
        assert_eq!(ends(&changes), [2 * GRANULE, 5 * GRANULE, 10 * GRANULE]);
        let noise = bytes(4 * NOISE, 255, 0);
        assert_eq!(ends(&noise), [noise.len()]);
        let both = [noise.as_slice(), &bytes(NOISE, 7, 0)].concat();
        assert_eq!(ends(&both), [noise.len(), both.len()]);
    }

    #[test]
    fn a_run_over_many_pieces_is_one() {
        let mut input = vec![1, 2, 3];
        input.resize(9 * GRANULE + 5, 3);
        let mut runs = Vec::new();
        let cuts = cut(&input, 0, input.len(), &mut runs);
        assert_eq!((cuts.len(), cuts[0].runs, runs.len()), (1, 1, 1));
        assert_eq!((runs[0].start, runs[0].length), (3, input.len() - 3));
    }
}
