//! What histograms of bytes do not see: repeats of whole elements and of runs of bytes, bits that flip, and how well
//! a plane through neighbours predicts. Looked at in a few bands of a sample.

use super::{byte, entropy};
use crate::numbers::{NumberOrder, zigzag};
use knarr_array::array::ArraySpec;

/// Elements looked at, in bands spread over the sample.
const ELEMENTS: usize = 16 << 10;
const BANDS: usize = 4;
/// Bytes of a plane that count as a match when they occur again: the shortest that compressors use.
const MATCH: usize = 4;
/// Slots of a table of what occurred, as a power of two: small enough to stay in a processor's near cache.
const TABLE_BITS: u32 = 14;

/// What [`structure`] finds, per element.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Structure {
    pub(super) element_entropy: f64,
    pub(super) pair_repeats: f64,
    pub(super) plane_matches: f64,
    pub(super) byte_delta_entropy: f64,
    pub(super) flip_entropy: f64,
    pub(super) plane_bits: f64,
}

/// Looks at `words`, the elements of an array of `spec`.
#[expect(clippy::cast_precision_loss, reason = "counts of a sample are far below 2^52")]
pub(super) fn structure(spec: &ArraySpec, words: &[u64], order: &NumberOrder) -> Structure {
    let size = spec.dtype.size();
    let bands = bands(words);
    let count = bands.iter().map(|band| band.len()).sum::<usize>().max(1) as f64;
    Structure {
        element_entropy: element_entropy(&bands),
        pair_repeats: pair_repeats(&bands) as f64 / count,
        plane_matches: plane_matches(&bands, size) as f64 / (count * size as f64),
        byte_delta_entropy: byte_delta_entropy(&bands, size),
        flip_entropy: flip_entropy(&bands, size),
        plane_bits: plane_bits(spec, words, order),
    }
}

/// Parts of equal length spread over `words`, or all of them.
fn bands(words: &[u64]) -> Vec<&[u64]> {
    if words.len() <= ELEMENTS {
        return vec![words];
    }
    words.chunks(words.len().div_ceil(BANDS)).map(|part| &part[..part.len().min(ELEMENTS / BANDS)]).collect()
}

/// Order-0 entropy of whole elements, bits.
#[expect(clippy::cast_precision_loss, reason = "counts of a sample are far below 2^52")]
fn element_entropy(bands: &[&[u64]]) -> f64 {
    let mut sorted = bands.concat();
    sorted.sort_unstable();
    let count = sorted.len().max(1) as f64;
    // Most elements occur as often as the one before.
    let mut last = (0, 0.0);
    let mut bits = |group: &[u64]| {
        if group.len() != last.0 {
            let share = group.len() as f64 / count;
            last = (group.len(), -share * share.log2());
        }
        last.1
    };
    sorted.chunk_by(|a, b| a == b).map(&mut bits).sum::<f64>().max(0.0)
}

/// What occurred before, by hash. Two things that share a slot forget each other.
struct Seen {
    slots: Vec<u32>,
    /// Part of every tag: nothing is found again that occurred under another one.
    salt: u32,
}

impl Seen {
    fn new() -> Self {
        Self { slots: vec![0; 1 << TABLE_BITS], salt: 0 }
    }

    /// Nothing occurred yet. To clear the table would take longer than to look at a small sample.
    fn forget(&mut self) {
        self.salt = self.salt.wrapping_add(0x9E37_79B9);
    }

    /// True if `key` was the last of its slot; keeps it.
    #[expect(clippy::cast_possible_truncation, reason = "the middle bits of a hash, and a slot below the table's size")]
    fn again(&mut self, key: u64) -> bool {
        let hash = (key ^ 0xA5A5_A5A5).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (slot, tag) = ((hash >> (64 - TABLE_BITS)) as usize, (hash >> 16) as u32 ^ self.salt);
        self.slots.get_mut(slot).is_some_and(|kept| std::mem::replace(kept, tag) == tag)
    }
}

/// Elements that came after the same element before.
fn pair_repeats(bands: &[&[u64]]) -> usize {
    let mut seen = Seen::new();
    let key = |pair: &[u64; 2]| pair[0].rotate_left(31).wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ pair[1];
    bands.iter().flat_map(|band| band.array_windows::<2>()).filter(|pair| seen.again(key(pair))).count()
}

/// Positions of all byte planes at which [`MATCH`] bytes occur that occurred in that plane before.
fn plane_matches(bands: &[&[u64]], size: usize) -> usize {
    let mut matches = 0;
    let mut seen = Seen::new();
    for plane in 0..size {
        seen.forget();
        for band in bands {
            let mut last = 0u64;
            for (at, &word) in band.iter().enumerate() {
                last = (last << 8 | byte(word, plane) as u64) & ((1 << (8 * MATCH)) - 1);
                matches += usize::from(at + 1 >= MATCH && seen.again(last));
            }
        }
    }
    matches
}

