//! Noise on top of a pattern.

use std::fmt;
use std::str::FromStr;

use super::random::Stream;
use super::spec::{kind_and_number, kind_names, kind_text};
use knarr_array::error::{Error, Result};

/// How noise is distributed and what its level means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoiseKind {
    /// Normal; the level is the standard deviation, in the variable's unit.
    Normal,
    /// Uniform; the level is the largest deviation, in the variable's unit.
    Uniform,
    /// Normal; the level is the standard deviation as a fraction of each value.
    Relative,
}

/// The kinds by name; the first is meant where none is named.
const KINDS: [(&str, NoiseKind); 3] =
    [("normal", NoiseKind::Normal), ("uniform", NoiseKind::Uniform), ("relative", NoiseKind::Relative)];

/// Noise of a kind and level, written `KIND:LEVEL` or `LEVEL` alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Distribution.
    pub kind: NoiseKind,
    /// Level; finite, 0 or above.
    pub level: f64,
}

impl Noise {
    /// `value` with the noise of element `i`.
    pub(super) fn add(self, value: f64, stream: Stream, i: u64) -> f64 {
        value
            + self.level
                * match self.kind {
                    NoiseKind::Normal => stream.normal(i),
                    NoiseKind::Uniform => stream.between(i, -1.0, 1.0),
                    NoiseKind::Relative => value * stream.normal(i),
                }
    }
}

impl FromStr for Noise {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        kind_and_number(text, &KINDS)
            .filter(|(_, level)| level.is_finite() && *level >= 0.0)
            .map(|(kind, level)| Self { kind, level })
            .ok_or_else(|| {
                Error::usage(format!("'{text}' is not a noise")).hint(format!(
                    "write a level of 0 or above like 0.01, or its kind before it ({}): normal:0.01",
                    kind_names(&KINDS)
                ))
            })
    }
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&kind_text(&self.kind, self.level, &KINDS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_kind_and_level() {
        assert_eq!("0.5".parse::<Noise>().unwrap(), Noise { kind: NoiseKind::Normal, level: 0.5 });
        for (name, kind) in KINDS {
            let noise = format!("{name}:2").parse::<Noise>().unwrap();
            assert_eq!((noise, noise.to_string()), (Noise { kind, level: 2.0 }, format!("{name}:2")));
        }
        for bad in ["", "loud", "loud:1", "normal:", "normal:-1", "inf", "nan"] {
            assert!(bad.parse::<Noise>().unwrap_err().advice().is_some(), "{bad}");
        }
    }
}
