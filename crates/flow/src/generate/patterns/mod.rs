//! One file a pattern; this list names them all.

mod constant;
mod detector;
mod fractal;
mod ocean;
mod particles;
mod patches;
mod polynomial;
mod random_values;
mod simplex;
mod sines;
mod steps;

use super::Pattern;
use knarr_codec::codec::{OptionDoc, OptionKind};

/// All patterns, in the order in which they are listed.
pub const PATTERNS: &[&dyn Pattern] = &[
    &constant::Constant,
    &random_values::Random,
    &steps::Steps,
    &sines::Sines,
    &polynomial::Polynomial,
    &simplex::SimplexNoise,
    &fractal::Fractal,
    &ocean::Ocean,
    &patches::Patches,
    &particles::Particles,
    &detector::Detector,
];

/// Size of features, for patterns of noise.
const SCALE: OptionDoc = OptionDoc {
    name: "scale",
    kind: OptionKind::FloatOr(0.0),
    doc: "elements from one feature to the next; 0 for a quarter of the longest axis",
};

/// Number of octaves, for patterns of noise.
const fn octaves(default: i64) -> OptionDoc {
    OptionDoc {
        name: "octaves",
        kind: OptionKind::Int { min: 1, max: 10, default: Some(default) },
        doc: "how many sizes of features, each half the one before",
    }
}

/// A whole number among the options, which are complete and within their limits.
fn count(options: &knarr_codec::codec::Options, name: &str) -> knarr_array::Result<u32> {
    Ok(u32::try_from(options.int(name)?).unwrap_or(0))
}

/// Where `index` lies along an axis of `extent` elements: 0 for the first, 1 for the last.
fn fraction(index: u64, extent: u64) -> f64 {
    if extent > 1 { index as f64 / (extent - 1) as f64 } else { 0.0 }
}
