//! Accuracy: what a decoded array kept of the original, in the words of a quality.

use super::bound::{half_unit_of_bit, half_unit_of_digit};
use super::{Miss, Quality};
use crate::array::{ArraySpec, ArrayView, DType, Endian};
use crate::error::{Error, Result};

/// A measure, and the element where it is worst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worst<T> {
    /// The measure over all elements.
    pub value: T,
    /// Index of the first element that reaches it, row-major; none if no element is worse than perfect.
    pub at: Option<usize>,
}

impl<T: PartialOrd + Copy> Worst<T> {
    fn new(value: T) -> Self {
        Self { value, at: None }
    }

    fn raise(&mut self, value: T, at: usize) {
        if value > self.value {
            *self = Self { value, at: Some(at) };
        }
    }
}

/// What a decoded array kept. Each measure answers the part of [`Quality`] that it is named for: where a measure is no
/// worse than that part, the part holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Accuracy {
    /// Largest absolute error. Infinite where a number became NaN or infinite, or the reverse.
    pub max_abs: Worst<f64>,
    /// That, as a fraction of the valid range of the original; `None` if nothing is valid.
    pub max_range: Option<f64>,
    /// Largest error relative to each value, over elements whose error exceeds the finest tolerance that is asked for.
    /// Infinite where a zero changed.
    pub max_rel: Worst<f64>,
    /// Largest absolute error of the elements that the finest tolerance leaves out; `None` if none is asked for.
    pub finest: Option<f64>,
    /// Explicit mantissa bits that every such element kept right; `None` for integers.
    pub bits: Option<Worst<u32>>,
    /// Decimal digits that every such element kept right; `None` for integers.
    pub digits: Option<Worst<u32>>,
    /// Largest value of the original up to which every value is exact and none was added; `None` if there is none.
    pub exact_up_to: Option<f64>,
    /// Smallest value of the original from which on the same is true.
    pub exact_from: Option<f64>,
    /// Elements whose bits changed.
    pub changed: u64,
    /// Where the quality is broken first, if it is.
    pub miss: Option<Miss>,
}

impl Accuracy {
    /// Compares `decoded`, in the byte order of `original`, with it, and judges by `quality`.
    ///
    /// # Errors
    /// `Usage` if the lengths differ; `Unsupported` for elements without values; `Quality` for a bound that elements of
    /// this type cannot have.
    pub fn measure(original: &ArrayView<'_>, decoded: &[u8], quality: &Quality) -> Result<Self> {
        let (spec, a) = (original.spec(), original.bytes());
        quality.validate(spec.dtype)?;
        if a.len() != decoded.len() {
            return Err(Error::usage(format!("{} bytes to compare with an array of {}", decoded.len(), a.len())));
        }
        let finest = quality.finest_abs_error;
        let mut found = match spec.dtype {
            DType::I8 => whole(spec, a, decoded, finest, i8::from_le_bytes),
            DType::I16 => whole(spec, a, decoded, finest, i16::from_le_bytes),
            DType::I32 => whole(spec, a, decoded, finest, i32::from_le_bytes),
            DType::I64 => whole(spec, a, decoded, finest, i64::from_le_bytes),
            DType::U8 => whole(spec, a, decoded, finest, u8::from_le_bytes),
            DType::U16 => whole(spec, a, decoded, finest, u16::from_le_bytes),
            DType::U32 => whole(spec, a, decoded, finest, u32::from_le_bytes),
            DType::U64 => whole(spec, a, decoded, finest, u64::from_le_bytes),
            DType::F16 => float(spec, a, decoded, finest, |b| half(u16::from_le_bytes(b)), (10, 3)),
            DType::F32 => float(spec, a, decoded, finest, |b| f64::from(f32::from_le_bytes(b)), (23, 7)),
            DType::F64 => float(spec, a, decoded, finest, f64::from_le_bytes, (52, 15)),
            DType::Opaque(_) => {
                return Err(Error::unsupported(format!("elements of type {} have no values", spec.dtype)));
            }
        };
        found.max_range = quality.valid_range(spec, a).map(|(low, high)| {
            let (error, half_width) = (found.max_abs.value, high / 2.0 - low / 2.0);
            if error == 0.0 { 0.0 } else { error / 2.0 / half_width }
        });
        found.miss = match quality.bound_of(spec, a) {
            Some(bound) => bound.find_miss(spec, a, decoded)?.err(),
            None => first_change(spec, a, decoded),
        };
        Ok(found)
    }
}