/// Order-0 entropies of the differences of neighbouring bytes of each plane, together, bits.
fn byte_delta_entropy(bands: &[&[u64]], size: usize) -> f64 {
    let of_plane = |plane: usize| {
        let mut histogram = [0u32; 256];
        for pair in bands.iter().flat_map(|band| band.array_windows::<2>()) {
            histogram[byte(pair[1], plane).wrapping_sub(byte(pair[0], plane)) & 0xFF] += 1;
        }
        entropy(&histogram)
    };
    (0..size).map(of_plane).sum()
}

/// Entropies of "differs from the element before" of each bit, together, bits.
#[expect(clippy::cast_precision_loss, reason = "counts of a sample are far below 2^52")]
fn flip_entropy(bands: &[&[u64]], size: usize) -> f64 {
    let mut flips = [0u32; 64];
    let mut pairs = 0usize;
    for pair in bands.iter().flat_map(|band| band.array_windows::<2>()) {
        pairs += 1;
        let mut changed = pair[0] ^ pair[1];
        while changed != 0 {
            flips[changed.trailing_zeros() as usize] += 1;
            changed &= changed - 1;
        }
    }
    let bits = |&flips: &u32| {
        let share = f64::from(flips) / pairs.max(1) as f64;
        [share, 1.0 - share].into_iter().filter(|&p| p > 0.0).map(|p| -p * p.log2()).sum::<f64>()
    };
    flips.iter().take(8 * size).map(bits).sum()
}

/// Mean bits of what a plane through three neighbours along the two fastest axes leaves; all bits of an element where
/// there is one axis.
#[expect(clippy::cast_precision_loss, reason = "counts of a sample are far below 2^52")]
fn plane_bits(spec: &ArraySpec, words: &[u64], order: &NumberOrder) -> f64 {
    let size = spec.dtype.size();
    // (extent, distance of neighbours) of the two fastest axes that have neighbours.
    let mut distance = 1usize;
    let mut axes = spec.shape.iter().rev().filter_map(|&extent| {
        let axis = (extent, distance);
        distance = distance.saturating_mul(extent.max(1));
        (extent > 1).then_some(axis)
    });
    let (Some((columns, column)), Some((rows, row))) = (axes.next(), axes.next()) else { return (8 * size) as f64 };
    let step = (words.len() / 8192).max(1);
    let (mut sum, mut count) = (0u64, 0u64);
    let rank = |at: usize| order.rank(words[at]);
    for at in (row + column..words.len()).step_by(step) {
        if !(at / column).is_multiple_of(columns) && !(at / row).is_multiple_of(rows) {
            let expected = rank(at - column).wrapping_add(rank(at - row)).wrapping_sub(rank(at - row - column));
            let left = zigzag(rank(at).wrapping_sub(expected), size);
            sum += u64::from(64 - left.leading_zeros());
            count += 1;
        }
    }
    if count == 0 { (8 * size) as f64 } else { sum as f64 / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;

    fn look(shape: &[usize], words: &[u64]) -> Structure {
        let spec = ArraySpec::new(DType::U32, shape.to_vec());
        structure(&spec, words, &NumberOrder::of(&spec))
    }

    #[test]
    fn repeats_of_elements_are_seen_where_their_bytes_are_not() {
        // A period of 1000 elements whose bytes are as good as random.
        let mixed = |i: u64| {
            let once = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (once ^ (once >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
        };
        let period: Vec<u64> = (0..16_000).map(|i| mixed(i % 1000)).collect();
        let random: Vec<u64> = (0..16_000).map(mixed).collect();
        let (period, random) = (look(&[16_000], &period), look(&[16_000], &random));
        assert!((period.element_entropy - 1000f64.log2()).abs() < 0.01, "{period:?}");
        // One of sixteen periods is new, and a few pairs share a slot.
        assert!(period.pair_repeats > 0.8 && period.plane_matches > 0.8, "{period:?}");
        assert!(random.element_entropy > 13.9, "{random:?}");
        assert!(random.pair_repeats < 0.01 && random.plane_matches < 0.05, "{random:?}");
    }

    #[test]
    fn a_slope_is_no_surprise() {
        let slope: Vec<u64> = (0..10_000).map(|i| 5_000_000 + 7 * (i / 100) + 300 * (i % 100)).collect();
        let slope = look(&[100, 100], &slope);
        assert!(slope.plane_bits < 0.01, "{slope:?}");
        assert!(slope.byte_delta_entropy < 6.0 && slope.flip_entropy < 16.0, "{slope:?}");
        assert_eq!(look(&[3], &[1, 2, 3]).plane_bits, 32.0);
    }

    #[test]
    fn nothing_is_no_problem() {
        for words in [&[][..], &[5]] {
            let found = look(&[words.len()], words);
            assert_eq!((found.element_entropy, found.pair_repeats, found.flip_entropy), (0.0, 0.0, 0.0));
        }
    }
}
