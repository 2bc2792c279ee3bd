//! A staircase along the diagonal: wide plateaus of equal values.

use super::{count, fraction};
use crate::generate::{Asked, Field, Pattern};
use knarr_array::error::Result;
use knarr_codec::codec::{OptionDoc, OptionKind};

pub(super) struct Steps;

impl Pattern for Steps {
    fn name(&self) -> &'static str {
        "steps"
    }

    fn summary(&self) -> &'static str {
        "plateaus of equal values that rise from the first corner to the last"
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc {
            name: "levels",
            kind: OptionKind::Int { min: 2, max: 1_000_000, default: Some(8) },
            doc: "how many different values",
        }]
    }

    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>> {
        Ok(Box::new(Stairs { levels: f64::from(count(asked.options, "levels")?), shape: asked.shape.to_vec() }))
    }
}

struct Stairs {
    levels: f64,
    shape: Vec<u64>,
}

impl Field for Stairs {
    fn row(&self, start: &[u64], out: &mut [f64]) {
        let axes = self.shape.len().max(1) as f64;
        let outer: f64 = start.iter().zip(&self.shape).rev().skip(1).map(|(i, n)| fraction(*i, *n)).sum();
        let (first, extent) = (start.last().copied().unwrap_or(0), self.shape.last().copied().unwrap_or(1));
        for (i, value) in out.iter_mut().enumerate() {
            let height = (outer + fraction(first + i as u64, extent)) / axes;
            *value = (height * self.levels).floor().min(self.levels - 1.0) / (self.levels - 1.0);
        }
    }
}
