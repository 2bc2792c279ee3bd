//! From the numbers that patterns are computed in to a variable's own type.

use half::f16;

use super::spec::Range;
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};

/// Appends `values` in type `dtype`, little-endian. Integers are rounded; what is beyond the type becomes its limit.
/// Nothing is appended for types that are no numbers.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate, or find the nearest")]
pub(super) fn append(values: &[f64], dtype: DType, out: &mut Vec<u8>) {
    macro_rules! integers {
        ($type:ty) => {
            values.iter().for_each(|value| out.extend_from_slice(&(value.round() as $type).to_le_bytes()))
        };
    }
    match dtype {
        DType::I8 => integers!(i8),
        DType::I16 => integers!(i16),
        DType::I32 => integers!(i32),
        DType::I64 => integers!(i64),
        DType::U8 => integers!(u8),
        DType::U16 => integers!(u16),
        DType::U32 => integers!(u32),
        DType::U64 => integers!(u64),
        DType::F16 => values.iter().for_each(|value| {
            let limit = f64::from(f16::MAX);
            out.extend_from_slice(&f16::from_f64(value.clamp(-limit, limit)).to_le_bytes());
        }),
        DType::F32 => values.iter().for_each(|value| {
            let value = value.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
            out.extend_from_slice(&value.to_le_bytes());
        }),
        DType::F64 => values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes())),
        DType::Opaque(_) => {}
    }
}

/// Bit pattern, zero-extended, of `value` in type `dtype`.
pub(super) fn bits(value: f64, dtype: DType) -> u64 {
    let mut bytes = Vec::with_capacity(8);
    append(&[value], dtype, &mut bytes);
    bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// The smallest and the largest finite value of a type.
pub(super) fn limits(dtype: DType) -> Range {
    let symmetric = |high: f64| Range { low: -high, high };
    let size = i32::try_from(8 * dtype.size()).unwrap_or(64);
    match dtype {
        DType::F16 => symmetric(f64::from(f16::MAX)),
        DType::F32 => symmetric(f64::from(f32::MAX)),
        DType::F64 | DType::Opaque(_) => symmetric(f64::MAX),
        _ if dtype.is_signed() => Range { low: -(2f64.powi(size - 1)), high: 2f64.powi(size - 1) - 1.0 },
        _ => Range { low: 0.0, high: 2f64.powi(size) - 1.0 },
    }
}

/// Checks that a type has `value`: integers exactly, floats the nearest.
///
/// # Errors
/// `Usage` with what the type holds.
pub(super) fn check(what: &str, value: f64, dtype: DType) -> Result<()> {
    let limits = limits(dtype);
    let fits = if dtype.is_integer() {
        value.fract() == 0.0 && (limits.low..=limits.high).contains(&value)
    } else {
        !value.is_finite() || (limits.low..=limits.high).contains(&value)
    };
    if fits {
        return Ok(());
    }
    let numbers = if dtype.is_integer() { "whole numbers" } else { "numbers" };
    Err(Error::usage(format!("{what} {value} is no {dtype}"))
        .hint(format!("the type holds {numbers} from {} to {}", limits.low, limits.high)))
}

/// The range that suits a type, where neither the user nor the pattern says one.
pub(super) fn usual_range(dtype: DType) -> Range {
    match dtype {
        DType::I8 | DType::U8 => Range { low: 0.0, high: 100.0 },
        _ if dtype.is_integer() => Range { low: 0.0, high: 1000.0 },
        _ => Range { low: -1.0, high: 1.0 },
    }
}

/// The value that means 'missing' where the user says none: beyond usual data, and exact in every type.
pub(super) fn usual_fill(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f64::from(f16::MAX),
        DType::F32 | DType::F64 | DType::Opaque(_) => 1e20,
        // The cast saturates: the limits of 64 bits are what the type makes of them.
        _ if dtype.is_signed() => -1e30,
        _ => 1e30,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_the_nearest_of_their_type() {
        assert_eq!(bits(-1.4, DType::I16), 0xFFFF);
        assert_eq!(bits(300.0, DType::U8), 255);
        assert_eq!(bits(usual_fill(DType::I64), DType::I64), i64::MIN.cast_unsigned());
        assert_eq!(bits(usual_fill(DType::U32), DType::U32), u64::from(u32::MAX));
        assert_eq!(bits(1e300, DType::F32), u64::from(f32::MAX.to_bits()));
        assert_eq!(bits(0.1, DType::F32), u64::from(0.1f32.to_bits()));
        assert_eq!(bits(1.5, DType::F16), 0x3E00);
        assert_eq!(bits(-0.0, DType::F64), 1 << 63);
        for dtype in DType::NUMBERS {
            let limits = limits(dtype);
            assert!(check("x", limits.low, dtype).is_ok() && check("x", limits.high, dtype).is_ok(), "{dtype}");
            assert!(check("x", usual_range(dtype).high, dtype).is_ok());
            assert_eq!(bits(limits.high, dtype), bits(f64::MAX, dtype), "{dtype}");
        }
        for (value, dtype) in
            [(300.0, DType::U8), (-1.0, DType::U64), (0.5, DType::I32), (f64::NAN, DType::I8), (1e39, DType::F32)]
        {
            assert!(check("x", value, dtype).unwrap_err().to_string().contains(&dtype.to_string()));
        }
        assert!(check("x", f64::NAN, DType::F32).is_ok());
    }
}
