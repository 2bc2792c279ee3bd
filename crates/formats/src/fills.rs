//! Fill values: from attributes to bit patterns.

use knarr_array::array::DType;
use knarr_array::model::{Attribute, AttributeValue};

/// Attributes whose values mean 'missing' (CF conventions, section 2.5.1).
const FILL_ATTRIBUTES: [&str; 2] = ["_FillValue", "missing_value"];

/// Bit patterns of all values that mean 'missing': attributes first, then `format_fill`; none twice.
pub(crate) fn collect(dtype: DType, attributes: &[Attribute], format_fill: Option<u64>) -> Vec<u64> {
    let mut fills = Vec::new();
    let stated = FILL_ATTRIBUTES.iter().flat_map(|name| attribute_bits(dtype, attributes, name));
    for fill in stated.chain(format_fill) {
        if dtype.is_number() && !fills.contains(&fill) {
            fills.push(fill);
        }
    }
    fills
}

/// Zero-extended bit patterns of the values of attribute `name` in the variable's type. Values of another type
/// count if they convert exactly.
pub(crate) fn attribute_bits(dtype: DType, attributes: &[Attribute], name: &str) -> Vec<u64> {
    match attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value) {
        Some(AttributeValue::Numbers { dtype: given, bytes, .. }) if given.size() > 0 => {
            bytes.chunks_exact(given.size()).filter_map(|element| convert(little(element), *given, dtype)).collect()
        }
        _ => Vec::new(),
    }
}

fn little(element: &[u8]) -> u64 {
    element.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))
}

/// A number of any type, wide enough to be compared exactly.
enum Number {
    Int(i128),
    Float(f64),
}

#[expect(clippy::cast_possible_truncation, reason = "bits are cut to the width of their type on purpose")]
fn widen(bits: u64, dtype: DType) -> Option<Number> {
    Some(match dtype {
        DType::I8 => Number::Int(i128::from(bits as u8 as i8)),
        DType::I16 => Number::Int(i128::from(bits as u16 as i16)),
        DType::I32 => Number::Int(i128::from(bits as u32 as i32)),
        DType::I64 => Number::Int(i128::from(bits as i64)),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => Number::Int(i128::from(bits)),
        DType::F32 => Number::Float(f64::from(f32::from_bits(bits as u32))),
        DType::F64 => Number::Float(f64::from_bits(bits)),
        DType::F16 | DType::Opaque(_) => return None,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "every cast is checked by its reverse"
)]
#[expect(clippy::cast_sign_loss, reason = "bit patterns are kept zero-extended")]
fn convert(bits: u64, from: DType, to: DType) -> Option<u64> {
    if from == to {
        return Some(bits);
    }
    let number = widen(bits, from)?;
    let int = match number {
        Number::Int(value) => Some(value),
        Number::Float(value) => Some(value as i128).filter(|&int| int as f64 == value),
    };
    let fits = |min: i128, max: i128| int.filter(|value| (min..=max).contains(value));
    match to {
        DType::I8 => fits(i8::MIN.into(), i8::MAX.into()).map(|v| u64::from(v as i8 as u8)),
        DType::I16 => fits(i16::MIN.into(), i16::MAX.into()).map(|v| u64::from(v as i16 as u16)),
        DType::I32 => fits(i32::MIN.into(), i32::MAX.into()).map(|v| u64::from(v as i32 as u32)),
        DType::I64 => fits(i64::MIN.into(), i64::MAX.into()).map(|v| v as i64 as u64),
        DType::U8 => fits(0, u8::MAX.into()).map(|v| v as u64),
        DType::U16 => fits(0, u16::MAX.into()).map(|v| v as u64),
        DType::U32 => fits(0, u32::MAX.into()).map(|v| v as u64),
        DType::U64 => fits(0, u64::MAX.into()).map(|v| v as u64),
        DType::F32 => match number {
            // A double 1e20 beside float data means the nearest float: that is what writers stored.
            Number::Float(value) => Some(u64::from((value as f32).to_bits())),
            Number::Int(value) => Some(value as f32).filter(|f| *f as i128 == value).map(|f| u64::from(f.to_bits())),
        },
        DType::F64 => match number {
            Number::Float(value) => Some(value.to_bits()),
            Number::Int(value) => Some(value as f64).filter(|f| *f as i128 == value).map(f64::to_bits),
        },
        DType::F16 | DType::Opaque(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_another_type_count_if_they_convert() {
        let attribute = |dtype, bytes: &[u8]| {
            vec![Attribute {
                name: "missing_value".to_owned(),
                value: AttributeValue::Numbers { dtype, bytes: bytes.to_vec(), scalar: true },
            }]
        };
        let double = attribute(DType::F64, &1e20f64.to_le_bytes());
        assert_eq!(collect(DType::F32, &double, None), [u64::from(1e20f32.to_bits())]);
        assert!(collect(DType::I16, &double, None).is_empty());
        let short = attribute(DType::I16, &(-999i16).to_le_bytes());
        assert_eq!(collect(DType::I32, &short, Some(7)), [u64::from((-999i32) as u32), 7]);
        assert_eq!(collect(DType::F64, &short, None), [(-999f64).to_bits()]);
        assert!(collect(DType::U8, &short, None).is_empty());
    }
}
