//! Lattices: finding out that numbers are whole multiples of a step, and proving it for every element.
//!
//! Fields that were once packed integers or decimal text are exactly `offset + k * step` rounded to their type.
//! A candidate is kept only if it gives back the bits of all elements but a few distinct exceptions, which fill
//! values and NaN are.

use std::collections::BTreeSet;

use crate::codec::order::{Order, Word};
use knarr_array::array::DType;

/// Distinct bit patterns that need not lie on the lattice.
pub(in crate::codec) const MAX_EXCEPTIONS: usize = 8;

/// Runs of elements, and elements a run, that are looked at before all are.
const RUNS: usize = 16;
const RUN: usize = 64;

/// Whole numbers up to here are exact as doubles.
const MAX_INDEX: f64 = 4_503_599_627_370_496.0;

/// How a whole number `k` stands for an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::codec) enum Lattice {
    /// `k` itself.
    Integer {
        /// Two's complement.
        signed: bool,
    },
    /// `k * numerator / denominator + offset` in double precision, rounded to the type.
    Float {
        /// Numerator of the step.
        numerator: f64,
        /// Denominator of the step: a power of ten, so that decimal steps are exact, or 1.
        denominator: f64,
        /// Value of `k = 0`.
        offset: f64,
    },
}

impl Lattice {
    /// Bits of the element `k` stands for.
    #[inline(always)]
    pub(in crate::codec) fn element<W: Word>(self, k: i64) -> W {
        match self {
            Self::Integer { .. } => W::from_u64(k.cast_unsigned()),
            Self::Float { numerator, denominator, offset } => from_value(to_f64(k) * numerator / denominator + offset),
        }
    }

    /// The whole number that stands for exactly these bits.
    #[inline(always)]
    fn index<W: Word>(self, word: W) -> Option<i64> {
        let k = match self {
            Self::Integer { signed: true } => {
                let shift = u64::BITS - W::BITS;
                (word.to_u64() << shift).cast_signed() >> shift
            }
            Self::Integer { signed: false } => i64::try_from(word.to_u64()).ok()?,
            Self::Float { numerator, denominator, offset } => {
                let k = ((to_value(word) - offset) * denominator / numerator).round_ties_even();
                if !(-MAX_INDEX..=MAX_INDEX).contains(&k) {
                    return None;
                }
                whole(k)
            }
        };
        (self.element::<W>(k) == word).then_some(k)
    }
}

/// The elements of an array as small codes on a lattice.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::codec) struct Codes<W> {
    /// What the codes stand for.
    pub(in crate::codec) lattice: Lattice,
    /// `k` of code 0.
    pub(in crate::codec) first: i64,
    /// Difference in `k` between codes.
    pub(in crate::codec) stride: u64,
    /// Largest code of an element on the lattice; exceptions follow it.
    pub(in crate::codec) span: u64,
    /// Bit patterns that are not on the lattice.
    pub(in crate::codec) exceptions: Vec<W>,
}

impl<W: Word> Codes<W> {
    /// The code of an element.
    #[inline(always)]
    pub(in crate::codec) fn code(&self, word: W) -> u64 {
        match self.lattice.index(word) {
            Some(k) => k.wrapping_sub(self.first).cast_unsigned() / self.stride,
            None => {
                let exception = self.exceptions.iter().position(|other| *other == word).unwrap_or_default();
                self.span + 1 + exception as u64
            }
        }
    }

    /// The element of a code; `None` if there is no such code.
    #[inline(always)]
    pub(in crate::codec) fn element(&self, code: u64) -> Option<W> {
        if code <= self.span {
            let k = self.first.wrapping_add(code.wrapping_mul(self.stride).cast_signed());
            return Some(self.lattice.element(k));
        }
        let exception = usize::try_from(code - self.span - 1).ok()?;
        self.exceptions.get(exception).copied()
    }
}

/// Finds the lattice with the fewest codes that holds the elements of `dtype`. `None` if no lattice saves at
/// least one bit an element.
pub(in crate::codec) fn detect<W: Word>(dtype: DType, elements: &[W::Bytes]) -> Option<Codes<W>> {
    let words = || elements.iter().map(|bytes| W::from_le(*bytes));
    // Runs of neighbours, which differ by few steps.
    let apart = (elements.len() / RUNS).max(RUN);
    let sample: Vec<W> =
        elements.chunks(apart).flat_map(|run| run.iter().take(RUN)).map(|bytes| W::from_le(*bytes)).collect();
    candidates(dtype, &sample, elements)
        .into_iter()
        .filter(|lattice| survey(*lattice, sample.iter().copied()).is_some())
        .filter_map(|lattice| survey(lattice, words()))
        .min_by_key(|codes| codes.span)
        .filter(|codes| saves(dtype, codes))
}

