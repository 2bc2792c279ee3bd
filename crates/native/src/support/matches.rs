//! Matches worth their bits: one pass over a block for an entropy coder behind it.
//!
//! Shuffled numbers are planes of unlike bytes. In most of them a search that takes every match it finds makes the
//! result larger than literals and runs alone: a short match at a long distance costs more than its bytes, and spoils
//! their prefix code. So bytes are counted first, and a match must save bits against that count.
#![expect(clippy::cast_possible_truncation, reason = "hashes, and positions below the limit of u32")]
#![expect(clippy::cast_precision_loss, reason = "estimates")]

use std::ops::Range;

use crate::entropy::{Histogram, log2};
use crate::runs::{self, Run};

/// A match, behind the literals that come before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) start: usize,
    pub(crate) length: usize,
    pub(crate) distance: usize,
}

/// Estimates for a block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bits {
    /// What it takes as literals and runs.
    pub(crate) total: f32,
    /// What matches other than runs save of it.
    pub(crate) saved: f32,
}

/// Places of the table, which stays within a core's second cache.
const SLOTS_LOG2: u32 = 14;
/// Bytes that are looked up: as many as may be worth a match, and not more than two words.
const LOOKED_UP: std::ops::RangeInclusive<usize> = 6..=16;
/// Bits of a match that pays, about.
const PAYS_BITS: f32 = 26.0;
/// Shortest run worth a match.
const SHORTEST_RUN: usize = 3;
/// Bits of a match besides its distance, and of a run, about.
const MATCH_BITS: f32 = 16.0;
/// Bytes of a match that are counted one by one.
const LONG: usize = 32;
/// Parts of a bit that costs of bytes are counted in: whole numbers add up faster.
const PARTS: f32 = 256.0;
/// Bits per byte from which on a block is noise.
const NOISE_BITS: f32 = 7.6;
/// A block is judged by a stripe of so many bytes out of eight such.
const STRIPE: usize = 256;
/// Fewest stripes to judge by.
const STRIPES: usize = 16;
/// The step between places looked up grows by about one after so many in vain.
const PATIENCE_LOG2: u32 = 5;
/// Most that it grows by: repeats of a kilobyte are found with it.
const LARGEST_STEP: usize = 16;

/// Matches of one input, block after block.
pub(crate) struct Finder {
    /// Where bytes of a hash were last, in the low half, and more of that hash, which spares looks at other bytes.
    last: Vec<u64>,
    runs: Vec<Run>,
    /// Places looked up in vain since the last match.
    misses: usize,
    /// Where to look up next: a step may go beyond a gap.
    next: usize,
}

impl Finder {
    pub(crate) fn new() -> Self {
        Self { last: Vec::new(), runs: Vec::new(), misses: 0, next: 0 }
    }

    /// Begins an input, and forgets the one before.
    pub(crate) fn reset(&mut self) {
        self.last.clear();
        self.last.resize(1 << SLOTS_LOG2, 0);
        (self.misses, self.next) = (0, 0);
    }

    /// Appends the matches of `input[begin..end]`, in order and at most `window` back, to `out`.
    pub(crate) fn find(&mut self, input: &[u8], begin: usize, end: usize, window: usize, out: &mut Vec<Match>) -> Bits {
        self.runs.clear();
        let (bits, total) = noise(&input[begin..end]).unwrap_or_else(|| {
            let mut histogram = Histogram::new();
            let mut literals = begin;
            runs::find(&input[..end], begin, end, SHORTEST_RUN, |run| {
                histogram.add(&input[literals..run.start]);
                literals = run.start + run.length;
                self.runs.push(run);
            });
            histogram.add(&input[literals..end]);
            let (bits, total) = costs(&histogram.counts());
            (bits, total + MATCH_BITS * self.runs.len() as f32)
        });

        // Bytes with many runs cost little: a match must be long to pay.
        let least = (PAYS_BITS * (end - begin) as f32 / total) as usize;
        let least = least.clamp(*LOOKED_UP.start(), *LOOKED_UP.end());
        let mut saved = 0.0;
        let mut next_run = 0;
        let (mut at, mut free) = (begin, begin);
        loop {
            let run = self.runs.get(next_run).copied();
            let stop = run.map_or(end, |run| run.start);
            let behind = run.map_or(end, |run| run.start + run.length);
            let found = self.search(input, &bits, Gap { at, free, stop, behind, end, run: next_run, least }, window);
            if let Some((found, gain)) = found {
                out.push(found);
                saved += gain;
                free = found.start + found.length;
                at = free;
                while let Some(run) = self.runs.get_mut(next_run).filter(|run| run.start < at) {
                    let run_end = run.start + run.length;
                    if run_end >= at + SHORTEST_RUN {
                        *run = Run { start: at, length: run_end - at };
                        break;
                    }
                    next_run += 1;
                }
            } else if let Some(run) = run {
                out.push(Match { start: run.start, length: run.length, distance: 1 });
                free = run.start + run.length;
                at = free;
                next_run += 1;
            } else {
                return Bits { total, saved };
            }
        }
    }

