//! Quality: what may change in the data. A promise, never a hint.
//!
//! A [`Quality`] is what the user states; resolved against a variable's valid range it becomes a
//! [`Bound`], and [`Bound::check`] proves it for every element after the final cast.

mod accuracy;
mod bound;
mod exact;
mod range;

pub use accuracy::{Accuracy, Worst};
pub use bound::{Bound, Miss, Observed};
pub use exact::{Exact, Limits};

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::array::{ArraySpec, DType};
use crate::error::{Error, ErrorKind, Result};

/// What may change in a variable. All stated bounds hold together; none stated means lossless.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// Largest absolute error, in the unit of the variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_abs_error: Option<f64>,
    /// Largest absolute error as a fraction of the variable's valid value range (max − min).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_range_error: Option<f64>,
    /// Largest error relative to each value (pointwise).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rel_error: Option<f64>,
    /// Finest absolute tolerance: relative bounds, bits and digits never ask for less than this.
    /// Keeps them affordable near zero (as in SCIL).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finest_abs_error: Option<f64>,
    /// Explicit mantissa bits that stay right (NSB of the CF quantization conventions).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub significant_bits: Option<u32>,
    /// Decimal digits that stay right (NSD of the CF quantization conventions).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub significant_digits: Option<u32>,
    /// Values up to this keep their bits, whatever the bounds allow, and no other value becomes one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_up_to: Option<f64>,
    /// The same for values from this on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_from: Option<f64>,
}

impl Quality {
    /// Bit-exact: the default.
    pub const LOSSLESS: Self = Self {
        max_abs_error: None,
        max_range_error: None,
        max_rel_error: None,
        finest_abs_error: None,
        significant_bits: None,
        significant_digits: None,
        exact_up_to: None,
        exact_from: None,
    };

    /// True if no error is allowed.
    pub fn is_lossless(&self) -> bool {
        self.max_abs_error.is_none()
            && self.max_range_error.is_none()
            && self.max_rel_error.is_none()
            && self.significant_bits.is_none()
            && self.significant_digits.is_none()
    }

    /// This quality, refined by what is said more exactly or later: each part that `by` states replaces the same part.
    /// A quality that states nothing is a request too, for lossless, and switches every part off.
    #[must_use]
    pub fn refined(self, by: Self) -> Self {
        if by == Self::LOSSLESS { by } else { self.joined(by) }
    }