fn first_change(spec: &ArraySpec, a: &[u8], b: &[u8]) -> Option<Miss> {
    let index = a.iter().zip(b).position(|(a, b)| a != b)? / spec.dtype.size().max(1);
    Some(Miss { index, why: "its bits changed, and the quality is lossless".to_owned() })
}

/// Integers: differences are exact before they are rounded.
fn whole<const N: usize, T: Into<i128> + Copy>(
    spec: &ArraySpec,
    a: &[u8],
    b: &[u8],
    finest: Option<f64>,
    read: impl Fn([u8; N]) -> T,
) -> Accuracy {
    #[expect(clippy::cast_precision_loss, reason = "errors are reported with the digits of an f64")]
    let value = |bytes| read(bytes).into() as f64;
    #[expect(clippy::cast_precision_loss, reason = "as above")]
    let error = |a, b| (read(a).into() - read(b).into()).unsigned_abs() as f64;
    compare(spec, (a, b), finest, value, error, None)
}

fn float<const N: usize>(
    spec: &ArraySpec,
    a: &[u8],
    b: &[u8],
    finest: Option<f64>,
    value: impl Fn([u8; N]) -> f64,
    most: (u32, u32),
) -> Accuracy {
    let error = |a, b| {
        let (x, y) = (value(a), value(b));
        // The same infinity has the same bits and does not come here.
        match (x - y).abs() {
            error if !error.is_nan() => error,
            _ if x.is_nan() && y.is_nan() => 0.0,
            _ => f64::INFINITY,
        }
    };
    compare(spec, (a, b), finest, &value, error, Some(most))
}

/// `most` is the number of bits and digits that elements have.
fn compare<const N: usize>(
    spec: &ArraySpec,
    (a, b): (&[u8], &[u8]),
    finest: Option<f64>,
    value: impl Fn([u8; N]) -> f64,
    error: impl Fn([u8; N], [u8; N]) -> f64,
    most: Option<(u32, u32)>,
) -> Accuracy {
    let little = |mut bytes: [u8; N]| {
        if spec.endian == Endian::Big {
            bytes.reverse();
        }
        bytes
    };
    let originals = a.as_chunks::<N>().0;
    let (mut max_abs, mut max_rel, mut excused) = (Worst::new(0.0), Worst::new(0.0), 0.0f64);
    let mut bits = Worst::new(most.map_or(0, |most| most.0));
    let mut digits = Worst::new(most.map_or(0, |most| most.1));
    let (mut low, mut high, mut changed) = (f64::INFINITY, f64::NEG_INFINITY, 0);
    for (index, (&a, &b)) in originals.iter().zip(b.as_chunks::<N>().0).enumerate() {
        if a == b {
            continue;
        }
        let (a, b) = (little(a), little(b));
        let (x, y, error) = (value(a), value(b), error(a, b));
        changed += 1;
        low = low.min(x).min(y);
        high = high.max(x).max(y);
        max_abs.raise(error, index);
        if finest.is_some_and(|finest| error <= finest) {
            excused = excused.max(error);
            continue;
        }
        let size = x.abs();
        max_rel.raise(if error == 0.0 { 0.0 } else { error / size }, index);
        while bits.value > 0 && error > half_unit_of_bit(size, bits.value) {
            bits = Worst { value: bits.value - 1, at: Some(index) };
        }
        while digits.value > 0 && error > half_unit_of_digit(size, digits.value) {
            digits = Worst { value: digits.value - 1, at: Some(index) };
        }
    }
    let values = || originals.iter().map(|&bytes| value(little(bytes))).filter(|value| value.is_finite());
    Accuracy {
        max_abs,
        max_range: None,
        max_rel,
        finest: finest.map(|_| excused),
        bits: most.map(|_| bits),
        digits: most.map(|_| digits),
        exact_up_to: values().filter(|&value| value < low).reduce(f64::max),
        exact_from: values().filter(|&value| value > high).reduce(f64::min),
        changed,
        miss: None,
    }
}