    /// Bits of the bytes in `range` as literals and runs, of which `next` is the first that may be within.
    fn worth(&self, input: &[u8], bits: &[u32; 256], next: usize, range: Range<usize>) -> f32 {
        // All that a long match stands for is like its beginning.
        let looked_at = range.end.min(range.start + LONG);
        let mut sum = 0.0;
        let mut literal_bits = 0;
        let mut at = range.start;
        for run in self.runs[next..].iter().take_while(|run| run.start < looked_at) {
            literal_bits += literals(bits, &input[at..run.start]);
            at = run.start + run.length;
            if at > range.end {
                at = range.end;
                break;
            }
            sum += MATCH_BITS;
        }
        let end = looked_at.max(at);
        sum += (literal_bits + literals(bits, &input[at..end])) as f32 / PARTS;
        sum * range.len() as f32 / (end - range.start).max(1) as f32
    }

    /// The next match in a gap between runs, and the bits that it saves.
    fn search(&mut self, input: &[u8], bits: &[u32; 256], gap: Gap, window: usize) -> Option<(Match, f32)> {
        let mut at = gap.at.max(self.next);
        while at < gap.stop && at + gap.least <= gap.end {
            let key = key_at(input, at, gap.least)?;
            let hash = (key.0 ^ key.1.rotate_left(20)).wrapping_mul(0x9E37_79B1_85EB_CA87);
            let slot = self.last.get_mut((hash >> (64 - SLOTS_LOG2)) as usize)?;
            let candidate = *slot as u32 as usize;
            let alike = *slot >> 32 == hash & 0xFFFF_FFFF;
            *slot = hash << 32 | at as u64;
            if alike && candidate < at && at - candidate <= window && key_at(input, candidate, gap.least)? == key {
                let before = input[gap.free..at].iter().rev().zip(input[..candidate].iter().rev());
                let back = before.take_while(|(x, y)| x == y).count();
                let ahead = equal(&input[candidate + gap.least..], &input[at + gap.least..gap.end]);
                let start = at - back;
                let mut length = back + gap.least + ahead;
                // A run that is not covered to its end is sent as one anyway.
                if start + length < gap.behind {
                    length = length.min(gap.stop - start);
                }
                let distance = at - candidate;
                let gain =
                    self.worth(input, bits, gap.run, start..start + length) - MATCH_BITS - distance.ilog2() as f32;
                if gain > 0.0 {
                    (self.misses, self.next) = (self.misses / 4, 0);
                    return Some((Match { start, length, distance }, gain));
                }
            }
            self.misses = (self.misses + 1).min(LARGEST_STEP << PATIENCE_LOG2);
            // Steps follow from what is there, so that those through a repeat soon meet those through its original.
            at += 1 + (self.misses >> PATIENCE_LOG2) * (hash >> 32 & 15) as usize / 8;
        }
        self.next = at;
        None
    }
}

/// Bytes between runs.
#[derive(Clone, Copy)]
struct Gap {
    /// Where to search on.
    at: usize,
    /// Where no match reaches yet.
    free: usize,
    /// Where the next run begins.
    stop: usize,
    /// Where that run ends.
    behind: usize,
    /// Where the block ends.
    end: usize,
    /// The place of that run among all.
    run: usize,
    /// Bytes that are looked up.
    least: usize,
}

/// Bits of each byte as a literal, times [`PARTS`], and of all literals.
fn costs(counts: &[u32; 256]) -> ([u32; 256], f32) {
    let log = log2(counts.iter().sum::<u32>().max(1) as f32);
    let bits: [f32; 256] = std::array::from_fn(|byte: usize| log - log2(counts[byte].max(1) as f32));
    let total = bits.iter().zip(counts).map(|(bits, &count)| bits * count as f32).sum();
    (bits.map(|bits| (bits * PARTS) as u32), total)
}

/// What [`costs`] gives for a block of noise, judged by a part of it: runs in noise are not worth looking for.
fn noise(block: &[u8]) -> Option<([u32; 256], f32)> {
    let mut histogram = Histogram::new();
    let stripes = block.chunks(8 * STRIPE).filter_map(|part| part.first_chunk::<STRIPE>());
    let looked_at = STRIPE * stripes.map(|stripe| histogram.add(stripe)).count();
    let (bits, total) = costs(&histogram.counts());
    let per_byte = total / looked_at.max(1) as f32;
    (looked_at >= STRIPES * STRIPE && per_byte > NOISE_BITS).then_some((bits, per_byte * block.len() as f32))
}

