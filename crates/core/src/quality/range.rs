//! Valid range of values: what a range-relative bound is a fraction of.

use crate::array::{ArraySpec, DType, Endian};

/// Smallest and largest finite value that is not a fill value, of floating-point elements in stored byte order.
/// `None` if there are none or the type is not floating point.
pub fn valid_range(spec: &ArraySpec, bytes: &[u8]) -> Option<(f64, f64)> {
    let (low, high) = match (spec.dtype, spec.endian) {
        (DType::F32, Endian::Little) => fold(spec, bytes.as_chunks::<4>().0, |b| single(u32::from_le_bytes(b))),
        (DType::F32, Endian::Big) => fold(spec, bytes.as_chunks::<4>().0, |b| single(u32::from_be_bytes(b))),
        (DType::F64, Endian::Little) => fold(spec, bytes.as_chunks::<8>().0, |b| double(u64::from_le_bytes(b))),
        (DType::F64, Endian::Big) => fold(spec, bytes.as_chunks::<8>().0, |b| double(u64::from_be_bytes(b))),
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

fn fold<const N: usize>(spec: &ArraySpec, elements: &[[u8; N]], read: impl Fn([u8; N]) -> (u64, f64)) -> (f64, f64) {
    elements.iter().map(|&bytes| read(bytes)).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (bits, value)| {
        if value.is_finite() && !spec.fills.contains(&bits) { (low.min(value), high.max(value)) } else { (low, high) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specials_and_fills_do_not_count() {
        let mut spec = ArraySpec::new(DType::F32, [5]);
        spec.fills.push(u64::from(1e20f32.to_bits()));
        let bytes: Vec<u8> =
            [1e20f32, f32::NAN, f32::INFINITY, -3.0, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(valid_range(&spec, &bytes), Some((-3.0, 2.0)));
        assert_eq!(valid_range(&ArraySpec::new(DType::I32, [1]), &[0; 4]), None);
    }
}