/// True if the codes span at most half of what the elements span as order-preserving integers, which are what
/// is predicted otherwise.
fn saves<W: Word>(dtype: DType, codes: &Codes<W>) -> bool {
    let order = |code| codes.element(code).map(|word| Order::of(dtype).map(word));
    let (Some(low), Some(high)) = (order(0), order(codes.span)) else { return false };
    let enough = W::from_u64(u64::MAX).to_u64() / 4;
    codes.span <= high.minus(low).to_u64() / 2 && codes.span < enough - MAX_EXCEPTIONS as u64
}

/// Lattices worth trying, the coarsest of each kind that suits the sample first.
fn candidates<W: Word>(dtype: DType, sample: &[W], elements: &[W::Bytes]) -> Vec<Lattice> {
    if dtype.is_integer() {
        return vec![Lattice::Integer { signed: dtype.is_signed() }];
    }
    let decimals = if dtype == DType::F32 { 0..=9 } else { 0..=15 };
    let decimal = |exponent| Lattice::Float { numerator: 1.0, denominator: 10f64.powi(exponent), offset: 0.0 };
    let coarsest = decimals.map(decimal).find(|lattice| survey(*lattice, sample.iter().copied()).is_some());
    // Looking for a step without a name takes longest, and almost all floats are multiples of some power of two.
    let few = |codes: &Codes<W>| codes.span < 1 << (W::BITS - 12);
    if coarsest.is_some_and(|lattice| survey(lattice, sample.iter().copied()).as_ref().is_some_and(few)) {
        return coarsest.into_iter().collect();
    }
    coarsest.into_iter().chain(binary(sample)).chain(packed(dtype, sample, elements)).collect()
}

/// Multiples of the largest power of two that divides all finite values of the sample but the largest ones,
/// which may be fill values.
fn binary<W: Word>(sample: &[W]) -> Option<Lattice> {
    let unit = |value: f64| {
        let bits = value.to_bits();
        let exponent = i32::try_from((bits >> 52) & 0x7FF).unwrap_or_default() - 1075;
        let significand = (bits & ((1 << 52) - 1)) | (1 << 52);
        exponent + i32::try_from(significand.trailing_zeros()).unwrap_or_default()
    };
    let finest = sample.iter().map(|word| to_value(*word)).filter(|x| x.is_normal()).map(unit).min()?;
    let step = 2f64.powi(finest);
    step.is_normal().then_some(Lattice::Float { numerator: step, denominator: 1.0, offset: 0.0 })
}

