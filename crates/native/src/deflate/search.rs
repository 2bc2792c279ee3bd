//! Which way suits a region of bytes, from a quick look at a part of it.

use super::stretch::Stretch;

/// Bytes that are looked at, within DEFLATE's window.
const SAMPLE: usize = 16 << 10;
/// Places, besides the sample, that must be noise as well before a region is stored.
const PLACES: usize = 8;
/// Bits per byte above which bytes are stored: prefix codes gain less than half a per cent.
const NOISE: f32 = 7.965;
const SLOTS: usize = 1 << 12;
const SHORTEST: usize = 3;
const LONGEST: usize = 258;
/// Bits of a match besides its distance: a length symbol and a distance symbol of a usual block, less one.
const MATCH_BITS: f32 = 12.0;

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

/// The way for `region`; a search must shrink it by the part `least_gain` at least.
pub(super) fn way(region: &[u8], least_gain: f32) -> Way {
    let sample = middle(region, SAMPLE);
    let stretch = Stretch::read(sample, 0, sample.len());
    let before = stretch.bits_before(sample);
    let total = before.last().copied().unwrap_or(0.0);
    if gain(sample, &before) > least_gain * total {
        Way::Search
    } else if total > NOISE * as_bits(sample.len()) && is_noise_elsewhere(region) {
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

fn is_noise_elsewhere(region: &[u8]) -> bool {
    let places: Vec<u8> = region
        .chunks(region.len().div_ceil(PLACES).max(1))
        .flat_map(|place| middle(place, SAMPLE / PLACES).iter().copied())
        .collect();
    Stretch::read(&places, 0, places.len()).bits() > NOISE * as_bits(places.len())
}

/// Bits that matches other than runs save, about. `before` are the bits of all bytes before each one without them.
fn gain(bytes: &[u8], before: &[f32]) -> f32 {
    let mut last = [0u16; SLOTS];
    let mut gain = 0.0;
    let mut next = 1;
    while let Some(&[a, b, c, ..]) = bytes.get(next..) {
        let at = next;
        next += 1;
        let word = u32::from_le_bytes([a, b, c, 0]);
        let slot = &mut last[(word.wrapping_mul(0x9E37_79B1) >> 20) as usize];
        let candidate = usize::from(*slot);
        *slot = u16::try_from(at).unwrap_or(0);
        if candidate == 0 || bytes[candidate..candidate + SHORTEST] != [a, b, c] {
            continue;
        }
        let length = bytes[at..].iter().zip(&bytes[candidate..]).take(LONGEST).take_while(|(x, y)| x == y).count();
        let distance = at - candidate;
        let saved = before[at + length] - before[at] - MATCH_BITS - as_bits(distance).log2();
        if distance == 1 || saved > 0.0 {
            next = at + length;
        }
        if distance > 1 && saved > 0.0 {
            gain += saved;
        }
    }
    gain
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_core::testing::data::Random;

    #[test]
    fn ways_are_told_apart() {
        let mut random = Random::new(1);
        let noise: Vec<u8> = (0..100_000).map(|_| random.bits().to_le_bytes()[3]).collect();
        assert_eq!(way(&noise, 0.02), Way::Stored);
        let skewed: Vec<u8> = noise.iter().map(|byte| byte & (byte >> 4)).collect();
        assert_eq!(way(&skewed, 0.02), Way::Runs);
        let repeated: Vec<u8> = noise[..5000].iter().copied().cycle().take(100_000).collect();
        assert_eq!(way(&repeated, 0.02), Way::Search);
        assert_eq!(way(&[5; 100_000], 0.02), Way::Runs);
        assert_eq!(way(&[1], 0.02), Way::Runs);
        // Noise in the middle alone is not stored with the rest.
        let mut framed = vec![0; 100_000];
        framed.extend_from_slice(&noise[..50_000]);
        framed.extend_from_slice(&[0; 100_000]);
        assert_eq!(way(&framed, 0.02), Way::Runs);
    }
}
