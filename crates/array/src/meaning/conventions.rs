//! What the attributes of a variable mean for bounds (netCDF User Guide, "Attribute Conventions"; CF conventions,
//! sections 2.5 and 8.1): values outside its valid range are missing, and its unit is that of unpacked values.

use crate::array::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{AttributeValue, Variable};
use crate::quality::Quality;

/// `quality`, which is about unpacked values, for the stored values of `variable`; and so that values outside its valid
/// range stay as they are, and none inside it leaves it. Lossless if that leaves none that may change.
///
/// # Errors
/// `Quality` if a bound on unpacked values is none on stored ones.
pub fn for_stored_values(quality: Quality, variable: &Variable) -> Result<Quality> {
    if quality.is_lossless() {
        return Ok(quality);
    }
    if !can_be_converted(quality, variable) {
        return Err(Error::new(
            ErrorKind::Quality,
            "its values are packed with scale_factor or add_offset: this bound does not hold for what is stored",
        )
        .hint("give max_abs_error or max_range_error, or leave this variable lossless"));
    }
    let quality = within_valid_range(packed(quality, variable), variable);
    Ok(if quality.validate_numbers().is_ok() { quality } else { Quality::LOSSLESS })
}

/// True if `quality`, which is about unpacked values, can be said of stored ones.
pub fn can_be_converted(quality: Quality, variable: &Variable) -> bool {
    let digits = quality.significant_bits.is_some() || quality.significant_digits.is_some();
    match packing(variable) {
        Some(Packing { factor, offset }) => {
            factor != 0.0 && !digits && (quality.max_rel_error.is_none() || offset == 0.0)
        }
        None => true,
    }
}

/// Unpacked values are stored ones times `factor`, plus `offset`. A factor of 0 stands for one that is none.
#[derive(Clone, Copy)]
struct Packing {
    factor: f64,
    offset: f64,
}

fn packing(variable: &Variable) -> Option<Packing> {
    let number = |name: &str, default: f64| match variable.attribute(name).map(AttributeValue::floats).as_deref() {
        None | Some([]) => Some(default),
        Some([first, rest @ ..]) => rest.iter().all(|other| other == first).then_some(*first),
    };
    let packing = match (number("scale_factor", 1.0), number("add_offset", 0.0)) {
        (Some(factor), Some(offset)) if factor.is_finite() && offset.is_finite() => Packing { factor, offset },
        _ => Packing { factor: 0.0, offset: 0.0 },
    };
    (packing.factor != 1.0 || packing.offset != 0.0).then_some(packing)
}

impl Packing {
    /// The interval of stored values that stands for the one from `low` to `high`.
    fn stored(self, low: Option<f64>, high: Option<f64>) -> (Option<f64>, Option<f64>) {
        let stored = |limit: f64| (limit - self.offset) / self.factor;
        let (low, high) = (low.map(stored), high.map(stored));
        if self.factor > 0.0 { (low, high) } else { (high, low) }
    }
}

fn packed(quality: Quality, variable: &Variable) -> Quality {
    let Some(packing) = packing(variable) else { return quality };
    let error = |error: f64| (error / packing.factor.abs()).next_down();
    let (up_to, from) = packing.stored(quality.exact_up_to, quality.exact_from);
    Quality {
        max_abs_error: quality.max_abs_error.map(error),
        finest_abs_error: quality.finest_abs_error.map(error),
        // Towards more values that stay exact: what readers compute from stored values is rounded, too.
        exact_up_to: up_to.map(|limit| next_above(limit, variable.dtype)),
        exact_from: from.map(|limit| next_below(limit, variable.dtype)),
        ..quality
    }
}

fn within_valid_range(quality: Quality, variable: &Variable) -> Quality {
    let (low, high) = valid_range(variable);
    let below = low.map(|low| next_below(low, variable.dtype)).filter(|limit| limit.is_finite());
    let above = high.map(|high| next_above(high, variable.dtype)).filter(|limit| limit.is_finite());
    Quality {
        exact_up_to: [quality.exact_up_to, below].into_iter().flatten().reduce(f64::max),
        exact_from: [quality.exact_from, above].into_iter().flatten().reduce(f64::min),
        ..quality
    }
}

/// Smallest and largest valid stored value, where there is one. Limits that leave none are a slip in the file.
fn valid_range(variable: &Variable) -> (Option<f64>, Option<f64>) {
    let attribute = |name: &str| variable.attribute(name);
    let first = |name: &str| attribute(name).and_then(|value| value.floats().first().copied());
    let range = attribute("valid_range").map(AttributeValue::floats);
    let (low, high, name) = match range.as_deref() {
        Some(&[low, high]) => (Some(low), Some(high), "valid_range"),
        _ if attribute("valid_min").is_some() => (first("valid_min"), first("valid_max"), "valid_min"),
        _ => (None, first("valid_max"), "valid_max"),
    };
    let (low, high) = match packing(variable) {
        Some(packing) if packing.factor != 0.0 && is_of_unpacked(attribute(name), variable) => {
            packing.stored(low, high)
        }
        _ => (low, high),
    };
    if low.zip(high).is_some_and(|(low, high)| low > high) { (None, None) } else { (low, high) }
}

