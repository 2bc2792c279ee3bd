//! Missing values: which elements of a generated variable have the fill value.

use std::fmt;
use std::str::FromStr;

use super::random::Stream;
use super::smooth::{Octave, Smooth};
use super::spec::{kind_and_number, kind_names, kind_text};
use knarr_array::error::{Error, Result};

/// Where values are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillKind {
    /// At random points.
    Points,
    /// In connected regions of the last two axes, the same for all steps of the others, as land is for an ocean.
    Region,
}

/// The kinds by name; the first is meant where none is named.
const KINDS: [(&str, FillKind); 2] = [("points", FillKind::Points), ("region", FillKind::Region)];

/// Missing values of a kind, written `KIND:FRACTION` or `FRACTION` alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fill {
    /// Where they are.
    pub kind: FillKind,
    /// Fraction of the elements, 0 to 1.
    pub fraction: f64,
}

impl FromStr for Fill {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        kind_and_number(text, &KINDS)
            .filter(|(_, fraction)| (0.0..=1.0).contains(fraction))
            .map(|(kind, fraction)| Self { kind, fraction })
            .ok_or_else(|| {
                Error::usage(format!("'{text}' is not a fraction of missing values")).hint(format!(
                    "write a fraction from 0 to 1, or its kind before it ({}): region:0.3",
                    kind_names(&KINDS)
                ))
            })
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&kind_text(&self.kind, self.fraction, &KINDS))
    }
}

/// Places of the plane that the height of a coast is found from, at most.
const LOOKED_AT: u64 = 1 << 14;
/// Octaves of a coast.
const COAST: u32 = 4;

/// Missing values of one variable.
pub(super) enum Missing {
    Points {
        stream: Stream,
        fraction: f64,
    },
    Region {
        land: Box<Smooth>,
        /// Elements where noise is below this are missing.
        below: f64,
        /// Axes that do not matter.
        skip: usize,
    },
}

impl Missing {
    /// Missing values of a variable of this shape.
    pub(super) fn new(fill: Fill, seed: u64, shape: &[u64]) -> Self {
        match fill.kind {
            FillKind::Points => Self::Points { stream: Stream::new(seed, "missing"), fraction: fill.fraction },
            FillKind::Region => {
                let skip = shape.len().saturating_sub(2);
                let plane = shape.get(skip..).unwrap_or_default();
                let land = Box::new(Smooth::new(Stream::new(seed, "region").bits(0), plane, 2, 0.0));
                let below = coast(&land, plane, fill.fraction);
                Self::Region { land, below, skip }
            }
        }
    }

    /// Calls `hit` with the number of each missing element of a row of `len` elements that starts at `start`, whose
    /// number in the variable is `first`.
    pub(super) fn row(&self, start: &[u64], first: u64, len: usize, mut hit: impl FnMut(usize)) {
        match self {
            Self::Points { stream, fraction } => {
                (0..len).filter(|i| stream.unit(first.wrapping_add(*i as u64)) < *fraction).for_each(hit);
            }
            Self::Region { land, below, skip } => {
                let row = land.place(start.get(*skip..).unwrap_or_default());
                let position = start.last().copied().unwrap_or(0);
                for i in 0..len {
                    let place = land.along(&row, position.saturating_add(i as u64));
                    if land.octaves(&place, COAST, 0.5, Octave::Plain) < *below {
                        hit(i);
                    }
                }
            }
        }
    }
}

/// The height that this fraction of the plane lies below: exact for small planes, of places at random for others.
fn coast(land: &Smooth, plane: &[u64], fraction: f64) -> f64 {
    let total = plane.iter().fold(1u64, |product, n| product.saturating_mul(*n));
    let stream = Stream::new(0, "coast");
    let mut heights: Vec<f64> = (0..total.min(LOOKED_AT))
        .map(|i| {
            let mut rest = if total <= LOOKED_AT { i } else { stream.bits(i) % total };
            let mut index = vec![0; plane.len()];
            for (place, n) in index.iter_mut().zip(plane).rev() {
                *place = rest % n;
                rest /= n;
            }
            land.octaves(&land.place(&index), COAST, 0.5, Octave::Plain)
        })
        .collect();
    heights.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fraction of a length")]
    let at = (fraction * heights.len() as f64).round() as usize;
    heights.get(at).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(fill: Fill, shape: &[u64; 2]) -> f64 {
        let missing = Missing::new(fill, 11, shape);
        let mut hits = 0u64;
        for y in 0..shape[0] {
            missing.row(&[y, 0], y * shape[1], usize::try_from(shape[1]).unwrap(), |_| hits += 1);
        }
        hits as f64 / (shape[0] * shape[1]) as f64
    }

    #[test]
    fn so_many_are_missing() {
        for fraction in [0.0, 0.1, 0.5, 1.0] {
            for (kind, off) in [(FillKind::Points, 0.01), (FillKind::Region, 1e-4)] {
                let found = share(Fill { kind, fraction }, &[100, 150]);
                assert!((found - fraction).abs() <= off, "{kind:?} {fraction}: {found}");
            }
            let found = share(Fill { kind: FillKind::Region, fraction }, &[400, 500]);
            assert!((found - fraction).abs() < 0.015, "region of a large plane {fraction}: {found}");
        }
    }

    #[test]
    fn texts_name_kind_and_fraction() {
        assert_eq!("0.25".parse::<Fill>().unwrap(), Fill { kind: FillKind::Points, fraction: 0.25 });
        assert_eq!("region:1".parse::<Fill>().unwrap().to_string(), "region:1");
        for bad in ["", "some", "region:", "region:1.5", "-0.1", "nan", "ocean:0.1"] {
            assert!(bad.parse::<Fill>().unwrap_err().advice().is_some(), "{bad}");
        }
    }
}
