//! Quality: what may change in the data. A promise, never a hint.
//!
//! A [`Quality`] is what the user states; resolved against a variable's valid range it becomes a
//! [`Bound`], and [`Bound::check`] proves it for every element after the final cast.

mod bound;
mod range;

pub use bound::{Bound, Observed};
pub use range::valid_range;

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::array::DType;
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
    };

    /// True if no error is allowed.
    pub fn is_lossless(&self) -> bool {
        self.max_abs_error.is_none()
            && self.max_range_error.is_none()
            && self.max_rel_error.is_none()
            && self.significant_bits.is_none()
            && self.significant_digits.is_none()
    }

    /// True if the valid range of the variable must be known to resolve it.
    pub fn needs_range(&self) -> bool {
        self.max_range_error.is_some()
    }

    /// Checks that the numbers make sense for elements of this type.
    ///
    /// # Errors
    /// `Quality` for types that are not floating point, `Usage` for numbers out of range or a finest
    /// tolerance without a relative bound.
    pub fn validate(&self, dtype: DType) -> Result<()> {
        if !self.is_lossless() && !dtype.is_float() {
            return Err(Error::new(ErrorKind::Quality, format!("an error bound cannot be served for type {dtype}"))
                .mend("lossy qualities apply to 32- and 64-bit floating point; leave this variable lossless"));
        }
        for (name, value) in [
            ("max_abs_error", self.max_abs_error),
            ("max_range_error", self.max_range_error),
            ("max_rel_error", self.max_rel_error),
            ("finest_abs_error", self.finest_abs_error),
        ] {
            if value.is_some_and(|value| !value.is_finite() || value <= 0.0) {
                return Err(Error::usage(format!("{name} is {:?}", value.unwrap_or_default()))
                    .mend("give a finite number above 0, or leave it out for lossless"));
            }
        }
        if self.significant_bits.is_some_and(|bits| !(1..=52).contains(&bits)) {
            return Err(Error::usage(format!("significant_bits is {}", self.significant_bits.unwrap_or(0)))
                .mend("give 1 to 23 (f32) or 1 to 52 (f64)"));
        }
        if self.significant_digits.is_some_and(|digits| !(1..=15).contains(&digits)) {
            return Err(Error::usage(format!("significant_digits is {}", self.significant_digits.unwrap_or(0)))
                .mend("give 1 to 7 (f32) or 1 to 15 (f64)"));
        }
        let relative =
            self.max_rel_error.is_some() || self.significant_bits.is_some() || self.significant_digits.is_some();
        if self.finest_abs_error.is_some() && !relative {
            return Err(Error::usage("finest_abs_error without a relative bound means nothing")
                .mend("add max_rel_error, significant_bits or significant_digits, or use max_abs_error"));
        }
        Ok(())
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
        })
    }
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
        for item in text.split(',') {
            let refuse = || {
                Error::usage(format!("quality '{}' is not understood", item.trim()))
                    .mend("write 'lossless' or bounds such as 'max_abs_error=0.01, significant_digits=4'")
            };
            let (name, value) = item.split_once('=').ok_or_else(refuse)?;
            let value = value.trim();
            let float = || value.parse::<f64>().map(Some).map_err(|_| refuse());
            let count = || value.parse::<u32>().map(Some).map_err(|_| refuse());
            match name.trim() {
                "max_abs_error" => quality.max_abs_error = float()?,
                "max_range_error" => quality.max_range_error = float()?,
                "max_rel_error" => quality.max_rel_error = float()?,
                "finest_abs_error" => quality.finest_abs_error = float()?,
                "significant_bits" => quality.significant_bits = count()?,
                "significant_digits" => quality.significant_digits = count()?,
                _ => return Err(refuse()),
            }
        }
        Ok(quality)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let quality = Quality { max_abs_error: Some(0.1), significant_digits: Some(4), ..Quality::LOSSLESS };
        assert_eq!(quality.to_string().parse::<Quality>().unwrap(), quality);
        assert_eq!("lossless".parse::<Quality>().unwrap(), Quality::LOSSLESS);
        for text in ["", "max_abs_error", "max_abs_error=x", "tolerance=1", "significant_bits=1.5"] {
            assert!(text.parse::<Quality>().unwrap_err().advice().is_some(), "{text}");
        }
    }
}
