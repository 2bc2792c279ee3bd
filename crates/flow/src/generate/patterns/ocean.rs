//! A sea temperature: warm at the equator, seasonal, colder with depth, with eddies, and land where it is missing.

use super::{SCALE, count, fraction, octaves};
use crate::generate::smooth::{Octave, Smooth};
use crate::generate::{Asked, Field, Fill, FillKind, Pattern, Range, Values};
use knarr_array::error::Result;
use knarr_codec::codec::OptionDoc;

pub(super) struct Ocean;

/// Share of the last dimensions but time and depth that is land.
const LAND: f64 = 0.3;
/// Steps of the first dimension that make a year.
const YEAR: f64 = 12.0;

impl Pattern for Ocean {
    fn name(&self) -> &'static str {
        "ocean"
    }

    fn summary(&self) -> &'static str {
        "a sea temperature over [[month,] depth,] latitude, longitude, with eddies and land"
    }

    fn options(&self) -> &'static [OptionDoc] {
        const OPTIONS: &[OptionDoc] = &[octaves(4), SCALE];
        OPTIONS
    }

    fn values(&self) -> Values {
        Values::Scaled(Some(Range { low: -1.8, high: 30.0 }))
    }

    fn fill(&self) -> Option<Fill> {
        Some(Fill { kind: FillKind::Region, fraction: LAND })
    }

    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>> {
        Ok(Box::new(Sea {
            eddies: Smooth::new(asked.seed, asked.shape, 4, asked.options.float("scale")?),
            octaves: count(asked.options, "octaves")?,
            shape: asked.shape.to_vec(),
        }))
    }
}

struct Sea {
    eddies: Smooth,
    octaves: u32,
    shape: Vec<u64>,
}

impl Sea {
    /// Index along the axis number `from_last`, counted from the last, and its extent.
    fn axis(&self, start: &[u64], from_last: usize) -> Option<(u64, u64)> {
        let at = self.shape.len().checked_sub(from_last + 1)?;
        Some((*start.get(at)?, *self.shape.get(at)?))
    }
}

impl Field for Sea {
    fn row(&self, start: &[u64], out: &mut [f64]) {
        use std::f64::consts::{PI, TAU};
        let latitude = self.axis(start, 1).map_or(0.0, |(i, n)| PI * (fraction(i, n) - 0.5));
        let depth = self.axis(start, 2).map_or(0.0, |(i, n)| fraction(i, n));
        let season = self.axis(start, 3).map_or(0.0, |(i, _)| libm::sin(TAU * (i as f64 / YEAR)));
        let warmth = libm::cos(latitude) * libm::cos(latitude) + 0.08 * season * libm::sin(latitude);
        let surface = libm::exp(-3.0 * depth);
        let row = self.eddies.place(start);
        let first = start.last().copied().unwrap_or(0);
        for (i, value) in out.iter_mut().enumerate() {
            let place = self.eddies.along(&row, first + i as u64);
            let eddy = self.eddies.octaves(&place, self.octaves, 0.5, Octave::Plain);
            *value = ((0.9 * warmth + 0.1 * eddy + 0.05) * surface).clamp(0.0, 1.0);
        }
    }
}
