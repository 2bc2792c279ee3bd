//! Which way suits a region of bytes, from a quick look at a part of it.
#![expect(clippy::cast_possible_truncation, reason = "places in a sample and prices of it")]

use super::effort::Effort;
use super::stretch::{PARTS, Stretch};

/// Places, besides the sample, that must be noise as well before a region is stored.
const PLACES: usize = 8;
/// Places at which repeats from afar are looked for, and how far apart the words are that are remembered for that: all repeats of
/// 71 bytes are found, and some shorter ones.
const PLACES_AFAR: usize = 4;
const STEP_AFAR: usize = 64;
/// Times the least gain that repeats from afar must bring: those of a few bytes, the first found, are no sign of more.
const AFAR: u32 = 4;
/// How far DEFLATE's matches reach.
const WINDOW: usize = 32 << 10;
const SLOTS: usize = 1 << 12;
const SHORTEST: usize = 3;
const LONGEST: usize = 258;
/// Bits of a match besides its distance: a length symbol and a distance symbol of a usual block, less one.
const MATCH_BITS: u32 = 12;

/// How to write a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Noise.
    Stored,
    /// Only frequencies and equal neighbours matter.
    Runs,
    /// A search for matches shrinks it further.
    Search,
}

/// The way for `region`.
pub(super) fn way(region: &[u8], effort: &Effort) -> Way {
    let length = region.len().min(effort.sample);
    let begin = (region.len() - length) / 2;
    let sample = &region[begin..begin + length];
    let stretch = Stretch::read(sample, 0, sample.len());
    let before = stretch.bits_before(sample);
    let total = before.last().copied().unwrap_or(0) as f32;
    let least = (effort.least_gain * total) as u32;
    if gains(sample, &before, least) || gains_afar(region, begin, &before, AFAR * least) || repeats(region, effort) {
        Way::Search
    } else if total > effort.noise * (PARTS as usize * sample.len()) as f32 && is_noise_elsewhere(region, effort) {
        Way::Stored
    } else {
        Way::Runs
    }
}

fn middle(bytes: &[u8], most: usize) -> &[u8] {
    let length = bytes.len().min(most);
    let begin = (bytes.len() - length) / 2;
    &bytes[begin..begin + length]
}

#[expect(clippy::cast_precision_loss, reason = "lengths of regions are small")]
fn as_bits(length: usize) -> f32 {
    length as f32
}

fn is_noise_elsewhere(region: &[u8], effort: &Effort) -> bool {
    let places: Vec<u8> = region
        .chunks(region.len().div_ceil(PLACES).max(1))
        .flat_map(|place| middle(place, effort.sample / PLACES).iter().copied())
        .collect();
    Stretch::read(&places, 0, places.len()).bits() > effort.noise * as_bits(places.len())
}

/// Whether matches other than runs save more than `least`, about, in the unit of `before`: the price of all bytes
/// before each one without them.
fn gains(bytes: &[u8], before: &[u32], least: u32) -> bool {
    let mut last = [0u16; SLOTS];
    let mut gain = 0;
    let mut next = 1;
    while let Some(&[a, b, c, ..]) = bytes.get(next..) {
        let at = next;
        next += 1;
        let word = u32::from_le_bytes([a, b, c, 0]);
        let slot = &mut last[(word.wrapping_mul(0x9E37_79B1) >> 20) as usize];
        let candidate = usize::from(*slot);
        *slot = at as u16;
        if candidate == 0 || bytes[candidate..candidate + SHORTEST] != [a, b, c] {
            continue;
        }
        let length = common(&bytes[candidate..], &bytes[at..]);
        let distance = at - candidate;
        let price = PARTS * (MATCH_BITS + distance.ilog2());
        let saved = (before[at + length] - before[at]).saturating_sub(price);
        if distance == 1 || saved > 0 {
            next = at + length;
        }
        if distance > 1 {
            gain += saved;
            if gain > least {
                return true;
            }
        }
    }
    false
}

/// Whether something repeats from afar in one of several places, which need not be alike.
fn repeats(region: &[u8], effort: &Effort) -> bool {
    let (apart, length) = (region.len() / PLACES_AFAR, effort.sample / PLACES_AFAR);
    if apart < 2 * length {
        return false;
    }
    (0..PLACES_AFAR).any(|place| {
        let begin = place * apart + (apart - length) / 2;
        let sample = &region[begin..begin + length];
        // Most regions have none, and a quarter of the sample tells.
        if !may_repeat(&region[begin.saturating_sub(WINDOW)..begin], middle(sample, length / 4)) {
            return false;
        }
        let before = Stretch::read(sample, 0, sample.len()).bits_before(sample);
        let total = before.last().copied().unwrap_or(0) as f32;
        gains_afar(region, begin, &before, AFAR * (effort.least_gain * total) as u32)
    })
}

