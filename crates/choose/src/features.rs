//! What analysis found in a sample of a variable: the input of prediction, and what `knarr explain` shows.

mod structure;

use serde::{Deserialize, Serialize};

use crate::numbers::{NumberOrder, zigzag};
use knarr_array::array::{ArraySpec, Endian, swap_bytes};

/// Shape of the distribution of values, the first description a person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// One value.
    Constant,
    /// At most 256 distinct values in the sample.
    Few,
    /// At least a twentieth of the elements are fill values or repeat their predecessor's bits.
    Masked,
    /// Neighbours predict each other well.
    Smooth,
    /// None of these.
    #[default]
    Rough,
}

/// Features of a sample. Fractions are between 0 and 1; entropies in bits per byte.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Features {
    /// Elements looked at.
    pub elements: u64,
    /// Distribution class.
    pub class: Class,
    /// Fraction of elements equal to a fill value.
    pub fill: f64,
    /// Fraction of NaN and ±Inf.
    pub non_finite: f64,
    /// Smallest and largest finite value that is not fill; absent for opaque types and empty samples.
    pub range: Option<(f64, f64)>,
    /// Fraction of elements whose bits equal their predecessor's.
    pub repeats: f64,
    /// Distinct values over elements, in the first 4096 elements.
    pub distinct: f64,
    /// Zero bits at the low end that all elements share; all bits of the element for a zero sample.
    pub trailing_zeros: u32,
    /// Order-0 entropy of each byte plane, most significant first.
    pub plane_entropy: Vec<f64>,
    /// Order-0 entropy of each byte plane after the difference to the previous element along the last axis.
    pub delta_entropy: Vec<f64>,
    /// Mean bits of the order-preserving difference to the neighbour, per axis, slowest first.
    pub axis_bits: Vec<f64>,
    /// Mean bits of what a plane through neighbours along the two fastest axes leaves; all bits of the element where
    /// there is one axis.
    pub plane_bits: f64,
    /// Order-0 entropy of whole elements, bits per element, in a few thousand elements.
    pub element_entropy: f64,
    /// Fraction of elements that came after the same element before.
    pub pair_repeats: f64,
    /// Fraction of positions in byte planes where four bytes occur that occurred in that plane before.
    pub plane_matches: f64,
    /// Order-0 entropies of the differences of neighbouring bytes of each byte plane, together, bits per element.
    pub byte_delta_entropy: f64,
    /// Entropies of "differs from the element before" of each bit, together, bits per element.
    pub flip_entropy: f64,
}

impl Features {
    /// Analyses one sample in stored byte order. The cost is linear, about a copy through a byte histogram.
    pub fn of(spec: &ArraySpec, bytes: &[u8]) -> Self {
        let size = spec.dtype.size();
        let mut values = bytes.to_vec();
        if spec.endian == Endian::Big && spec.dtype.is_number() {
            swap_bytes(&mut values, size);
        }
        if !spec.dtype.is_number() {
            return Self::of_bytes(&values, size);
        }
        let words: Vec<u64> = match size {
            1 => values.iter().map(|&b| u64::from(b)).collect(),
            2 => values.as_chunks::<2>().0.iter().map(|&b| u64::from(u16::from_le_bytes(b))).collect(),
            4 => values.as_chunks::<4>().0.iter().map(|&b| u64::from(u32::from_le_bytes(b))).collect(),
            _ => values.as_chunks::<8>().0.iter().map(|&b| u64::from_le_bytes(b)).collect(),
        };
        Self::of_words(spec, &words)
    }

