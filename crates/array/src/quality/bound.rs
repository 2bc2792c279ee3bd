//! Bounds resolved for one variable, and the proof that they hold.

use serde::{Deserialize, Serialize};

use super::Exact;
use crate::array::{ArraySpec, DType, Endian};
use crate::error::{Error, ErrorKind, Result};

/// A quality resolved for one variable. All parts hold together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Largest absolute error; infinite if not asked for.
    #[serde(with = "unbounded")]
    pub abs: f64,
    /// Largest error relative to each value; infinite if not asked for.
    #[serde(with = "unbounded")]
    pub rel: f64,
    /// Explicit mantissa bits that stay right: error at most half a unit of the last of them.
    pub bits: Option<u32>,
    /// Decimal digits that stay right: error at most half a unit of the last of them.
    pub digits: Option<u32>,
    /// The relative parts never ask for less than this absolute error.
    pub finest: f64,
    /// Values that stay exact whatever the other parts allow.
    #[serde(default)]
    pub exact: Exact,
}

/// Numbers in JSON, which has no infinity: `null` stands for it.
mod unbounded {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(value).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
    }
}

/// Errors observed between an original and its decoded form.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Observed {
    /// Largest absolute error.
    pub max_abs: f64,
    /// Largest error relative to the original value; values equal to zero are left out.
    #[serde(with = "unbounded")]
    pub max_rel: f64,
    /// Index of the element with the largest absolute error.
    pub worst: usize,
    /// Number of elements whose bits changed.
    pub changed: u64,
}

impl Observed {
    /// Joins what was observed on two chunks; `worst` stays that of the larger error.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let worst = if other.max_abs > self.max_abs { other.worst } else { self.worst };
        Self {
            max_abs: self.max_abs.max(other.max_abs),
            max_rel: self.max_rel.max(other.max_rel),
            worst,
            changed: self.changed + other.changed,
        }
    }
}

/// The first element that breaks a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miss {
    /// Its index, row-major.
    pub index: usize,
    /// What became of it, and what it should have kept.
    pub why: String,
}

impl Bound {
    /// Allows every error: what measures without judging starts from it.
    pub const NONE: Self = Self {
        abs: f64::INFINITY,
        rel: f64::INFINITY,
        bits: None,
        digits: None,
        finest: 0.0,
        exact: Exact { up_to: None, from: None },
    };

    /// Largest error allowed for the value `x`, if it is not among those that stay exact; 0 for NaN and infinities.
    pub fn tolerance(&self, x: f64) -> f64 {
        let size = x.abs();
        if !size.is_finite() {
            return 0.0;
        }
        let mut relative = f64::INFINITY;
        if self.rel.is_finite() {
            relative = self.rel * size;
        }
        if let Some(bits) = self.bits {
            relative = relative.min(half_unit_of_bit(size, bits));
        }
        if let Some(digits) = self.digits {
            relative = relative.min(half_unit_of_digit(size, digits));
        }
        relative.max(self.finest).min(self.abs)
    }

    /// True if one absolute tolerance serves every value.
    pub fn is_uniform(&self) -> bool {
        self.rel.is_infinite() && self.bits.is_none() && self.digits.is_none()
    }

    /// Proves the bound for every element of `decoded` against `original`, both in the stored byte order of
    /// `spec`. NaN, ±Inf, fill values and values that stay exact must keep their bits, and no other value may become
    /// one of them.
    ///
    /// # Errors
    /// `Quality` naming the first element that fails; `Internal` if the lengths or the type do not fit.
    pub fn check(&self, spec: &ArraySpec, original: &[u8], decoded: &[u8]) -> Result<Observed> {
        self.find_miss(spec, original, decoded)?
            .map_err(|Miss { index, why }| Error::new(ErrorKind::Quality, format!("element {index}: {why}")))
    }

    /// As [`Bound::check`], with the element that fails as a value.
    ///
    /// # Errors
    /// `Internal` if the lengths or the type do not fit.
    pub(super) fn find_miss(
        &self,
        spec: &ArraySpec,
        original: &[u8],
        decoded: &[u8],
    ) -> Result<std::result::Result<Observed, Miss>> {
        if original.len() != decoded.len() || original.len() != spec.byte_len() {
            return Err(Error::internal("arrays of different length compared"));
        }
        Ok(match (spec.dtype, spec.endian) {
            (DType::F32, Endian::Little) => self.check_as(spec, original, decoded, |b| f32::from_le_bytes(b).to_bits()),
            (DType::F32, Endian::Big) => self.check_as(spec, original, decoded, |b| f32::from_be_bytes(b).to_bits()),
            (DType::F64, Endian::Little) => self.check_as(spec, original, decoded, |b| f64::from_le_bytes(b).to_bits()),
            (DType::F64, Endian::Big) => self.check_as(spec, original, decoded, |b| f64::from_be_bytes(b).to_bits()),
            _ => return Err(Error::internal(format!("an error bound was checked for type {}", spec.dtype))),
        })
    }