/// `minimum + k * step`, as GRIB leaves it. The step is a common divisor of differences of the sample, as exact as
/// rounding lets it be, and then narrowed down by every element.
fn packed<W: Word>(dtype: DType, sample: &[W], elements: &[W::Bytes]) -> Option<Lattice> {
    let mut values: Vec<f64> = sample.iter().map(|word| to_value(*word)).filter(|x| x.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let (&lower, &upper) = (values.get(values.len() / 4)?, values.get(values.len() * 3 / 4)?);
    // Fill values lie far from the data.
    let reach = (upper - lower) * FAR;
    let usual = |value: &f64| (lower - reach..=upper + reach).contains(value);
    let usual_elements = || elements.iter().map(|bytes| to_value(W::from_le(*bytes))).filter(usual);
    let first = usual_elements().fold(f64::INFINITY, f64::min);
    let half_unit = if dtype == DType::F32 { f64::from(f32::EPSILON) / 2.0 } else { f64::EPSILON / 2.0 };
    values.retain(usual);
    let noise = values.last()?.abs().max(first.abs()) * half_unit * 2.0;
    let mut distances: Vec<f64> = values.iter().map(|value| value - first).collect();
    // Differences of many sizes, so that each tells the step well enough to count the next in it.
    for apart in [1, 2, 4, 8, 16, 32] {
        distances.extend(values.iter().zip(values.iter().skip(apart)).map(|(low, high)| high - low));
    }
    distances.sort_unstable_by(f64::total_cmp);
    let step = real_divisor(&distances, noise)?;
    let (mut low, mut high) = (0.0f64, f64::INFINITY);
    for value in usual_elements() {
        let (distance, error) = (value - first, value.abs() * half_unit);
        let multiple = (distance / step).round();
        if multiple >= 1.0 {
            low = low.max((distance - error) / multiple);
            high = high.min((distance + error) / multiple);
        }
    }
    let step = low.midpoint(high);
    (low <= high && step.is_normal()).then_some(Lattice::Float { numerator: step, denominator: 1.0, offset: first })
}

/// Values further than so many interquartile ranges from the quartiles take no part in finding a step.
const FAR: f64 = 100.0;

/// Euclid's algorithm on real numbers known to within `noise`: the largest step that all `distances`, in
/// ascending order, are multiples of. `None` if it drowns in the noise.
fn real_divisor(distances: &[f64], noise: f64) -> Option<f64> {
    let smallest = 8.0 * noise;
    let mut step = *distances.iter().find(|distance| **distance > smallest)?;
    for _ in 0..64 {
        let (mut refined, mut known) = (step, 1.0);
        let odd = distances.iter().find_map(|distance| {
            let multiple = (distance / refined).round();
            // The step is known to within `noise / known`: too little to count this many of them?
            if multiple * noise / known > refined * 0.3 {
                return None;
            }
            let remainder = (distance - multiple * refined).abs();
            if remainder > refined * 0.4 && remainder > 4.0 * noise {
                return Some(remainder);
            }
            if multiple > known {
                (refined, known) = (distance / multiple, multiple);
            }
            None
        });
        match odd {
            None => return Some(refined),
            Some(remainder) if remainder > smallest => step = remainder,
            Some(_) => return None,
        }
    }
    None
}

/// The codes of all words on `lattice`; `None` if more than a few distinct words are not on it.
fn survey<W: Word>(lattice: Lattice, words: impl Iterator<Item = W>) -> Option<Codes<W>> {
    let (mut low, mut high, mut stride) = (i64::MAX, i64::MIN, 0u64);
    let mut exceptions = BTreeSet::new();
    for word in words {
        match lattice.index(word) {
            Some(k) => {
                // The first k stands in for the lowest, which is not known yet: differences have the same divisor.
                let reference = if high < low { k } else { low };
                stride = common_divisor(stride, k.abs_diff(reference));
                (low, high) = (low.min(k), high.max(k));
            }
            None => {
                exceptions.insert(word);
                if exceptions.len() > MAX_EXCEPTIONS {
                    return None;
                }
            }
        }
    }
    let (first, stride) = (if high < low { 0 } else { low }, stride.max(1));
    let span = if high < low { 0 } else { high.abs_diff(low) / stride };
    Some(Codes { lattice, first, stride, span, exceptions: exceptions.into_iter().collect() })
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    if a == 1 {
        return 1;
    }
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[inline(always)]
fn to_value<W: Word>(word: W) -> f64 {
    match u32::try_from(word.to_u64()) {
        Ok(bits) if W::BITS == u32::BITS => f64::from(f32::from_bits(bits)),
        _ => f64::from_bits(word.to_u64()),
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "rounding to the type is the purpose")]
fn from_value<W: Word>(value: f64) -> W {
    W::from_u64(if W::BITS == u32::BITS { u64::from((value as f32).to_bits()) } else { value.to_bits() })
}

#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "whole numbers of lattices are at most 2^52")]
fn to_f64(k: i64) -> f64 {
    k as f64
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a whole number of at most 2^52")]
fn whole(k: f64) -> i64 {
    k as i64
}

#[cfg(test)]
mod tests {
    #![expect(clippy::cast_possible_truncation, reason = "test values are rounded to the type")]
    use super::*;

    fn found(values: &[f32]) -> Option<Codes<u32>> {
        let bytes: Vec<[u8; 4]> = values.iter().map(|value| value.to_le_bytes()).collect();
        detect(DType::F32, &bytes)
    }

    fn field() -> impl Iterator<Item = f64> {
        (0..5000).map(|i| (f64::from(i) * 0.01).sin())
    }

    #[test]
    fn decimals_packed_and_binary_numbers_are_found() {
        let decimal: Vec<f32> = field().map(|x| ((x * 3000.0).round() / 100.0) as f32).collect();
        assert!(found(&decimal).unwrap().span <= 6000);
        let binary: Vec<f32> = field().map(|x| ((x * 3000.0).round() / 64.0) as f32).collect();
        assert!(found(&binary).unwrap().span <= 6000);
        let (scale, offset) = (0.001_234_567_8, 271.828_2f32);
        let packed = field().map(|x| ((x * 20_000.0 + 20_000.0).round() * scale + f64::from(offset)) as f32);
        let packed: Vec<f32> = packed.chain([offset]).collect();
        assert!(found(&packed).unwrap().span <= 40_000);
    }

    #[test]
    fn fills_and_nan_are_exceptions_and_the_stride_is_divided_out() {
        let mut values: Vec<f32> = field().map(|x| ((x * 300.0).round() * 0.5) as f32).collect();
        for (index, special) in [1e20, f32::NAN, -0.0, f32::INFINITY].into_iter().enumerate() {
            values[index * 7 + 3] = special;
        }
        let codes = found(&values).unwrap();
        assert_eq!(codes.exceptions.len(), 4);
        assert!(codes.span <= 600, "{}", codes.span);
        for value in values {
            let code = codes.code(value.to_bits());
            assert_eq!(codes.element(code), Some(value.to_bits()));
        }
    }

    #[test]
    fn noise_and_full_ranges_are_left_alone() {
        let noise: Vec<f32> = field().map(|x| (x * x.sqrt().abs().exp()) as f32).collect();
        assert_eq!(found(&noise), None);
        let full: Vec<[u8; 8]> = [0, u64::MAX, 1 << 63].map(u64::to_le_bytes).to_vec();
        assert_eq!(detect::<u64>(DType::I64, &full), None);
    }
}