/// True for a limit that has the type of the factor, which is not that of the variable: it is one of unpacked values.
fn is_of_unpacked(limit: Option<&AttributeValue>, variable: &Variable) -> bool {
    let dtype = |value: Option<&AttributeValue>| match value {
        Some(AttributeValue::Numbers { dtype, .. }) => Some(*dtype),
        _ => None,
    };
    let factor = dtype(variable.attribute("scale_factor").or_else(|| variable.attribute("add_offset")));
    factor.is_some() && factor != Some(variable.dtype) && dtype(limit) == factor
}

/// The smallest value of this type above `limit`.
fn next_above(limit: f64, dtype: DType) -> f64 {
    if dtype != DType::F32 {
        return limit.next_up();
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the type of the data is the purpose")]
    let single = limit as f32;
    f64::from(if f64::from(single) > limit { single } else { single.next_up() })
}

/// The largest value of this type below `limit`.
fn next_below(limit: f64, dtype: DType) -> f64 {
    -next_above(-limit, dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Attribute;

    fn variable(dtype: DType, attributes: &[(&str, &[f64])]) -> Variable {
        let attribute = |(name, values): &(&str, &[f64])| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let value = AttributeValue::Numbers { dtype: DType::F64, bytes, scalar: false };
            Attribute { name: (*name).to_owned(), value }
        };
        let attributes = attributes.iter().map(attribute).collect();
        Variable { attributes, ..Variable::plain("/v", dtype, vec![4]) }
    }

    fn stored(quality: &str, attributes: &[(&str, &[f64])]) -> Result<Quality> {
        for_stored_values(quality.parse()?, &variable(DType::F64, attributes))
    }

    #[test]
    fn values_outside_the_valid_range_stay_and_none_leaves_it() {
        let found = stored("max_abs_error=1", &[("valid_range", &[0.0, 2.5])]).unwrap();
        assert_eq!((found.exact_up_to, found.exact_from), (Some(0.0f64.next_down()), Some(2.5f64.next_up())));
        let found = stored("max_abs_error=1, exact_from=2", &[("valid_max", &[2.5])]).unwrap();
        assert_eq!((found.exact_up_to, found.exact_from), (None, Some(2.0)));
        // What a single-precision value above the limit is, is decided in single precision.
        let limit = f64::from(2.9f32);
        let found =
            for_stored_values("max_abs_error=1".parse().unwrap(), &variable(DType::F32, &[("valid_max", &[limit])]));
        assert_eq!(found.unwrap().exact_from, Some(f64::from(2.9f32.next_up())));
        for nonsense in [&[3.0, 2.0][..], &[f64::NAN, f64::NAN], &[f64::NEG_INFINITY, f64::INFINITY], &[1.0]] {
            assert_eq!(stored("max_abs_error=1", &[("valid_range", nonsense)]).unwrap().to_string(), "max_abs_error=1");
        }
        assert_eq!(stored("lossless", &[("valid_max", &[2.5])]).unwrap(), Quality::LOSSLESS);
        // What stays exact by wish and what by the range leave nothing.
        assert_eq!(stored("max_abs_error=1, exact_up_to=5", &[("valid_max", &[3.0])]).unwrap(), Quality::LOSSLESS);
    }

    #[test]
    fn limits_of_the_type_of_the_factor_are_limits_of_unpacked_values() {
        let quality = "max_abs_error=0.1".parse().unwrap();
        let packing: [(&str, &[f64]); 2] = [("scale_factor", &[-0.5]), ("valid_range", &[0.0, 30.0])];
        let found = for_stored_values(quality, &variable(DType::F32, &packing)).unwrap();
        assert_eq!(
            (found.exact_up_to, found.exact_from),
            (Some(f64::from((-60f32).next_down())), Some(1e-45f32.into()))
        );
        let found = for_stored_values(quality, &variable(DType::F64, &packing)).unwrap();
        assert_eq!(found.exact_from, Some(30.0f64.next_up()));
    }

    #[test]
    fn bounds_are_about_unpacked_values() {
        let found = stored("max_abs_error=5, exact_from=300", &[("scale_factor", &[-100.0]), ("add_offset", &[100.0])]);
        let found = found.unwrap();
        assert_eq!(found.max_abs_error, Some(0.05f64.next_down()));
        assert_eq!((found.exact_up_to, found.exact_from), (Some((-2.0f64).next_up()), None));
        assert!(stored("max_rel_error=0.1", &[("scale_factor", &[7.0])]).is_ok());
        assert!(stored("max_rel_error=0.1", &[("add_offset", &[7.0])]).unwrap_err().advice().is_some());
        assert!(stored("significant_bits=7", &[("scale_factor", &[7.0])]).is_err());
        assert!(stored("significant_bits=7", &[("scale_factor", &[1.0]), ("add_offset", &[0.0])]).is_ok());
        for strange in [&[0.1, 100.0][..], &[0.0], &[f64::NAN]] {
            assert!(stored("max_abs_error=1", &[("scale_factor", strange)]).is_err(), "{strange:?}");
        }
        // An error that no stored value can have.
        assert_eq!(stored("max_abs_error=1e-300", &[("scale_factor", &[1e300])]).unwrap(), Quality::LOSSLESS);
    }
}
