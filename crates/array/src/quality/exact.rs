//! Protected value ranges: values that stay exact whatever the bounds allow.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::array::DType;
use crate::error::{Error, Result};

/// Values that keep their bits under every bound, and that no other value may become. Both parts hold together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Exact {
    /// Values up to this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<f64>,
    /// Values from this on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
}

impl Exact {
    /// Checks that the limits are numbers and leave something that may change.
    ///
    /// # Errors
    /// `Usage` for limits that are not finite or that cover every value.
    pub(super) fn validate(self) -> Result<()> {
        for (name, limit) in [("exact_up_to", self.up_to), ("exact_from", self.from)] {
            let Some(limit) = limit else { continue };
            if !limit.is_finite() {
                return Err(Error::usage(format!("{name} is {limit}")).hint("give a finite number, or leave it out"));
            }
        }
        match (self.up_to, self.from) {
            (Some(up_to), Some(from)) if from <= up_to => {
                Err(Error::usage(format!("exact_up_to {up_to} and exact_from {from} leave no value that may change"))
                    .hint("make exact_from larger than exact_up_to, or ask for lossless"))
            }
            _ => Ok(()),
        }
    }

    /// The limits as elements of this type have them: 0.1 stands for the `f32` nearest to it where the data are `f32`.
    pub fn limits(self, dtype: DType) -> Limits {
        #[expect(clippy::cast_possible_truncation, reason = "rounding to the type of the data is the purpose")]
        let of_type = |limit: f64| if dtype == DType::F32 { f64::from(limit as f32) } else { limit };
        Limits { up_to: self.up_to.map_or(f64::NEG_INFINITY, of_type), from: self.from.map_or(f64::INFINITY, of_type) }
    }
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.up_to, self.from) {
            (Some(up_to), Some(from)) => write!(f, "values up to {up_to} and values from {from} on"),
            (Some(up_to), None) => write!(f, "values up to {up_to}"),
            (None, Some(from)) => write!(f, "values from {from} on"),
            (None, None) => f.write_str("no values"),
        }
    }
}

/// [`Exact`] resolved for a type; infinite where nothing was asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Largest of the small values that stay exact.
    pub up_to: f64,
    /// Smallest of the large values that stay exact.
    pub from: f64,
}

impl Limits {
    /// True if the value must keep its bits. What this says of NaN and infinities does not matter: they do in any case.
    #[inline]
    pub fn protects(self, value: f64) -> bool {
        value <= self.up_to || value >= self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::Quality;

    #[test]
    fn limits_are_those_of_the_type_of_the_data() {
        let exact = Exact { up_to: Some(0.3), from: Some(0.7) };
        let (single, double) = (exact.limits(DType::F32), exact.limits(DType::F64));
        // The nearest f32 lies above 0.3 and below 0.7, and both are protected.
        assert!(single.protects(f64::from(0.3f32)) && single.protects(f64::from(0.7f32)));
        assert!(!double.protects(f64::from(0.3f32)) && double.protects(0.3) && double.protects(0.7));
        assert!(!single.protects(0.5) && !Exact::default().limits(DType::F32).protects(-1e30));
    }

    #[test]
    fn nonsense_is_refused_with_advice() {
        let refused = |up_to, from| Exact { up_to, from }.validate().unwrap_err().advice().is_some();
        assert!(refused(Some(f64::NAN), None));
        assert!(refused(None, Some(f64::INFINITY)));
        assert!(refused(Some(5.0), Some(5.0)));
        assert!(Exact { up_to: Some(4.0), from: Some(5.0) }.validate().is_ok());
        assert!(Exact::default().validate().is_ok());
        let alone = Quality { exact_up_to: Some(5.0), ..Quality::LOSSLESS };
        assert!(alone.validate(DType::F32).unwrap_err().advice().is_some());
        assert!(Quality::LOSSLESS.validate(DType::F32).is_ok());
    }
}
