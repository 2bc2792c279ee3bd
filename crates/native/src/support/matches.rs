//! Matches worth their bits: one pass over a block for an entropy coder behind it.
//!
//! Shuffled numbers are planes of unlike bytes. In most of them a search that takes every match it finds makes the
//! result larger than literals and runs alone: a short match at a long distance costs more than its bytes, and spoils
//! their prefix code. So bytes are counted first, and a match must save bits against that count.
#![expect(clippy::cast_possible_truncation, reason = "hashes, and positions below the limit of u32")]
#![expect(clippy::cast_precision_loss, reason = "estimates")]

use std::ops::Range;

use super::cuts::{self, Cut, PARTS, RUN_BITS, SHORTEST_RUN};
use crate::runs::Run;

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

/// Slots of the table, which stays within a core's second cache.
const SLOTS_LOG2: u32 = 14;
/// Bits of a place in the table, which keeps places modulo their power of two.
const PLACE_BITS: u32 = 24;
const PLACES: usize = (1 << PLACE_BITS) - 1;
/// Bytes that are looked up: as many as may be worth a match, and not more than two words.
const LOOKED_UP: std::ops::RangeInclusive<usize> = 4..=16;
/// Bits of a match that pays, about.
const PAYS_BITS: f32 = 26.0;
/// Fewest bytes of a match at the distance of the one before.
const REPEATED: usize = 3;
/// Bits that a match must save: what it takes besides its distance, and what it spoils in the codes of other bytes.
const MATCH_BITS: f32 = 24.0;
/// The same for a match at the distance of the one before.
const REPEATED_BITS: f32 = 7.0;
/// Bytes of a match that are counted one by one.
const LONG: usize = 32;
/// The step between places looked up grows by about one after so many in vain.
const MISSES_PER_STEP: usize = 8;
/// Most that it grows by: repeats of a kilobyte are found with it.
const LARGEST_STEP: usize = 16;

/// Matches of one input, block after block.
pub(crate) struct Finder {
    /// Where bytes of a hash were last, and above that more of the hash, which spares looks at other bytes.
    last: Vec<u32>,
    runs: Vec<Run>,
    /// Places looked up in vain, less the bits that matches saved.
    misses: usize,
    /// Where to look up next: a step may go beyond a gap.
    next: usize,
    /// Distance of the last match other than a run: repeating it costs little.
    recent: usize,
}

impl Finder {
    pub(crate) fn new() -> Self {
        Self { last: Vec::new(), runs: Vec::new(), misses: 0, next: 0, recent: 0 }
    }

    /// Begins an input, and forgets the one before.
    pub(crate) fn reset(&mut self) {
        self.last.clear();
        self.last.resize(1 << SLOTS_LOG2, 0);
        (self.misses, self.next, self.recent) = (0, 0, 0);
    }

    /// Appends the matches of `input[begin..end]`, in order and at most `window` back, to `out`. After each block it
    /// gives `block` the block's end and the number of matches so far.
    pub(crate) fn find(
        &mut self,
        input: &[u8],
        begin: usize,
        end: usize,
        window: usize,
        out: &mut Vec<Match>,
        mut block: impl FnMut(usize, usize),
    ) -> Bits {
        let mut sum = Bits::default();
        let mut at = begin;
        let mut runs = 0;
        for cut in cuts::cut(input, begin, end, &mut self.runs) {
            sum.total += cut.total;
            sum.saved += self.block(input, at, &cut, runs, window, out);
            block(cut.end, out.len());
            (at, runs) = (cut.end, cut.runs);
        }
        sum
    }