    fn check_as<const N: usize, B: FloatBits>(
        &self,
        spec: &ArraySpec,
        original: &[u8],
        decoded: &[u8],
        bits: impl Fn([u8; N]) -> B,
    ) -> std::result::Result<Observed, Miss> {
        let mut observed = Observed::default();
        let (uniform, exact) = (self.is_uniform(), self.exact.limits(spec.dtype));
        let missing = spec.missing();
        let pairs = original.as_chunks::<N>().0.iter().zip(decoded.as_chunks::<N>().0);
        for (index, (&a, &b)) in pairs.enumerate() {
            if a == b {
                continue;
            }
            observed.changed += 1;
            let (a, b) = (bits(a), bits(b));
            let (x, y) = (a.value(), b.value());
            let error = (x - y).abs();
            let tolerance = if uniform { self.abs } else { self.tolerance(x) };
            let special = !x.is_finite() || missing.contains(&a.wide()) || missing.contains(&b.wide());
            let protected = exact.protects(x) || exact.protects(y);
            if special || protected || error > tolerance || error.is_nan() {
                let why = if special {
                    format!("{x} became {y}; missing and non-finite values must stay exact")
                } else if protected {
                    format!("{x} became {y}; {} must stay exact", self.exact)
                } else {
                    format!("{x} became {y}, error {error:e} exceeds {tolerance:e}")
                };
                return Err(Miss { index, why });
            }
            if error > observed.max_abs {
                observed.max_abs = error;
                observed.worst = index;
            }
            if x != 0.0 {
                observed.max_rel = observed.max_rel.max(error / x.abs());
            }
        }
        Ok(observed)
    }
}

trait FloatBits: Copy {
    fn value(self) -> f64;
    fn wide(self) -> u64;
}

impl FloatBits for u32 {
    fn value(self) -> f64 {
        f64::from(f32::from_bits(self))
    }
    fn wide(self) -> u64 {
        u64::from(self)
    }
}

impl FloatBits for u64 {
    fn value(self) -> f64 {
        f64::from_bits(self)
    }
    fn wide(self) -> u64 {
        self
    }
}

/// Half a unit of the last of `bits` explicit mantissa bits of `size`; 0 for zero.
pub(super) fn half_unit_of_bit(size: f64, bits: u32) -> f64 {
    if size == 0.0 {
        return 0.0;
    }
    let exponent = exponent(size);
    2f64.powi(exponent - i32::try_from(bits).unwrap_or(i32::MAX) - 1)
}