    fn of_bytes(bytes: &[u8], size: usize) -> Self {
        let mut histogram = [0u32; 256];
        bytes.iter().for_each(|&b| histogram[usize::from(b)] += 1);
        let entropy = entropy(&histogram);
        Self {
            elements: (bytes.len() / size.max(1)) as u64,
            class: if entropy == 0.0 { Class::Constant } else { Class::Rough },
            plane_entropy: vec![entropy],
            delta_entropy: vec![entropy],
            ..Self::default()
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a sample are far below 2^52")]
    fn of_words(spec: &ArraySpec, words: &[u64]) -> Self {
        let size = spec.dtype.size();
        let count = words.len().max(1) as f64;
        let mut features = Self { elements: words.len() as u64, ..Self::default() };
        let order = NumberOrder::of(spec);
        let (mut fills, mut non_finite, mut repeats, mut all) = (0u64, 0u64, 0u64, 0u64);
        let mut planes = vec![[0u32; 256]; size];
        let mut deltas = vec![[0u32; 256]; size];
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut previous: Option<u64> = None;
        for &word in words {
            let is_fill = spec.fills.contains(&word);
            let value = order.value(word);
            if is_fill {
                fills += 1;
            } else if value.is_finite() {
                low = low.min(value);
                high = high.max(value);
            } else {
                non_finite += 1;
            }
            all |= word;
            let delta = order.rank(word).wrapping_sub(previous.map_or(0, |word| order.rank(word)));
            for (plane, histogram) in planes.iter_mut().enumerate() {
                histogram[byte(word, plane)] += 1;
            }
            for (plane, histogram) in deltas.iter_mut().enumerate() {
                histogram[byte(zigzag(delta, size), plane)] += 1;
            }
            repeats += u64::from(previous == Some(word));
            previous = Some(word);
        }
        features.fill = fills as f64 / count;
        features.non_finite = non_finite as f64 / count;
        features.repeats = repeats as f64 / count;
        features.range = (low <= high).then_some((low, high));
        let bits = u32::try_from(size * 8).unwrap_or(64);
        features.trailing_zeros = all.trailing_zeros().min(bits);
        let mut first: Vec<u64> = words.iter().take(4096).copied().collect();
        let looked_at = first.len().max(1) as f64;
        first.sort_unstable();
        first.dedup();
        features.distinct = first.len() as f64 / looked_at;
        features.plane_entropy = planes.iter().rev().map(entropy).collect();
        features.delta_entropy = deltas.iter().rev().map(entropy).collect();
        features.axis_bits = axis_bits(spec, words, &order);
        let found = structure::structure(spec, words, &order);
        features.plane_bits = found.plane_bits;
        features.element_entropy = found.element_entropy;
        features.pair_repeats = found.pair_repeats;
        features.plane_matches = found.plane_matches;
        features.byte_delta_entropy = found.byte_delta_entropy;
        features.flip_entropy = found.flip_entropy;
        features.class = features.classify(first.len(), size);
        features
    }

    fn classify(&self, distinct: usize, size: usize) -> Class {
        if distinct <= 1 && self.repeats > 0.99 {
            Class::Constant
        } else if distinct <= 256 && size > 1 {
            Class::Few
        } else if self.fill >= 0.05 || self.repeats >= 0.05 {
            Class::Masked
        } else if self.delta_entropy.iter().sum::<f64>() < 0.85 * self.plane_entropy.iter().sum::<f64>() {
            Class::Smooth
        } else {
            Class::Rough
        }
    }

    /// Joins the features of two samples of one variable, weighted by their elements.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of a sample are far below 2^52")]
    pub fn merge(self, other: &Self) -> Self {
        let total = (self.elements + other.elements).max(1) as f64;
        let (a, b) = (self.elements as f64 / total, other.elements as f64 / total);
        let mean = |x: f64, y: f64| a * x + b * y;
        let means = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(&x, &y)| mean(x, y)).collect();
        Self {
            elements: self.elements + other.elements,
            class: if self.class == Class::Constant { other.class } else { self.class },
            fill: mean(self.fill, other.fill),
            non_finite: mean(self.non_finite, other.non_finite),
            range: match (self.range, other.range) {
                (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
                (range, None) | (None, range) => range,
            },
            repeats: mean(self.repeats, other.repeats),
            distinct: mean(self.distinct, other.distinct),
            trailing_zeros: self.trailing_zeros.min(other.trailing_zeros),
            plane_entropy: means(&self.plane_entropy, &other.plane_entropy),
            delta_entropy: means(&self.delta_entropy, &other.delta_entropy),
            axis_bits: means(&self.axis_bits, &other.axis_bits),
            plane_bits: mean(self.plane_bits, other.plane_bits),
            element_entropy: mean(self.element_entropy, other.element_entropy),
            pair_repeats: mean(self.pair_repeats, other.pair_repeats),
            plane_matches: mean(self.plane_matches, other.plane_matches),
            byte_delta_entropy: mean(self.byte_delta_entropy, other.byte_delta_entropy),
            flip_entropy: mean(self.flip_entropy, other.flip_entropy),
        }
    }
}

fn byte(word: u64, plane: usize) -> usize {
    usize::from(word.to_le_bytes().get(plane).copied().unwrap_or(0))
}

fn entropy(histogram: &[u32; 256]) -> f64 {
    let total: f64 = histogram.iter().map(|&count| f64::from(count)).sum();
    if total == 0.0 {
        return 0.0;
    }
    let sum: f64 = histogram
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| f64::from(count) / total * (f64::from(count) / total).log2())
        .sum();
    (-sum).max(0.0)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a sample are far below 2^52")]
fn axis_bits(spec: &ArraySpec, words: &[u64], order: &NumberOrder) -> Vec<f64> {
    let size = spec.dtype.size();
    let mut stride = 1usize;
    let mut bits: Vec<f64> = spec
        .shape
        .iter()
        .rev()
        .map(|&extent| {
            let distance = stride;
            stride = stride.saturating_mul(extent.max(1));
            let (mut sum, mut count) = (0u64, 0u64);
            // A few thousand neighbours say enough.
            let step = (words.len() / 8192).max(1);
            for index in (distance..words.len()).step_by(step) {
                if extent > 1 && !(index / distance).is_multiple_of(extent) {
                    let delta = order.rank(words[index]).wrapping_sub(order.rank(words[index - distance]));
                    sum += u64::from(64 - zigzag(delta, size).leading_zeros());
                    count += 1;
                }
            }
            if count == 0 { (size * 8) as f64 } else { sum as f64 / count as f64 }
        })
        .collect();
    bits.reverse();
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;

    fn floats(values: impl Iterator<Item = f32>) -> (ArraySpec, Vec<u8>) {
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        (ArraySpec::new(DType::F32, [bytes.len() / 4]), bytes)
    }

    #[test]
    fn classes_are_what_their_names_say() {
        let class = |values: Vec<f32>| {
            let (spec, bytes) = floats(values.into_iter());
            Features::of(&spec, &bytes).class
        };
        assert_eq!(class(vec![7.5; 5000]), Class::Constant);
        assert_eq!(class((0..5000u16).map(|i| f32::from(i % 7)).collect()), Class::Few);
        assert_eq!(class((0..50000u16).map(|i| 300.0 + (f32::from(i) * 0.001).sin()).collect()), Class::Smooth);
        assert_eq!(class((0..5000u16).map(|i| if i % 9 < 3 { 0.0 } else { f32::from(i) }).collect()), Class::Masked);
    }

    #[test]
    fn fills_specials_and_range_are_counted() {
        let (mut spec, bytes) = floats([1e20, 1.0, -2.0, f32::NAN, 1e20, f32::INFINITY, 3.0, 3.0].into_iter());
        spec.fills.push(u64::from(1e20f32.to_bits()));
        let features = Features::of(&spec, &bytes);
        assert_eq!(features.fill, 0.25);
        assert_eq!(features.non_finite, 0.25);
        assert_eq!(features.range, Some((-2.0, 3.0)));
        assert_eq!(features.repeats, 0.125);
    }

    #[test]
    fn byte_order_does_not_change_features() {
        let (mut spec, mut bytes) = floats((0..999u16).map(|i| f32::from(i).sqrt()));
        let little = Features::of(&spec, &bytes);
        spec.endian = Endian::Big;
        swap_bytes(&mut bytes, 4);
        assert_eq!(Features::of(&spec, &bytes), little);
    }
}
