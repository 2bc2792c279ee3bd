//! A stretch of bytes as literals and runs, counted in DEFLATE's symbols: what coding without a search for repeats
//! costs.
#![expect(clippy::cast_possible_truncation, reason = "lengths of runs and prices of codes are small")]

use crate::entropy::{Histogram, log2};
use crate::runs::{self, Run};

/// Parts of a bit in which prices are counted: whole numbers add up faster.
pub(super) const PARTS: u32 = 256;
/// Literals, the end of the block and 29 lengths.
pub(super) const SYMBOLS: usize = 286;
/// The symbol that ends a block.
pub(super) const END: usize = 256;
/// Shortest run that is worth a length symbol.
const SHORTEST_RUN: usize = 4;
/// RFC 1951, 3.2.5.
const LONGEST_RUN: usize = 258;
/// Symbol, extra bits and their number for a run of 3 to 258.
pub(super) fn length_symbol(length: usize) -> (usize, u64, u32) {
    if length == LONGEST_RUN {
        return (285, 0, 0);
    }
    let value = length - 3;
    if value < 8 {
        return (257 + value, 0, 0);
    }
    let extra = value.ilog2() - 2;
    (257 + 4 * extra as usize + (value >> extra), (value & ((1 << extra) - 1)) as u64, extra)
}

/// Literals and runs of a stretch of bytes, counted.
#[derive(Clone)]
pub(super) struct Counts {
    pub(super) symbols: [u32; SYMBOLS],
    pub(super) extra_bits: u32,
}

impl Counts {
    pub(super) const NONE: Self = Self { symbols: [0; SYMBOLS], extra_bits: 0 };

    /// Bits of the symbols by their entropy, without a header.
    pub(super) fn bits(&self) -> f32 {
        let total: u32 = self.symbols.iter().sum();
        let runs: u32 = self.symbols[END + 1..].iter().sum();
        // Sums side by side do not wait for each other.
        let mut sums = [0.0; 8];
        let (eights, rest) = self.symbols.as_chunks::<8>();
        for eight in eights.iter().map(<[u32; 8]>::as_slice).chain([rest]) {
            for (sum, &count) in sums.iter_mut().zip(eight) {
                *sum += times_log2(count);
            }
        }
        let sum: f32 = sums.iter().sum();
        times_log2(total) - sum + (self.extra_bits + runs) as f32
    }

    /// Bits of the symbols with codes of these lengths, without a header.
    pub(super) fn bits_with(&self, lengths: &[u8; SYMBOLS]) -> usize {
        let codes = self.symbols.iter().zip(lengths).map(|(&count, &length)| count as usize * usize::from(length));
        let distances = self.symbols[END + 1..].iter().map(|&count| count as usize);
        codes.chain(distances).sum::<usize>() + self.extra_bits as usize
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (mine, &theirs) in self.symbols.iter_mut().zip(&other.symbols) {
            *mine += theirs;
        }
        self.extra_bits += other.extra_bits;
    }
}

#[inline]
fn times_log2(count: u32) -> f32 {
    // Signed numbers of 32 bits become floats in one step, unsigned ones do not.
    let count = count.cast_signed() as f32;
    count * log2(count.max(1.0))
}

/// A stretch of at most some granules, its runs found and counted.
pub(super) struct Stretch {
    pub(super) runs: Vec<Run>,
    pub(super) counts: Counts,
}

impl Stretch {
    /// Reads `bytes[begin..end]`. A run may begin with a byte that equals the one before `begin`: DEFLATE's window
    /// spans blocks of all kinds.
    pub(super) fn read(bytes: &[u8], begin: usize, end: usize) -> Self {
        let mut stretch = Self { runs: Vec::new(), counts: Counts::NONE };
        let mut counts = Histogram::new();
        let mut literals = begin;
        runs::find(bytes, begin, end, SHORTEST_RUN, |run| {
            counts.add(&bytes[literals..run.start]);
            literals = run.start + run.length;
            stretch.runs.push(run);
        });
        counts.add(&bytes[literals..end]);
        stretch.counts.symbols[..256].copy_from_slice(&counts.counts());
        for run in &stretch.runs {
            for length in pieces(run.length) {
                let (symbol, _, extra) = length_symbol(length);
                stretch.counts.symbols[symbol] += 1;
                stretch.counts.extra_bits += extra;
            }
        }
        stretch
    }
}

impl Stretch {
    /// Entropy of all symbols in bits, without a header.
    pub(super) fn bits(&self) -> f32 {
        self.counts.bits()
    }

    /// Bits of all bytes before each one, and of all, times [`PARTS`].
    pub(super) fn bits_before(&self, bytes: &[u8]) -> Vec<u32> {
        let total: u32 = self.counts.symbols.iter().sum();
        let log = log2(total.max(1) as f32);
        let bits: [u32; SYMBOLS] = std::array::from_fn(|symbol| {
            let bits = log - log2(self.counts.symbols[symbol].max(1) as f32);
            (bits * PARTS as f32).round() as u32
        });
        let mut sum = 0;
        let mut costs = Vec::with_capacity(bytes.len() + 1);
        costs.push(0);
        let literals = |from: usize, to: usize, costs: &mut Vec<u32>, sum: &mut u32| {
            costs.extend(bytes[from..to].iter().map(|&byte| {
                *sum += bits[usize::from(byte)];
                *sum
            }));
        };
        let mut at = 0;
        for run in &self.runs {
            literals(at, run.start, &mut costs, &mut sum);
            for length in pieces(run.length) {
                let (symbol, _, extra) = length_symbol(length);
                sum += bits[symbol] + (extra + 1) * PARTS;
                costs.extend(std::iter::repeat_n(sum, length));
            }
            at = run.start + run.length;
        }
        literals(at, bytes.len(), &mut costs, &mut sum);
        costs
    }
}

/// Lengths of 3 to 258 that add up to `length`.
pub(super) fn pieces(length: usize) -> impl Iterator<Item = usize> {
    let mut left = length;
    std::iter::from_fn(move || {
        let piece = match left {
            0 => return None,
            // Nothing shorter than 3 may stay.
            259 | 260 => left - 3,
            _ => left.min(LONGEST_RUN),
        };
        left -= piece;
        Some(piece)
    })
}