/// Bits of `bytes` as literals, times [`PARTS`].
fn literals(bits: &[u32; 256], bytes: &[u8]) -> u32 {
    bytes.iter().map(|&byte| bits[usize::from(byte)]).sum()
}

/// `length` bytes at a place, 16 at most, as two words that overlap.
fn key_at(bytes: &[u8], at: usize, length: usize) -> Option<(u64, u64)> {
    let first = word_at(bytes, at)?;
    match length {
        0..8 => Some((first << (64 - 8 * length), 0)),
        _ => Some((first, word_at(bytes, at + length - 8)?)),
    }
}

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// How many bytes from the front on are the same.
fn equal(a: &[u8], b: &[u8]) -> usize {
    let (words, _) = b.as_chunks::<8>();
    for (at, (x, y)) in a.as_chunks::<8>().0.iter().zip(words).enumerate() {
        let differs = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differs != 0 {
            return 8 * at + differs.trailing_zeros() as usize / 8;
        }
    }
    let whole = 8 * words.len().min(a.len() / 8);
    whole + a[whole..].iter().zip(&b[whole..]).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_core::testing::data::Random;

    /// Rebuilds the block from its literals and matches alone.
    fn rebuild(input: &[u8], begin: usize, end: usize, matches: &[Match]) -> Vec<u8> {
        let mut out = input[..begin].to_vec();
        let mut at = begin;
        for found in matches {
            out.extend_from_slice(&input[at..found.start]);
            for _ in 0..found.length {
                out.push(out[out.len() - found.distance]);
            }
            at = found.start + found.length;
        }
        out.extend_from_slice(&input[at..end]);
        out
    }

    #[test]
    fn matches_rebuild_what_they_stand_for() {
        let mut random = Random::new(3);
        let mut finder = Finder::new();
        let mut matches = Vec::new();
        for case in 0..200usize {
            let length = (random.bits() % 50_000) as usize;
            let period = (random.bits() % 3000) as usize + 1;
            let mask = [0xFF, 0x0F, 0x03, 0x01][case % 4];
            let mut input: Vec<u8> = Vec::new();
            while input.len() < length {
                let noise = random.bits();
                match noise % 7 {
                    0 => input.extend(std::iter::repeat_n(noise.to_le_bytes()[1], (noise >> 16) as usize % 40)),
                    1 if input.len() > period => {
                        let from = input.len() - period;
                        input.extend_from_within(from..from + period.min((noise >> 16) as usize % 90));
                    }
                    _ => input.push(noise.to_le_bytes()[5] & mask),
                }
            }
            finder.reset();
            let window = 1 << (10 + case % 8);
            let block = 1 + (random.bits() % 40_000) as usize;
            let mut begin = 0;
            while begin < input.len() {
                let end = (begin + block).min(input.len());
                matches.clear();
                finder.find(&input, begin, end, window, &mut matches);
                assert!(matches.iter().all(|found| found.length >= 3 && found.distance <= window));
                assert!(rebuild(&input, begin, end, &matches) == input[..end]);
                begin = end;
            }
        }
    }

    #[test]
    fn repeats_are_found_far_back_and_noise_is_left_alone() {
        let mut random = Random::new(4);
        let mut input: Vec<u8> = (0..200_000).map(|_| random.bits().to_le_bytes()[2]).collect();
        input.extend_from_within(..60_000);
        let mut finder = Finder::new();
        finder.reset();
        let mut matches = Vec::new();
        let mut gains = Vec::new();
        for begin in (0..260_000).step_by(20_000) {
            let bits = finder.find(&input, begin, begin + 20_000, 1 << 20, &mut matches);
            gains.push(bits.saved / bits.total);
        }
        assert!(gains[..10].iter().all(|&gain| gain < 0.001), "{gains:?}");
        assert!(gains[10..].iter().all(|&gain| gain > 0.8), "{gains:?}");
    }

    #[test]
    fn short_repeats_in_noise_are_found_at_any_distance() {
        let mut random = Random::new(5);
        let mut input: Vec<u8> = (0..100_000).map(|_| random.bits().to_le_bytes()[2]).collect();
        for part in 0..20 {
            input.extend_from_within(part * 4999..part * 4999 + 2500);
            input.extend((0..499 + part).map(|_| random.bits().to_le_bytes()[2]));
        }
        let mut finder = Finder::new();
        finder.reset();
        let mut matches = Vec::new();
        finder.find(&input, 0, input.len(), 1 << 20, &mut matches);
        let matched: usize = matches.iter().map(|found| found.length).sum();
        assert!(matched > 45_000, "{matched} of 50000 repeated bytes");
    }
}