/// Whether a word of the sample, other than of equal bytes, stands in the window before it.
fn may_repeat(window: &[u8], sample: &[u8]) -> bool {
    let slot = |word: u64| (word.wrapping_mul(0x9E37_79B1_85EB_CA87) >> 54) as usize;
    let mut last = [0u64; WINDOW / STEP_AFAR * 2];
    for word in window.as_chunks::<STEP_AFAR>().0.iter().filter_map(|step| step.first_chunk()) {
        let word = u64::from_le_bytes(*word);
        last[slot(word)] = word;
    }
    let is_there = |word: u64| last[slot(word)] == word && word != word.rotate_left(8);
    sample.windows(8).filter_map(|bytes| bytes.first_chunk()).any(|bytes| is_there(u64::from_le_bytes(*bytes)))
}

/// Whether repeats of what stands up to a window before `region[begin..]` save more than `least` there. `before` is as
/// for [`gains`]. Every eighth place is remembered: all repeats of 15 bytes are found, and some shorter ones.
fn gains_afar(region: &[u8], begin: usize, before: &[u32], least: u32) -> bool {
    let end = begin + before.len() - 1;
    let first = begin.saturating_sub(WINDOW);
    let hash = |word: &[u8; 8]| (u64::from_le_bytes(*word).wrapping_mul(0x9E37_79B1_85EB_CA87) >> 52) as usize;
    let mut last = [0u16; SLOTS];
    for (place, word) in region[first..begin].as_chunks::<8>().0.iter().enumerate() {
        last[hash(word)] = place as u16 + 1;
    }
    let mut gain = 0;
    let mut at = begin;
    while let Some(word) = region[at..end].first_chunk() {
        let place = usize::from(last[hash(word)]);
        let from = first + 8 * place.saturating_sub(1);
        if place == 0 || at - from > WINDOW || region[from..from + 8] != *word {
            at += 1;
            continue;
        }
        let length = common(&region[from..], &region[at..end]);
        let price = PARTS * (MATCH_BITS + (at - from).ilog2());
        gain += (before[at + length - begin] - before[at - begin]).saturating_sub(price);
        if gain > least {
            return true;
        }
        at += length;
    }
    false
}

/// How many bytes are the same from the front on, at most 258.
fn common(before: &[u8], bytes: &[u8]) -> usize {
    let most = bytes.len().min(LONGEST);
    let (words, _) = bytes[..most].as_chunks::<8>();
    let (words_before, _) = before[..most].as_chunks::<8>();
    for (place, (word, before)) in words.iter().zip(words_before).enumerate() {
        let differs = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*before);
        if differs != 0 {
            return 8 * place + differs.trailing_zeros() as usize / 8;
        }
    }
    let begin = 8 * words.len();
    begin + bytes[begin..most].iter().zip(&before[begin..most]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_testing::data::Random;

    #[test]
    fn ways_are_told_apart() {
        let mut random = Random::new(1);
        let noise: Vec<u8> = (0..100_000).map(|_| random.bits().to_le_bytes()[3]).collect();
        let skewed: Vec<u8> = noise.iter().map(|byte| byte & (byte >> 4)).collect();
        let repeated: Vec<u8> = noise[..3000].iter().copied().cycle().take(100_000).collect();
        // Farther apart than any sample reaches.
        let afar: Vec<u8> = noise[..20_000].iter().copied().cycle().take(100_000).collect();
        // As far as a match reaches: rows of 128 x 256 bytes that are alike.
        let farthest: Vec<u8> = noise[..WINDOW].iter().copied().cycle().take(100_000).collect();
        // In a part of the region only.
        let partly = [&noise[..60_000], &noise[40_000..60_000], &noise[60_000..]].concat();
        // Noise in the middle alone is not stored with the rest.
        let mut framed = vec![0; 100_000];
        framed.extend_from_slice(&noise[..50_000]);
        framed.extend_from_slice(&[0; 100_000]);
        for effort in [1, 5, 9].map(Effort::of) {
            assert_eq!(way(&noise, &effort), Way::Stored);
            assert_eq!(way(&skewed, &effort), Way::Runs);
            assert_eq!(way(&repeated, &effort), Way::Search);
            assert_eq!(way(&afar, &effort), Way::Search);
            assert_eq!(way(&farthest, &effort), Way::Search);
            assert_eq!(way(&partly, &effort), Way::Search);
            assert_eq!(way(&[5; 100_000], &effort), Way::Runs);
            assert_eq!(way(&[1], &effort), Way::Runs);
            assert_eq!(way(&[], &effort), Way::Runs);
            assert_eq!(way(&framed, &effort), Way::Runs);
        }
    }

    #[test]
    fn quick_levels_store_what_codes_hardly_shrink() {
        let mut random = Random::new(2);
        let nearly_noise: Vec<u8> = (0..100_000).map(|_| random.bits().to_le_bytes()[3] % 240).collect();
        assert_eq!(way(&nearly_noise, &Effort::of(1)), Way::Stored);
        assert_eq!(way(&nearly_noise, &Effort::of(5)), Way::Runs);
    }

    #[test]
    fn bytes_in_common_are_those_that_a_look_at_each_finds() {
        for length in 0..300 {
            for differs in 0..=length {
                let bytes = vec![7; length];
                let mut before = vec![7; 300];
                before[differs.min(299)] = 8;
                assert_eq!(common(&before, &bytes), differs.min(length).min(LONGEST), "{differs} of {length}");
            }
        }
    }
}
