//! Sums of plane waves in random directions.

use super::{count, fraction};
use crate::generate::{Asked, Field, Pattern, Stream};
use knarr_array::error::Result;
use knarr_codec::codec::{OptionDoc, OptionKind};

pub(super) struct Sines;

impl Pattern for Sines {
    fn name(&self) -> &'static str {
        "sines"
    }

    fn summary(&self) -> &'static str {
        "a sum of sine waves of random direction, length and phase"
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[
            OptionDoc {
                name: "waves",
                kind: OptionKind::Int { min: 1, max: 64, default: Some(4) },
                doc: "how many waves are added",
            },
            OptionDoc { name: "cycles", kind: OptionKind::FloatOr(6.0), doc: "most cycles of a wave along an axis" },
        ]
    }

    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>> {
        let cycles = asked.options.float("cycles")?;
        let stream = Stream::new(asked.seed, "sines");
        let waves = (0..u64::from(count(asked.options, "waves")?))
            .map(|number| {
                let own = stream.of(number);
                let turns = asked.shape.iter().zip(2..).map(|(_, axis)| own.between(axis, -cycles, cycles)).collect();
                Wave { height: own.between(0, 0.3, 1.0), phase: own.unit(1), turns }
            })
            .collect();
        Ok(Box::new(Waves { waves, shape: asked.shape.to_vec() }))
    }
}

struct Wave {
    height: f64,
    /// In turns, at the first element.
    phase: f64,
    /// Turns along each axis.
    turns: Vec<f64>,
}

struct Waves {
    waves: Vec<Wave>,
    shape: Vec<u64>,
}

impl Field for Waves {
    fn row(&self, start: &[u64], out: &mut [f64]) {
        out.fill(0.0);
        let most: f64 = self.waves.iter().map(|wave| wave.height).sum();
        let (first, extent) = (start.last().copied().unwrap_or(0), self.shape.last().copied().unwrap_or(1));
        for wave in &self.waves {
            let outer = start.iter().zip(&self.shape).zip(&wave.turns).rev().skip(1);
            let phase: f64 = wave.phase + outer.map(|((i, n), turns)| fraction(*i, *n) * turns).sum::<f64>();
            let turns = wave.turns.last().copied().unwrap_or(0.0);
            for (i, value) in out.iter_mut().enumerate() {
                let at = phase + turns * fraction(first + i as u64, extent);
                *value += wave.height * libm::sin(std::f64::consts::TAU * at);
            }
        }
        out.iter_mut().for_each(|value| *value = 0.5 + 0.5 * *value / most);
    }
}
