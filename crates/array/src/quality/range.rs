//! Valid range of values: what a range-relative bound is a fraction of.

use super::Limits;
use crate::array::{ArraySpec, DType, Endian};

/// Smallest and largest finite value that is neither a fill value nor within `exact`, of floating-point elements in
/// stored byte order. `None` if there are none or the type is not floating point.
pub(super) fn valid_range(spec: &ArraySpec, bytes: &[u8], exact: Limits) -> Option<(f64, f64)> {
    let missing = spec.missing();
    let counts = |(bits, value): (u64, f64)| {
        (value.is_finite() && !missing.contains(&bits) && !exact.protects(value)).then_some(value)
    };
    let (singles, doubles) = (bytes.as_chunks::<4>().0, bytes.as_chunks::<8>().0);
    let (low, high) = match (spec.dtype, spec.endian) {
        (DType::F32, Endian::Little) => fold(singles, |b| counts(single(u32::from_le_bytes(b)))),
        (DType::F32, Endian::Big) => fold(singles, |b| counts(single(u32::from_be_bytes(b)))),
        (DType::F64, Endian::Little) => fold(doubles, |b| counts(double(u64::from_le_bytes(b)))),
        (DType::F64, Endian::Big) => fold(doubles, |b| counts(double(u64::from_be_bytes(b)))),
        _ => return None,
    };
    (low <= high).then_some((low, high))
}

fn single(bits: u32) -> (u64, f64) {
    (u64::from(bits), f64::from(f32::from_bits(bits)))
}

fn double(bits: u64) -> (u64, f64) {
    (bits, f64::from_bits(bits))
}

fn fold<const N: usize>(elements: &[[u8; N]], value: impl Fn([u8; N]) -> Option<f64>) -> (f64, f64) {
    let valid = elements.iter().filter_map(|&bytes| value(bytes));
    valid.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::{Exact, Quality};

    #[test]
    fn specials_fills_and_what_stays_exact_do_not_count() {
        let mut spec = ArraySpec::new(DType::F32, [5]);
        spec.fills.push(u64::from(1e20f32.to_bits()));
        let bytes: Vec<u8> =
            [1e20f32, f32::NAN, f32::INFINITY, -3.0, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(Quality::LOSSLESS.valid_range(&spec, &bytes), Some((-3.0, 2.0)));
        assert_eq!(
            Quality { exact_up_to: Some(-3.0), ..Quality::LOSSLESS }.valid_range(&spec, &bytes),
            Some((2.0, 2.0))
        );
        let none = Exact::default().limits(DType::I32);
        assert_eq!(valid_range(&ArraySpec::new(DType::I32, [1]), &[0; 4], none), None);
    }
}
