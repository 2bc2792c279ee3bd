//! Simplex noise: smooth in all directions, of one size of features.

use super::SCALE;
use crate::generate::smooth::Smooth;
use crate::generate::{Asked, Field, Pattern};
use knarr_array::error::Result;
use knarr_codec::codec::OptionDoc;

pub(super) struct SimplexNoise;

impl Pattern for SimplexNoise {
    fn name(&self) -> &'static str {
        "simplex"
    }

    fn summary(&self) -> &'static str {
        "simplex noise: smooth hills of one size, along the last four axes"
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[SCALE]
    }

    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>> {
        Ok(Box::new(Hills(Smooth::new(asked.seed, asked.shape, 4, asked.options.float("scale")?))))
    }
}

struct Hills(Smooth);

impl Field for Hills {
    fn row(&self, start: &[u64], out: &mut [f64]) {
        let row = self.0.place(start);
        let first = start.last().copied().unwrap_or(0);
        for (i, value) in out.iter_mut().enumerate() {
            *value = 0.5 + 0.5 * self.0.value(&self.0.along(&row, first + i as u64), 1.0);
        }
    }
}
