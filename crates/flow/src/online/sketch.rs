//! A look at a few hundred elements of a chunk: enough to tell kinds of chunks apart, cheap enough for every chunk.

use knarr_array::array::{ArraySpec, Endian};
use knarr_choose::numbers::{NumberOrder, zigzag};

/// Consecutive elements looked at together.
const RUN: usize = 32;
/// One run for so many elements: the look costs a small part of a percent of encoding.
const ELEMENTS_PER_RUN: usize = 8192;
const FEWEST_RUNS: usize = 6;
const MOST_RUNS: usize = 32;
/// Differences from which chunks are of another kind: in fractions of the elements, and of the bits of one.
const OTHER_SHARE: f64 = 0.3;
const OTHER_BITS: f64 = 0.12;

/// Means over the elements looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sketch {
    /// Share equal to the element before.
    repeats: f64,
    /// Share of fill and non-finite values.
    missing: f64,
    /// Bits of the difference to the element before, as a share of the element's bits.
    steps: f64,
    /// Trailing zero bits, as a share of the element's bits.
    zeros: f64,
}

impl Sketch {
    /// Looks at `raw`, one chunk of `spec`. Elements that are no numbers are looked at as bytes.
    #[expect(clippy::cast_precision_loss, reason = "counts of a few hundred elements")]
    pub(super) fn of(spec: &ArraySpec, raw: &[u8]) -> Self {
        let bytes = ArraySpec::new(knarr_array::array::DType::U8, [raw.len()]);
        let spec = if spec.dtype.is_number() { spec } else { &bytes };
        let size = spec.dtype.size();
        let order = NumberOrder::of(spec);
        let count = raw.len() / size;
        let runs = (count / ELEMENTS_PER_RUN).clamp(FEWEST_RUNS, MOST_RUNS);
        let (mut looked_at, mut repeats, mut missing, mut steps, mut zeros) = (0usize, 0u32, 0u32, 0u32, 0u32);
        for run in 0..runs {
            let begin = count.saturating_sub(RUN) / (runs - 1) * run;
            let elements = raw.chunks_exact(size).skip(begin).take(RUN);
            let mut previous = None;
            for word in elements.map(|element| word(element, spec.endian)) {
                if let Some(previous) = previous {
                    looked_at += 1;
                    repeats += u32::from(previous == word);
                    missing += u32::from(spec.fills.contains(&word) || !order.value(word).is_finite());
                    steps += 64 - zigzag(order.rank(word).wrapping_sub(order.rank(previous)), size).leading_zeros();
                    zeros += word.trailing_zeros().min(8 * u32::try_from(size).unwrap_or(8));
                }
                previous = Some(word);
            }
        }
        let total = looked_at.max(1) as f64;
        let bits = total * (8 * size) as f64;
        Self {
            repeats: f64::from(repeats) / total,
            missing: f64::from(missing) / total,
            steps: f64::from(steps) / bits,
            zeros: f64::from(zeros) / bits,
        }
    }

    /// How far apart two chunks are; from 1 on they are of different kinds.
    pub(super) fn distance(&self, other: &Self) -> f64 {
        [
            (self.repeats - other.repeats) / OTHER_SHARE,
            (self.missing - other.missing) / OTHER_SHARE,
            (self.steps - other.steps) / OTHER_BITS,
            (self.zeros - other.zeros) / OTHER_BITS,
        ]
        .into_iter()
        .fold(0.0, |most, difference| f64::max(most, difference.abs()))
    }
}

fn word(element: &[u8], endian: Endian) -> u64 {
    let put = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
    match endian {
        Endian::Little => element.iter().rev().fold(0, put),
        Endian::Big => element.iter().fold(0, put),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::{DType, swap_bytes};

    fn floats(values: impl Iterator<Item = f32>) -> Vec<u8> {
        values.flat_map(f32::to_le_bytes).collect()
    }

    #[test]
    fn kinds_of_chunks_are_told_apart_and_one_kind_is_not() {
        let spec = ArraySpec::new(DType::F32, [60_000]);
        let smooth = |shift: f32| floats((0..60_000u16).map(move |i| 280.0 + (f32::from(i) * 1e-3 + shift).sin()));
        let masked = floats((0..60_000u16).map(|i| if i / 100 % 2 == 0 { 1e20 } else { f32::from(i).sqrt() }));
        let rounded = floats((0..60_000u16).map(|i| f32::from(i % 251)));
        let sketch = |raw: &[u8]| Sketch::of(&spec, raw);
        assert!(sketch(&smooth(0.0)).distance(&sketch(&smooth(2.0))) < 0.5);
        for (a, b) in [(&smooth(0.0), &masked), (&smooth(0.0), &rounded), (&masked, &rounded)] {
            assert!(sketch(a).distance(&sketch(b)) >= 1.0);
        }
    }

    #[test]
    fn byte_order_does_not_matter_and_nothing_is_no_problem() {
        let spec = ArraySpec::new(DType::F32, [999]);
        let big = ArraySpec { endian: Endian::Big, ..spec.clone() };
        let raw = floats((0..999u16).map(|i| f32::from(i).ln()));
        let mut swapped = raw.clone();
        swap_bytes(&mut swapped, 4);
        assert_eq!(Sketch::of(&spec, &raw), Sketch::of(&big, &swapped));
        for raw in [&raw[..0], &raw[..4], &raw[..3]] {
            assert_eq!(Sketch::of(&spec, raw).repeats, 0.0);
        }
    }
}