    /// Appends the matches of one block, and returns the bits that those other than runs save.
    fn block(
        &mut self,
        input: &[u8],
        begin: usize,
        cut: &Cut,
        first_run: usize,
        window: usize,
        out: &mut Vec<Match>,
    ) -> f32 {
        let &Cut { end, runs, ref bits, total, .. } = cut;
        // Bytes with many runs cost little: a match must be long to pay.
        let least = (PAYS_BITS * (end - begin) as f32 / total) as usize;
        let least = least.clamp(*LOOKED_UP.start(), *LOOKED_UP.end());
        let mut saved = 0.0;
        let mut next_run = first_run;
        let (mut at, mut free) = (begin, begin);
        loop {
            let run = self.runs[..runs].get(next_run).copied();
            let stop = run.map_or(end, |run| run.start);
            let behind = run.map_or(end, |run| run.start + run.length);
            let found = self.search(input, bits, Gap { at, free, stop, behind, end, run: next_run, least }, window);
            if let Some((found, gain)) = found {
                out.push(found);
                saved += gain;
                free = found.start + found.length;
                at = free;
                while let Some(run) = self.runs[..runs].get_mut(next_run).filter(|run| run.start < at) {
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
                return saved;
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
            sum += RUN_BITS;
        }
        let end = looked_at.max(at);
        sum += (literal_bits + literals(bits, &input[at..end])) as f32 / PARTS;
        sum * range.len() as f32 / (end - range.start).max(1) as f32
    }

    /// The next match in a gap between runs, and the bits that it saves.
    fn search(&mut self, input: &[u8], bits: &[u32; 256], gap: Gap, window: usize) -> Option<(Match, f32)> {
        let mut at = gap.at.max(self.next);
        while at < gap.stop && at + gap.least <= gap.end {
            // Rows of a grid are like the ones before them, so one distance serves many matches.
            let again = self.recent;
            if again > 0
                && again <= at
                && input.get(at..at + REPEATED)? == input.get(at - again..at - again + REPEATED)?
            {
                let found = self.extended(input, bits, gap, at, again, REPEATED, REPEATED_BITS);
                if found.is_some() {
                    return found;
                }
            }
            let key = key_at(input, at, gap.least)?;
            let hash = (key.0 ^ key.1.rotate_left(20)).wrapping_mul(0x9E37_79B1_85EB_CA87);
            let slot = self.last.get_mut((hash >> (64 - SLOTS_LOG2)) as usize)?;
            let distance = (at as u32).wrapping_sub(*slot) as usize & PLACES;
            let tag = (hash << PLACE_BITS) as u32;
            let alike = (*slot ^ tag) >> PLACE_BITS == 0;
            *slot = (at & PLACES) as u32 | tag;
            if alike && (1..=window.min(at)).contains(&distance) && key_at(input, at - distance, gap.least)? == key {
                let least = MATCH_BITS + distance.ilog2() as f32;
                let found = self.extended(input, bits, gap, at, distance, gap.least, least);
                if found.is_some() {
                    self.recent = distance;
                    return found;
                }
            }
            self.misses = (self.misses + 1).min(LARGEST_STEP * MISSES_PER_STEP);
            // Steps follow from what is there, so that those through a repeat soon meet those through its original.
            at += 1 + (self.misses / MISSES_PER_STEP) * (hash >> 32 & 15) as usize / 8;
        }
        self.next = at;
        None
    }

    /// The match around `same` bytes at `at` that are the same `distance` before, if it saves more than `least` bits.
    #[expect(clippy::too_many_arguments, reason = "called in one place, in its innermost loop")]
    fn extended(
        &mut self,
        input: &[u8],
        bits: &[u32; 256],
        gap: Gap,
        at: usize,
        distance: usize,
        same: usize,
        least: f32,
    ) -> Option<(Match, f32)> {
        let from = at - distance;
        let before = input[gap.free..at].iter().rev().zip(input[..from].iter().rev());
        let start = at - before.take_while(|(x, y)| x == y).count();
        let mut length = at - start + same + equal(&input[from + same..], &input[at + same..gap.end]);
        // A run that is not covered to its end is sent as one anyway.
        if start + length < gap.behind {
            length = length.min(gap.stop - start);
        }
        let gain = self.worth(input, bits, gap.run, start..start + length) - least;
        if length < REPEATED || gain <= 0.0 {
            return None;
        }
        (self.misses, self.next) = (self.misses.saturating_sub(gain as usize), 0);
        Some((Match { start, length, distance }, gain))
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
    use knarr_testing::data::Random;

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
                finder.find(&input, begin, end, window, &mut matches, |_, _| ());
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
            let bits = finder.find(&input, begin, begin + 20_000, 1 << 20, &mut matches, |_, _| ());
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
        finder.find(&input, 0, input.len(), 1 << 20, &mut matches, |_, _| ());
        let matched: usize = matches.iter().map(|found| found.length).sum();
        assert!(matched > 45_000, "{matched} of 50000 repeated bytes");
    }
}
