//! What is asked of a generated variable, and how it is written down.

use std::fmt;
use std::str::FromStr;

use super::{Fill, Noise};
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_codec::chain::StepSpec;

/// One variable to generate. Pure data; [`super::Generated::new`] checks and prepares it.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldSpec {
    /// Name of the variable; `/` separates groups.
    pub name: String,
    /// Pattern with its options.
    pub pattern: StepSpec,
    /// Extent per dimension, slowest first; empty for a scalar. It must be given.
    pub shape: Option<Vec<u64>>,
    /// Names of the dimensions, if they are to have any.
    pub dimensions: Option<Vec<String>>,
    /// Element type; that of the pattern if absent.
    pub dtype: Option<DType>,
    /// Seed of all that is random in it.
    pub seed: u64,
    /// Values that the pattern is mapped to.
    pub range: Option<Range>,
    /// Noise on top.
    pub noise: Option<Noise>,
    /// Missing values; those of the pattern if absent.
    pub fill: Option<Fill>,
    /// The value that means 'missing'; one that suits the type if absent.
    pub fill_value: Option<f64>,
}

impl FieldSpec {
    /// A variable of a pattern, all else as usual. The text is `[NAME=]PATTERN[:OPTIONS]`; without a name the variable
    /// is called like the pattern.
    ///
    /// # Errors
    /// `Usage` if the text does not say that.
    pub fn parse(text: &str) -> Result<Self> {
        // A pattern has '=' only inside options, after a ':'.
        let (name, pattern) = match text.split_once('=').filter(|(name, _)| !name.contains(':')) {
            Some((name, pattern)) => (Some(name.trim()), pattern),
            None => (None, text),
        };
        let refuse = |why: &str| {
            Error::usage(format!("'{text}': {why}"))
                .hint("write a pattern like 'T=fractal:octaves=5'; 'knarr generate --list' shows all")
        };
        let pattern = StepSpec::parse(pattern).map_err(refuse)?;
        let name = name.unwrap_or(&pattern.name).trim_matches('/').to_owned();
        if name.is_empty() || name.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(refuse("a variable needs a name"));
        }
        Ok(Self {
            name,
            pattern,
            shape: None,
            dimensions: None,
            dtype: None,
            seed: 0,
            range: None,
            noise: None,
            fill: None,
            fill_value: None,
        })
    }
}

/// The smallest and the largest value, written `LOW:HIGH`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Smallest.
    pub low: f64,
    /// Largest; not below the smallest.
    pub high: f64,
}

impl Range {
    /// Where `unit`, in [0, 1], lies in the range.
    pub(super) fn at(self, unit: f64) -> f64 {
        (self.low + (self.high - self.low) * unit).clamp(self.low, self.high)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.low, self.high)
    }
}

impl FromStr for Range {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        text.split_once(':')
            .and_then(|(low, high)| Some(Self { low: number(low)?, high: number(high)? }))
            .filter(|range| range.low <= range.high && (range.high - range.low).is_finite())
            .ok_or_else(|| {
                Error::usage(format!("'{text}' is not a range"))
                    .hint("write the smallest and the largest value, like 250:310")
            })
    }
}

/// Kinds by name; the first is meant where none is named.
pub(super) type Kinds<K> = [(&'static str, K)];

/// Kind and number of a text `KIND:NUMBER` or `NUMBER`.
pub(super) fn kind_and_number<K: Copy>(text: &str, kinds: &Kinds<K>) -> Option<(K, f64)> {
    let (kind, number) = match text.split_once(':') {
        Some((name, number)) => (kinds.iter().find(|(known, _)| *known == name.trim()), number),
        None => (kinds.first(), text),
    };
    Some((kind?.1, number.trim().parse().ok()?))
}

/// Such a text.
pub(super) fn kind_text<K: PartialEq>(kind: &K, number: f64, kinds: &Kinds<K>) -> String {
    let name = kinds.iter().find(|(_, known)| known == kind).map_or("", |(name, _)| name);
    format!("{name}:{number}")
}

/// Names of kinds, for errors.
pub(super) fn kind_names<K>(kinds: &Kinds<K>) -> String {
    kinds.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// A shape as people write it: extents like `24x180x360`, or `scalar`.
///
/// # Errors
/// `Usage` for anything else.
pub fn parse_shape(text: &str) -> Result<Vec<u64>> {
    if text.trim() == "scalar" {
        return Ok(Vec::new());
    }
    let extents = text.split(['x', ',']).map(|extent| extent.trim().parse::<u64>().ok());
    extents.collect::<Option<Vec<u64>>>().ok_or_else(|| {
        Error::usage(format!("'{text}' is not a shape")).hint("write extents like 24x180x360, or 'scalar'")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_fields() {
        let field = FieldSpec::parse("ocean/T=fractal:5,scale=40").unwrap();
        assert_eq!((field.name.as_str(), field.pattern.to_string().as_str()), ("ocean/T", "fractal:5,scale=40"));
        assert_eq!(FieldSpec::parse("simplex:scale=3").unwrap().name, "simplex");
        for bad in ["", "=simplex", "T=", "T=Simplex", "/=simplex", "a//b=simplex", "T=simplex:scale="] {
            assert!(FieldSpec::parse(bad).unwrap_err().advice().is_some(), "{bad}");
        }
        assert_eq!(parse_shape("24x180x360").unwrap(), [24, 180, 360]);
        assert_eq!(parse_shape("scalar").unwrap(), [0u64; 0]);
        for bad in ["", "x", "3x", "-1", "3x4.5", "99999999999999999999"] {
            assert!(parse_shape(bad).is_err(), "{bad}");
        }
        assert_eq!("-1.5:2e3".parse::<Range>().unwrap(), Range { low: -1.5, high: 2000.0 });
        for bad in ["", "1", "2:1", "nan:1", "0:inf", "-1e308:1e308"] {
            assert!(bad.parse::<Range>().is_err(), "{bad}");
        }
    }
}