/// Half a unit of the last of `digits` significant decimal digits of `size`; 0 for zero.
pub(super) fn half_unit_of_digit(size: f64, digits: u32) -> f64 {
    if size == 0.0 {
        return 0.0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a decimal exponent of f64 is within ±324")]
    let mut leading = size.log10().floor() as i32;
    // log10 may round across a power of ten; the digit position is what decides.
    if 10f64.powi(leading) > size {
        leading -= 1;
    }
    0.5 * 10f64.powi(leading + 1 - i32::try_from(digits).unwrap_or(i32::MAX))
}

/// Binary exponent of a finite value above zero, subnormals included.
fn exponent(size: f64) -> i32 {
    let raw = i32::try_from(size.to_bits() >> 52).unwrap_or(0) & 0x7FF;
    if raw > 0 {
        return raw - 1023;
    }
    let leading = i32::try_from((size.to_bits() << 12).leading_zeros()).unwrap_or(0);
    -1023 - leading
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::Quality;

    fn f32_bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn check(quality: Quality, fills: &[f32], a: &[f32], b: &[f32]) -> Result<Observed> {
        let mut spec = ArraySpec::new(DType::F32, [a.len()]);
        spec.fills = fills.iter().map(|fill| u64::from(fill.to_bits())).collect();
        quality.bound(Some((0.0, 100.0))).unwrap().check(&spec, &f32_bytes(a), &f32_bytes(b))
    }

    fn abs(max: f64) -> Quality {
        Quality { max_abs_error: Some(max), ..Quality::LOSSLESS }
    }

    #[test]
    fn absolute_bound_holds_and_breaks() {
        let seen = check(abs(0.1), &[], &[1.0, 2.0], &[1.05, 2.0]).unwrap();
        assert!((seen.max_abs - 0.05).abs() < 1e-6 && seen.changed == 1 && seen.worst == 0);
        assert!(check(abs(0.01), &[], &[1.0], &[1.05]).is_err());
    }

    #[test]
    fn specials_and_fills_must_keep_their_bits() {
        for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(check(abs(1e9), &[], &[special], &[1.0]).is_err());
            assert!(check(abs(1e9), &[], &[1.0], &[special]).is_err());
        }
        assert!(check(abs(1e9), &[9.0], &[9.0], &[9.5]).is_err(), "a fill value changed");
        assert!(check(abs(1e9), &[9.0], &[9.5], &[9.0]).is_err(), "a value became the fill value");
        // Readers compare values, and zeros are equal.
        assert!(
            check(abs(1.0), &[0.0], &[-0.3], &[-0.0]).is_err() && check(abs(1.0), &[-0.0], &[0.3], &[0.0]).is_err()
        );
        assert!(check(abs(0.0001), &[], &[-0.0], &[0.0]).is_ok());
    }

    #[test]
    fn values_in_a_protected_range_keep_their_bits_and_none_enters_it() {
        let quality = Quality { exact_up_to: Some(-0.1), exact_from: Some(5.0), ..abs(1.0) };
        for (x, y) in [(5.0, 5.1), (7.0, 6.5), (4.9, 5.0), (-0.1, -0.2), (-3.0, -2.9), (0.0, -0.1)] {
            let why = check(quality, &[], &[1.0, x], &[1.0, y]).unwrap_err().to_string();
            assert!(why.contains("element 1") && why.contains("values from 5 on must stay exact"), "{why}");
        }
        assert!(check(quality, &[], &[5.0, 4.9, -0.1, 0.0], &[5.0, 4.5, -0.1, -0.05]).is_ok());
    }

    #[test]
    fn all_stated_bounds_hold_together() {
        let both = Quality { max_abs_error: Some(1.0), max_rel_error: Some(0.001), ..Quality::LOSSLESS };
        assert!(check(both, &[], &[10.0], &[10.5]).is_err());
        assert!(check(both, &[], &[1e6], &[1e6 + 2.0]).is_err());
        assert!(check(both, &[], &[100.0], &[100.05]).is_ok());
        let finest = Quality { max_rel_error: Some(0.001), finest_abs_error: Some(0.01), ..Quality::LOSSLESS };
        assert!(check(finest, &[], &[0.5], &[0.505]).is_ok(), "near zero the finest tolerance serves");
        assert!(check(finest, &[], &[1000.0], &[1000.9]).is_ok());
        let range = Quality { max_range_error: Some(0.001), ..Quality::LOSSLESS };
        assert!(check(range, &[], &[5.0], &[5.09]).is_ok());
        assert!(check(range, &[], &[5.0], &[5.11]).is_err());
    }

    #[test]
    fn digits_and_bits_count_as_the_conventions_do() {
        let digits = Bound { digits: Some(3), ..Bound::NONE };
        assert_eq!(digits.tolerance(123.0), 0.5);
        assert_eq!(digits.tolerance(1000.0), 5.0);
        assert!((digits.tolerance(0.0123) - 0.00005).abs() < 1e-18);
        let bits = Bound { bits: Some(4), digits: None, ..digits };
        assert_eq!(bits.tolerance(1.0), 1.0 / 32.0);
        assert_eq!(bits.tolerance(3.9), 2.0 / 32.0);
        assert_eq!(exponent(f64::from_bits(1)), -1074);
    }

    #[test]
    fn json_round_trips() {
        let bounds = [Bound { abs: 0.5, exact: Exact { up_to: None, from: Some(3.0) }, ..Bound::NONE }, Bound::NONE];
        for bound in bounds {
            let text = serde_json::to_string(&bound).unwrap();
            assert_eq!(serde_json::from_str::<Bound>(&text).unwrap(), bound, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(abs(-1.0).validate(DType::F32).is_err());
        assert!(abs(f64::NAN).validate(DType::F32).is_err());
        assert!(abs(0.1).validate(DType::I16).is_err());
        assert!(Quality::LOSSLESS.validate(DType::I16).is_ok());
        let lone = Quality { finest_abs_error: Some(0.1), ..Quality::LOSSLESS };
        assert!(lone.validate(DType::F32).is_err());
    }
}
