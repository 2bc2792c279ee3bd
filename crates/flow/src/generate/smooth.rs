//! Simplex noise over the last axes of an array: what the smooth patterns and masks are made of.

use noise::{NoiseFn, Simplex};

use super::random::Stream;

/// Axes that noise is coherent along, at most: what the library offers.
const MOST_AXES: usize = 4;
/// Coordinates begin again here, so that none is too large for the library. No axis is as long in practice.
const LONGEST: u64 = 1 << 40;
/// The library's lattice repeats after so many cells; further axes are sampled at random places of it.
const PERIOD: f64 = 256.0;

/// Noise in [-1, 1] that changes over about `scale` elements. It is coherent along at most the last `axes` axes;
/// along the ones further out each step has noise of its own.
pub(super) struct Smooth {
    noise: Simplex,
    places: Stream,
    /// Axes further out.
    outer: Vec<u64>,
    axes: usize,
    scale: f64,
}

impl Smooth {
    /// Noise for elements of an array of shape `shape`. With `scale` 0 a quarter of the longest coherent axis serves.
    pub(super) fn new(seed: u64, shape: &[u64], axes: usize, scale: f64) -> Self {
        let axes = axes.min(MOST_AXES).min(shape.len());
        let (outer, inner) = shape.split_at(shape.len() - axes);
        let longest = inner.iter().copied().max().unwrap_or(1);
        let scale = if scale > 0.0 { scale } else { (longest as f64 / 4.0).max(2.0) };
        let places = Stream::new(seed, "simplex");
        #[expect(clippy::cast_possible_truncation, reason = "any 32 of the bits are a seed")]
        let noise = Simplex::new(places.bits(0) as u32);
        Self { noise, places, outer: outer.to_vec(), axes, scale }
    }

    /// Place of the element at `index` in units of features. All of `index` but the last axis may be shared by calls.
    pub(super) fn place(&self, index: &[u64]) -> GridPoint {
        let outer: u64 = self.outer.iter().zip(index).fold(0, |sum, (n, i)| sum.wrapping_mul(*n).wrapping_add(*i));
        let own = self.places.of(outer);
        let mut at = [0.0; MOST_AXES];
        for (axis, place) in at.iter_mut().enumerate() {
            let inner = index.get(self.outer.len() + axis).copied().unwrap_or(0);
            *place = own.between(axis as u64 + 1, 0.0, PERIOD) + self.features(inner);
        }
        GridPoint { at, along: self.axes.saturating_sub(1), base: own.between(self.axes as u64, 0.0, PERIOD) }
    }

    /// Elements in units of features.
    fn features(&self, elements: u64) -> f64 {
        (elements % LONGEST) as f64 / self.scale
    }

    /// The place with its position along the last axis replaced.
    pub(super) fn along(&self, place: &GridPoint, position: u64) -> GridPoint {
        let mut moved = *place;
        if self.axes > 0
            && let Some(last) = moved.at.get_mut(place.along)
        {
            *last = place.base + self.features(position);
        }
        moved
    }

    /// Noise at a place; `frequency` makes features smaller.
    pub(super) fn value(&self, place: &GridPoint, frequency: f64) -> f64 {
        let [a, b, c, d] = place.at.map(|x| x * frequency);
        let value = match self.axes {
            0..=2 => self.noise.get([a, b]),
            3 => self.noise.get([a, b, c]),
            _ => self.noise.get([a, b, c, d]),
        };
        value.clamp(-1.0, 1.0)
    }

    /// The sum of `octaves` of noise, each of twice the frequency and `gain` times the height of the one before, in
    /// [-1, 1].
    pub(super) fn octaves(&self, place: &GridPoint, octaves: u32, gain: f64, shape: Octave) -> f64 {
        let (mut sum, mut height, mut most, mut frequency) = (0.0, 1.0, 0.0, 1.0);
        for _ in 0..octaves {
            let value = self.value(place, frequency);
            sum += height
                * match shape {
                    Octave::Plain => value,
                    Octave::Folded => 2.0 * value.abs() - 1.0,
                    Octave::Ridged => 1.0 - 2.0 * value.abs(),
                };
            most += height;
            height *= gain;
            frequency *= 2.0;
        }
        if most > 0.0 { sum / most } else { 0.0 }
    }
}

/// What becomes of an octave before it is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Octave {
    /// Nothing: fractional Brownian motion.
    Plain,
    /// Its size counts: turbulence, with creases at zero.
    Folded,
    /// The reverse: sharp ridges.
    Ridged,
}

/// Where an element lies in the noise.
#[derive(Debug, Clone, Copy)]
pub(super) struct GridPoint {
    at: [f64; MOST_AXES],
    /// The coordinate of the last axis.
    along: usize,
    /// Coordinate of element 0 along it.
    base: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_smooth_along_inner_axes_and_unlike_along_outer_ones() {
        let smooth = Smooth::new(3, &[2, 40, 40], 2, 10.0);
        let at = |index: &[u64]| smooth.value(&smooth.place(index), 1.0);
        let mut apart: f64 = 0.0;
        for y in 0..39 {
            for x in 0..39 {
                assert!((at(&[0, y, x]) - at(&[0, y, x + 1])).abs() < 0.5);
                assert!((at(&[0, y, x]) - at(&[0, y + 1, x])).abs() < 0.5);
                apart = apart.max((at(&[0, y, x]) - at(&[1, y, x])).abs());
            }
        }
        assert!(apart > 0.5, "{apart}");
    }

    #[test]
    fn a_place_moved_is_the_place_itself() {
        for shape in [&[][..], &[9], &[4, 9], &[2, 3, 4, 9], &[2, 2, 3, 4, 9]] {
            let smooth = Smooth::new(3, shape, 4, 2.5);
            let mut index = vec![1; shape.len()];
            let row = smooth.place(&index);
            for x in 0..9 {
                if let Some(last) = index.last_mut() {
                    *last = x;
                    assert_eq!(smooth.along(&row, x).at, smooth.place(&index).at, "{shape:?}");
                }
            }
            assert!(smooth.value(&row, 1.0).abs() <= 1.0);
        }
        let far = Smooth::new(3, &[u64::MAX], 1, 0.5);
        assert!(far.octaves(&far.place(&[u64::MAX - 1]), 10, 0.5, Octave::Plain).abs() <= 1.0);
    }
}