    /// Every part that `other` states, and those of this quality that it leaves open.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        let Self {
            max_abs_error,
            max_range_error,
            max_rel_error,
            finest_abs_error,
            significant_bits,
            significant_digits,
            exact_up_to,
            exact_from,
        } = other;
        Self {
            max_abs_error: max_abs_error.or(self.max_abs_error),
            max_range_error: max_range_error.or(self.max_range_error),
            max_rel_error: max_rel_error.or(self.max_rel_error),
            finest_abs_error: finest_abs_error.or(self.finest_abs_error),
            significant_bits: significant_bits.or(self.significant_bits),
            significant_digits: significant_digits.or(self.significant_digits),
            exact_up_to: exact_up_to.or(self.exact_up_to),
            exact_from: exact_from.or(self.exact_from),
        }
    }

    /// True if the valid range of the variable must be known to resolve it.
    pub fn needs_range(&self) -> bool {
        self.max_range_error.is_some()
    }

    /// Checks that this can be served for elements of this type.
    ///
    /// # Errors
    /// `Quality` for types that are not floating point; `Usage` as for [`Quality::validate_numbers`] and
    /// [`Quality::validate_parts`].
    pub fn validate(&self, dtype: DType) -> Result<()> {
        if !self.is_lossless() && !dtype.is_float() {
            return Err(Error::new(ErrorKind::Quality, format!("an error bound cannot be served for type {dtype}"))
                .hint("lossy qualities apply to 32- and 64-bit floating point; leave this variable lossless"));
        }
        self.validate_numbers()?;
        self.validate_parts()
    }

    /// Checks the numbers. They may be part of a quality, to be [refined](Quality::refined) by others.
    ///
    /// # Errors
    /// `Usage` for numbers out of range and limits of exact values that leave none to change.
    pub fn validate_numbers(&self) -> Result<()> {
        self.exact().validate()?;
        for (name, value) in [
            ("max_abs_error", self.max_abs_error),
            ("max_range_error", self.max_range_error),
            ("max_rel_error", self.max_rel_error),
            ("finest_abs_error", self.finest_abs_error),
        ] {
            if value.is_some_and(|value| !value.is_finite() || value <= 0.0) {
                return Err(Error::usage(format!("{name} is {:?}", value.unwrap_or_default()))
                    .hint("give a finite number above 0, or leave it out for lossless"));
            }
        }
        // As a percentage, 1 would be meant; as a fraction it promises nothing.
        for (name, value, allowed) in [
            ("max_range_error", self.max_range_error, "any value of the range for any other"),
            ("max_rel_error", self.max_rel_error, "0 for every value"),
        ] {
            if let Some(value) = value.filter(|value| *value >= 1.0) {
                return Err(Error::usage(format!("{name} is {value:?}, which allows {allowed}"))
                    .hint("give a fraction below 1: 0.01 is 1 %"));
            }
        }
        if self.significant_bits.is_some_and(|bits| !(1..=52).contains(&bits)) {
            return Err(Error::usage(format!("significant_bits is {}", self.significant_bits.unwrap_or(0)))
                .hint("give 1 to 23 (f32) or 1 to 52 (f64)"));
        }
        if self.significant_digits.is_some_and(|digits| !(1..=15).contains(&digits)) {
            return Err(Error::usage(format!("significant_digits is {}", self.significant_digits.unwrap_or(0)))
                .hint("give 1 to 7 (f32) or 1 to 15 (f64)"));
        }
        Ok(())
    }

    /// Checks that no part is stated without the bound that it is about.
    ///
    /// # Errors
    /// `Usage` for exact values without a bound and a finest tolerance without a relative one.
    pub fn validate_parts(&self) -> Result<()> {
        for (name, limit) in [("exact_up_to", self.exact_up_to), ("exact_from", self.exact_from)] {
            if limit.is_some() && self.is_lossless() {
                return Err(Error::usage(format!("{name} without a bound means nothing"))
                    .hint("add a bound such as max_abs_error, or leave it out: lossless keeps every value"));
            }
        }
        let relative =
            self.max_rel_error.is_some() || self.significant_bits.is_some() || self.significant_digits.is_some();
        if self.finest_abs_error.is_some() && !relative {
            return Err(Error::usage("finest_abs_error without a relative bound means nothing")
                .hint("add max_rel_error, significant_bits or significant_digits, or use max_abs_error"));
        }
        Ok(())
    }

    /// The values that stay exact.
    pub fn exact(&self) -> Exact {
        Exact { up_to: self.exact_up_to, from: self.exact_from }
    }

    /// Smallest and largest value of floating-point elements that [`Quality::max_range_error`] is a fraction of the
    /// distance of: finite, no fill value, and not among those that stay exact. `None` if there are none or the type
    /// is not floating point.
    pub fn valid_range(&self, spec: &ArraySpec, bytes: &[u8]) -> Option<(f64, f64)> {
        range::valid_range(spec, bytes, self.exact().limits(spec.dtype))
    }

    /// The bound for a whole variable in memory; `None` if lossless.
    pub fn bound_of(&self, spec: &ArraySpec, bytes: &[u8]) -> Option<Bound> {
        self.bound(if self.needs_range() { self.valid_range(spec, bytes) } else { None })
    }

    /// The bound for a variable whose valid values span `range` (smallest, largest); `None` if lossless.
    /// With no valid values any range error is met by lossless.
    pub fn bound(&self, range: Option<(f64, f64)>) -> Option<Bound> {
        if self.is_lossless() {
            return None;
        }
        let of_range = self.max_range_error.map(|fraction| {
            // The width is halved before subtraction so that it cannot overflow.
            range.map_or(0.0, |(low, high)| (high / 2.0 - low / 2.0) * fraction * 2.0)
        });
        Some(Bound {
            abs: self.max_abs_error.into_iter().chain(of_range).fold(f64::INFINITY, f64::min),
            rel: self.max_rel_error.unwrap_or(f64::INFINITY),
            bits: self.significant_bits,
            digits: self.significant_digits,
            finest: self.finest_abs_error.unwrap_or(0.0),
            exact: self.exact(),
        })
    }

    /// Sets the part called `name`, as in `knarr.toml`, from text.
    ///
    /// # Errors
    /// `Usage` if there is no such part or the text is not a number.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let refuse = || {
            Error::usage(format!("quality '{name}={value}' is not understood"))
                .hint("write 'lossless' or bounds such as 'max_abs_error=0.01, significant_digits=4'")
        };
        let float = || value.parse::<f64>().map(Some).map_err(|_| refuse());
        let count = || value.parse::<u32>().map(Some).map_err(|_| refuse());
        match name {
            "max_abs_error" => self.max_abs_error = float()?,
            "max_range_error" => self.max_range_error = float()?,
            "max_rel_error" => self.max_rel_error = float()?,
            "finest_abs_error" => self.finest_abs_error = float()?,
            "significant_bits" => self.significant_bits = count()?,
            "significant_digits" => self.significant_digits = count()?,
            "exact_up_to" => self.exact_up_to = float()?,
            "exact_from" => self.exact_from = float()?,
            _ => return Err(refuse()),
        }
        Ok(())
    }
}