/// The value of an IEEE 754 binary16.
fn half(bits: u16) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1F), f64::from(bits & 0x3FF));
    let size = match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (mantissa + 1024.0) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn f64s(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn measured(a: &[f64], b: &[f64], quality: &Quality) -> Accuracy {
        let spec = ArraySpec::new(DType::F64, [a.len()]);
        let bytes = f64s(a);
        Accuracy::measure(&ArrayView::new(&spec, &bytes).unwrap(), &f64s(b), quality).unwrap()
    }

    #[test]
    fn every_measure_names_its_worst_element() {
        let seen = measured(&[100.0, 1.0, 50.0, 7.0], &[100.5, 1.25, 50.0, 7.0], &Quality::LOSSLESS);
        assert_eq!(seen.max_abs, Worst { value: 0.5, at: Some(0) });
        assert_eq!(seen.max_rel, Worst { value: 0.25, at: Some(1) });
        // 1.25 for 1: within half of the first bit, and of no digit but the first.
        assert_eq!(seen.bits, Some(Worst { value: 1, at: Some(1) }));
        assert_eq!(seen.digits, Some(Worst { value: 1, at: Some(1) }));
        assert_eq!(seen.max_range, Some(0.5 / 99.0));
        assert_eq!((seen.exact_up_to, seen.exact_from, seen.changed), (None, None, 2));
        assert_eq!(seen.miss.unwrap().index, 0);
    }

    #[test]
    fn equal_arrays_are_perfect() {
        let values = [1.0, f64::NAN, f64::INFINITY, -0.0];
        let seen = measured(&values, &values, &Quality::LOSSLESS);
        assert_eq!((seen.max_abs.value, seen.max_rel.at, seen.changed, seen.miss), (0.0, None, 0, None));
        assert_eq!(seen.bits.unwrap(), Worst { value: 52, at: None });
        assert_eq!((seen.exact_up_to, seen.exact_from), (Some(1.0), Some(-0.0)));
    }

    #[test]
    fn what_is_not_finite_errs_without_bound_and_zero_has_no_relative_error() {
        for (x, y) in [(f64::NAN, 1.0), (1.0, f64::NAN), (f64::INFINITY, f64::NEG_INFINITY), (2.0, f64::INFINITY)] {
            assert_eq!(measured(&[x], &[y], &Quality::LOSSLESS).max_abs.value, f64::INFINITY, "{x} {y}");
        }
        let payload = f64::from_bits(f64::NAN.to_bits() + 1);
        let seen = measured(&[f64::NAN], &[payload], &Quality::LOSSLESS);
        assert_eq!((seen.max_abs.value, seen.changed), (0.0, 1));
        assert!(seen.miss.is_some());
        let zero = measured(&[0.0, 5.0], &[1e-3, 5.0], &Quality::LOSSLESS);
        assert_eq!((zero.max_rel.value, zero.bits.unwrap().value), (f64::INFINITY, 0));
        assert_eq!(measured(&[0.0], &[-0.0], &Quality::LOSSLESS).max_rel.value, 0.0);
    }

    #[test]
    fn the_finest_tolerance_takes_small_errors_out_of_relative_measures() {
        let quality = Quality { max_rel_error: Some(0.01), finest_abs_error: Some(0.1), ..Quality::LOSSLESS };
        let seen = measured(&[0.0, 100.0], &[0.05, 100.5], &quality);
        assert_eq!((seen.max_rel.value, seen.finest, seen.miss), (0.005, Some(0.05), None));
    }

    #[test]
    fn exact_ranges_are_found() {
        let seen = measured(&[1.0, 2.0, 3.0, 4.0, 5.0], &[1.0, 2.0, 3.5, 4.0, 5.0], &Quality::LOSSLESS);
        assert_eq!((seen.exact_up_to, seen.exact_from), (Some(2.0), Some(4.0)));
        let entered = measured(&[1.0, 2.0, 3.0], &[1.0, 2.0, 1.5], &Quality::LOSSLESS);
        assert_eq!((entered.exact_up_to, entered.exact_from), (Some(1.0), None));
    }

    #[test]
    fn integers_and_halves_are_compared_as_what_they_are() {
        let spec = ArraySpec::new(DType::U64, [2]);
        let bytes = |values: [u64; 2]| values.map(u64::to_le_bytes).concat();
        let (a, b) = (bytes([u64::MAX, 5]), bytes([u64::MAX - 1, 5]));
        let view = ArrayView::new(&spec, &a).unwrap();
        let seen = Accuracy::measure(&view, &b, &Quality::LOSSLESS).unwrap();
        assert_eq!((seen.max_abs, seen.bits), (Worst { value: 1.0, at: Some(0) }, None));
        assert!(Accuracy::measure(&view, &b[..8], &Quality::LOSSLESS).is_err());
        assert_eq!([0x3C00, 0xC000, 0x0001, 0x7BFF].map(half), [1.0, -2.0, 2f64.powi(-24), 65504.0]);
        assert!(half(0x7C01).is_nan() && half(0xFC00) == f64::NEG_INFINITY);
        let spec = ArraySpec { endian: Endian::Big, ..ArraySpec::new(DType::I16, [1]) };
        let view = ArrayView::new(&spec, &[1, 0]).unwrap();
        assert_eq!(Accuracy::measure(&view, &[0, 0], &Quality::LOSSLESS).unwrap().max_abs.value, 256.0);
    }

    proptest! {
        /// A quality made of what was observed holds, and one that asks for more does not.
        #[test]
        fn observed_is_the_closest_quality_that_holds(
            pairs in proptest::collection::vec((-1e6f64..1e6, -1f64..1.0), 1..40),
        ) {
            let a: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
            let b: Vec<f64> = pairs.iter().map(|pair| pair.0 + pair.1).collect();
            let holds = |quality: Quality| measured(&a, &b, &quality).miss.is_none();
            let seen = measured(&a, &b, &Quality::LOSSLESS);
            prop_assume!(seen.max_abs.value > 0.0);
            let abs = |x: f64| Quality { max_abs_error: Some(x), ..Quality::LOSSLESS };
            prop_assert!(holds(abs(seen.max_abs.value)));
            prop_assert!(!holds(abs(seen.max_abs.value * 0.999_999)));
            let rel = |x: f64| Quality { max_rel_error: Some(x), ..Quality::LOSSLESS };
            prop_assert!(holds(rel(seen.max_rel.value * 1.000_001)));
            prop_assert!(!holds(rel(seen.max_rel.value * 0.999_999)));
            let (bits, digits) = (seen.bits.unwrap().value, seen.digits.unwrap().value);
            let of_bits = |n: u32| Quality { significant_bits: Some(n), ..Quality::LOSSLESS };
            let of_digits = |n: u32| Quality { significant_digits: Some(n), ..Quality::LOSSLESS };
            prop_assert!((bits == 0 || holds(of_bits(bits))) && (bits == 52 || !holds(of_bits(bits + 1))));
            prop_assert!((digits == 0 || holds(of_digits(digits))) && (digits == 15 || !holds(of_digits(digits + 1))));
            let wide = seen.max_abs.value * 2.0;
            let exact = |up_to, from| holds(Quality { exact_up_to: up_to, exact_from: from, ..abs(wide) });
            prop_assert!(exact(seen.exact_up_to, seen.exact_from));
        }
    }
}
