//! Fractal fields: octaves of simplex noise, as rough as turbulence or clouds.

use super::{SCALE, count, octaves};
use crate::generate::smooth::{Octave, Smooth};
use crate::generate::{Asked, Field, Pattern};
use knarr_array::error::Result;
use knarr_codec::codec::{OptionDoc, OptionKind};

pub(super) struct Fractal;

/// Kinds of octaves by name; the first is usual.
const KINDS: [(&str, Octave); 3] = [("fbm", Octave::Plain), ("turbulence", Octave::Folded), ("ridged", Octave::Ridged)];

impl Pattern for Fractal {
    fn name(&self) -> &'static str {
        "fractal"
    }

    fn summary(&self) -> &'static str {
        "octaves of simplex noise: fractional Brownian motion, turbulence or ridges"
    }

    fn options(&self) -> &'static [OptionDoc] {
        const OPTIONS: &[OptionDoc] = &[
            octaves(6),
            SCALE,
            OptionDoc {
                name: "gain",
                kind: OptionKind::FloatOr(0.5),
                doc: "height of each octave as a fraction of the one before: larger is rougher",
            },
            OptionDoc {
                name: "kind",
                kind: OptionKind::Word(&[KINDS[0].0, KINDS[1].0, KINDS[2].0]),
                doc: "plain octaves, folded ones with creases, or ridges",
            },
        ];
        OPTIONS
    }

    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>> {
        let options = asked.options;
        let name = options.word("kind")?;
        Ok(Box::new(Octaves {
            smooth: Smooth::new(asked.seed, asked.shape, 4, options.float("scale")?),
            octaves: count(options, "octaves")?,
            gain: options.float("gain")?,
            kind: KINDS.iter().find(|(known, _)| *known == name).map_or(Octave::Plain, |(_, kind)| *kind),
        }))
    }
}

struct Octaves {
    smooth: Smooth,
    octaves: u32,
    gain: f64,
    kind: Octave,
}

impl Field for Octaves {
    fn row(&self, start: &[u64], out: &mut [f64]) {
        let row = self.smooth.place(start);
        let first = start.last().copied().unwrap_or(0);
        for (i, value) in out.iter_mut().enumerate() {
            let place = self.smooth.along(&row, first + i as u64);
            *value = 0.5 + 0.5 * self.smooth.octaves(&place, self.octaves, self.gain, self.kind);
        }
    }
}