/// A limit without hundreds of zeros: the next number above 0 is one, too.
fn short(limit: f64) -> String {
    if limit == 0.0 || (1e-5..1e16).contains(&limit.abs()) { limit.to_string() } else { format!("{limit:e}") }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = [
            self.max_abs_error.map(|x| format!("max_abs_error={x}")),
            self.max_range_error.map(|x| format!("max_range_error={x}")),
            self.max_rel_error.map(|x| format!("max_rel_error={x}")),
            self.finest_abs_error.map(|x| format!("finest_abs_error={x}")),
            self.significant_bits.map(|x| format!("significant_bits={x}")),
            self.significant_digits.map(|x| format!("significant_digits={x}")),
            self.exact_up_to.map(|x| format!("exact_up_to={}", short(x))),
            self.exact_from.map(|x| format!("exact_from={}", short(x))),
        ]
        .into_iter()
        .flatten()
        .collect();
        if parts.is_empty() { f.write_str("lossless") } else { f.write_str(&parts.join(", ")) }
    }
}

impl std::str::FromStr for Quality {
    type Err = Error;

    /// The form that `Display` writes: `lossless`, or `name=value` pairs separated by commas.
    fn from_str(text: &str) -> Result<Self> {
        let mut quality = Self::LOSSLESS;
        if text.trim() == "lossless" {
            return Ok(quality);
        }
        let mut stated = Vec::new();
        for item in text.split(',') {
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            let name = name.trim();
            quality.set(name, value.trim())?;
            if stated.contains(&name) {
                return Err(Error::usage(format!("'{name}' is stated twice in '{text}'")).hint("state it once"));
            }
            stated.push(name);
        }
        Ok(quality)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refining_replaces_the_parts_that_are_stated_and_lossless_all() {
        let parse = |text: &str| text.parse::<Quality>().unwrap();
        let general = parse("max_abs_error=1, max_rel_error=0.1, exact_from=9");
        let refined = general.refined(parse("max_abs_error=2, significant_bits=7"));
        assert_eq!(refined, parse("max_abs_error=2, max_rel_error=0.1, significant_bits=7, exact_from=9"));
        assert_eq!(general.refined(Quality::LOSSLESS), Quality::LOSSLESS);
        // Every part that there is takes part.
        let all = "max_abs_error=1, max_range_error=0.1, max_rel_error=0.1, finest_abs_error=0.1, significant_bits=7, \
                   significant_digits=3, exact_up_to=0, exact_from=9";
        assert_eq!(Quality::LOSSLESS.refined(parse(all)).to_string(), all);
        assert_eq!(parse(all).refined(parse("exact_up_to=0")).to_string(), all);
    }

    #[test]
    fn a_part_is_stated_once() {
        let error = "max_abs_error=1, significant_bits=7, max_abs_error=2".parse::<Quality>().unwrap_err();
        assert!(error.to_string().contains("'max_abs_error' is stated twice"), "{error}");
    }

    #[test]
    fn numbers_that_promise_nothing_are_refused() {
        let refused = |text: &str| text.parse::<Quality>().unwrap().validate_numbers().err();
        for text in ["max_rel_error=1", "max_rel_error=1.5", "max_range_error=1", "max_range_error=20"] {
            let error = refused(text).unwrap();
            assert!(error.advice().is_some_and(|hint| hint.contains("below 1")), "{error}");
        }
        for text in [
            "max_abs_error=inf",
            "max_rel_error=NaN",
            "max_range_error=0",
            "significant_digits=0",
            "significant_bits=0",
        ] {
            assert!(refused(text).unwrap().advice().is_some(), "{text}");
        }
        for text in ["max_rel_error=0.999", "max_range_error=0.5", "max_abs_error=1e300"] {
            assert!(refused(text).is_none(), "{text}");
        }
    }

    #[test]
    fn text_round_trips() {
        let quality = Quality { max_abs_error: Some(0.1), significant_digits: Some(4), ..Quality::LOSSLESS };
        assert_eq!(quality.to_string().parse::<Quality>().unwrap(), quality);
        assert_eq!("lossless".parse::<Quality>().unwrap(), Quality::LOSSLESS);
        let exact =
            Quality { max_abs_error: Some(0.1), exact_up_to: Some(-1e-3), exact_from: Some(5.0), ..Quality::LOSSLESS };
        assert_eq!(exact.to_string().parse::<Quality>().unwrap(), exact);
        for text in ["", "max_abs_error", "max_abs_error=x", "tolerance=1", "significant_bits=1.5"] {
            assert!(text.parse::<Quality>().unwrap_err().advice().is_some(), "{text}");
        }
    }
}
