//! Generated variables: named patterns of any type and shape, the same bytes on any machine for the same seed.
//!
//! A [`Pattern`] is one file in `patterns/` and one line in [`PATTERNS`]. Prepared for a variable it is a [`Field`],
//! which gives the value of any element from its indices alone. [`Generated`] is a source of such variables: values are
//! made when they are read, region by region, from as many threads as read.

mod missing;
mod noise;
mod patterns;
mod random;
mod scale;
mod smooth;
mod source;
mod spec;

pub use missing::{Fill, FillKind};
pub use noise::{Noise, NoiseKind};
pub use patterns::PATTERNS;
pub use random::Stream;
pub use source::Generated;
pub use spec::{FieldSpec, Range, parse_shape};

use crate::settings::nearest;
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_codec::chain::StepSpec;
use knarr_codec::codec::{OptionDoc, Options};

/// A named way to make values.
pub trait Pattern: Sync {
    /// Name in specifications: lower-case letters and digits.
    fn name(&self) -> &'static str;

    /// One line for lists.
    fn summary(&self) -> &'static str;

    /// Its options.
    fn options(&self) -> &'static [OptionDoc] {
        &[]
    }

    /// Type of the values if none is asked for.
    fn dtype(&self) -> DType {
        DType::F32
    }

    /// What its values range over.
    fn values(&self) -> Values {
        Values::Scaled(None)
    }

    /// Missing values if nothing is said about them.
    fn fill(&self) -> Option<Fill> {
        None
    }

    /// Makes it ready for a variable.
    ///
    /// # Errors
    /// `Usage` if it cannot serve the shape or its options.
    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>>;
}

/// What the values of a pattern range over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values {
    /// [`Field::row`] gives values in [0, 1], which are mapped to the range asked for, or else to this one, or else to
    /// one that suits the type.
    Scaled(Option<Range>),
    /// [`Field::row`] gives the values themselves; the words say what to use instead of a range.
    Own(&'static str),
}

/// What a pattern is prepared for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Extent per dimension, slowest first.
    pub shape: &'a [u64],
    /// Type that the values will be converted to.
    pub dtype: DType,
    /// Options, complete.
    pub options: &'a Options,
    /// Seed of the variable.
    pub seed: u64,
}

/// A pattern made ready for one variable.
pub trait Field: Send + Sync {
    /// Values of `out.len()` elements along the last axis, the first of which is at `start`. They depend on their
    /// indices alone. `start` has the rank of the variable; for a scalar `out` has one element.
    fn row(&self, start: &[u64], out: &mut [f64]);
}

/// The pattern that `text` names, and its options: `simplex`, `fractal:octaves=5`.
///
/// # Errors
/// `Usage` that names the nearest patterns.
pub fn pattern(spec: &StepSpec) -> Result<(&'static dyn Pattern, Options)> {
    let Some(found) = PATTERNS.iter().find(|pattern| pattern.name() == spec.name) else {
        let names = nearest(&spec.name, PATTERNS.iter().map(|pattern| pattern.name()), 4);
        return Err(Error::usage(format!("there is no pattern '{}'", spec.name))
            .hint(format!("the nearest are: {names}; 'knarr generate --list' shows all")));
    };
    let options = spec.complete(&format!("pattern '{}'", found.name()), found.options())?;
    Ok((*found, options))
}

/// Mixes `text` into a seed: variables of one file get seeds of their own from their names.
pub fn seed_for(seed: u64, text: &str) -> u64 {
    Stream::new(seed, text).bits(0)
}

/// Number of the element at `index` in row-major order; it wraps for arrays that no memory holds.
fn linear(shape: &[u64], index: &[u64]) -> u64 {
    shape.iter().zip(index).fold(0, |sum, (n, i)| sum.wrapping_mul(*n).wrapping_add(*i))
}
