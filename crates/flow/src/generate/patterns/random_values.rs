//! Uniform random numbers, each for a run of elements.

use crate::generate::{Asked, Field, Pattern, Stream, linear};
use knarr_array::error::Result;
use knarr_codec::codec::{OptionDoc, OptionKind};

pub(super) struct Random;

impl Pattern for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn summary(&self) -> &'static str {
        "uniform random numbers without any structure, or repeated in runs"
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc {
            name: "repeat",
            kind: OptionKind::Int { min: 1, max: 1 << 40, default: Some(1) },
            doc: "neighbours in row-major order that share one number",
        }]
    }

    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>> {
        let repeat = u64::try_from(asked.options.int("repeat")?).unwrap_or(1).max(1);
        Ok(Box::new(Uniform { stream: Stream::new(asked.seed, "random"), shape: asked.shape.to_vec(), repeat }))
    }
}

struct Uniform {
    stream: Stream,
    shape: Vec<u64>,
    repeat: u64,
}

impl Field for Uniform {
    fn row(&self, start: &[u64], out: &mut [f64]) {
        let first = linear(&self.shape, start);
        for (i, value) in out.iter_mut().enumerate() {
            *value = self.stream.unit(first.wrapping_add(i as u64) / self.repeat);
        }
    }
}
