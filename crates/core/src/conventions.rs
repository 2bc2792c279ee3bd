//! What the attributes of a variable mean for bounds (netCDF User Guide, "Attribute Conventions"; CF conventions,
//! sections 2.5 and 8.1): values outside its valid range are missing, and its unit is that of unpacked values.

use crate::array::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::model::Variable;
use crate::quality::Quality;

/// `quality`, which is about unpacked values, for the stored values of `variable`; and so that values outside its valid
/// range stay as they are, and none inside it leaves it.
///
/// # Errors
/// `Quality` if a bound relative to unpacked values is none for stored ones.
pub(crate) fn for_stored_values(quality: Quality, variable: &Variable) -> Result<Quality> {
    if quality.is_lossless() {
        return Ok(quality);
    }
    if !keeps_relations(quality, variable) {
        return Err(Error::new(
            ErrorKind::Quality,
            "its values are packed with scale_factor or add_offset: bounds relative to them do not hold for what is stored",
        )
        .mend("give max_abs_error or max_range_error, or leave this variable lossless"));
    }
    Ok(within_valid_range(packed(quality, variable), variable))
}

/// True if the parts of `quality` that are relative to values mean the same for stored values.
pub(crate) fn keeps_relations(quality: Quality, variable: &Variable) -> bool {
    let digits = quality.significant_bits.is_some() || quality.significant_digits.is_some();
    match packing(variable) {
        None => true,
        Some(Packing { offset, .. }) => !digits && (quality.max_rel_error.is_none() || offset == 0.0),
    }
}

/// Unpacked values are stored ones times `factor`, plus `offset`.
struct Packing {
    factor: f64,
    offset: f64,
}

fn packing(variable: &Variable) -> Option<Packing> {
    let number = |name: &str, default: f64| {
        let value = variable.attribute(name).and_then(|value| value.floats().first().copied());
        value.filter(|value| value.is_finite()).unwrap_or(default)
    };
    let packing = Packing { factor: number("scale_factor", 1.0), offset: number("add_offset", 0.0) };
    let changes = packing.factor != 1.0 || packing.offset != 0.0;
    (changes && packing.factor != 0.0).then_some(packing)
}

fn packed(quality: Quality, variable: &Variable) -> Quality {
    let Some(Packing { factor, offset }) = packing(variable) else { return quality };
    let error = |error: f64| (error / factor.abs()).next_down();
    // Towards more values that stay exact: what readers compute from stored values is rounded, too.
    let above = |limit: f64| next_above((limit - offset) / factor, variable.dtype);
    let below = |limit: f64| next_below((limit - offset) / factor, variable.dtype);
    let (up_to, from) = if factor > 0.0 {
        (quality.exact_up_to.map(above), quality.exact_from.map(below))
    } else {
        (quality.exact_from.map(above), quality.exact_up_to.map(below))
    };
    Quality {
        max_abs_error: quality.max_abs_error.map(error),
        finest_abs_error: quality.finest_abs_error.map(error),
        exact_up_to: up_to,
        exact_from: from,
        ..quality
    }
}

fn within_valid_range(quality: Quality, variable: &Variable) -> Quality {
    let numbers = |name: &str| variable.attribute(name).map(|value| value.floats()).unwrap_or_default();
    let (low, high) = match numbers("valid_range").as_slice() {
        &[low, high] => (Some(low), Some(high)),
        _ => (numbers("valid_min").first().copied(), numbers("valid_max").first().copied()),
    };
    let below = low.map(|low| next_below(low, variable.dtype)).filter(|limit| limit.is_finite());
    let above = high.map(|high| next_above(high, variable.dtype)).filter(|limit| limit.is_finite());
    let exact_up_to = [quality.exact_up_to, below].into_iter().flatten().reduce(f64::max);
    let exact_from = [quality.exact_from, above].into_iter().flatten().reduce(f64::min);
    match (exact_up_to, exact_from) {
        // Limits that leave no value are a slip in the file.
        (Some(up_to), Some(from)) if from <= up_to => quality,
        _ => Quality { exact_up_to, exact_from, ..quality },
    }
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
    use crate::model::{Attribute, AttributeValue};

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
    }
}
