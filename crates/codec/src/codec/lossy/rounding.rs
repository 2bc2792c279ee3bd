//! What all value-changing filters share: which elements are never touched, and the step around a rule.
//!
//! NaN, infinities, both zeros and fill values keep their bits. A rule may not turn a value into an infinity
//! or into a fill value either: such elements keep their bits too.

use pulp::Arch;

use crate::codec::order::Word;
use crate::codec::{Stage, Step, check_limit, sized};
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};

/// What every [`Codec`](crate::codec::Codec) that rounds floats answers alike: readers need nothing to decode it.
macro_rules! rounds_floats {
    () => {
        fn kind(&self) -> Kind {
            Kind::Filter
        }

        fn loss(&self, _options: &Options) -> Loss {
            Loss::Lossy
        }

        fn supports(&self, dtype: DType) -> bool {
            dtype.is_float()
        }

        fn needs_values(&self) -> bool {
            true
        }

        fn hdf5(&self, _options: &Options, _input: &Stage) -> Hdf5Form {
            Hdf5Form::Invisible
        }
    };
}
pub(in crate::codec) use rounds_floats;

/// The bits of a float.
pub(in crate::codec) trait Float: Word {
    /// Explicit bits of the significand.
    const MANTISSA: u32;

    /// The value; exact.
    fn value(self) -> f64;
    /// The nearest float of this type.
    fn nearest(value: f64) -> Self;
    /// NaN or infinite.
    fn is_special(self) -> bool;
    /// +0 or −0.
    fn is_zero(self) -> bool;
    /// Rounds the last `drop` bits of the significand away, ties to even; the carry may reach infinity.
    fn round_ties_even(self, drop: u32) -> Self;
    /// As [`Float::round_ties_even`], ties away from zero.
    fn round_ties_away(self, drop: u32) -> Self;
    /// Biased exponent and explicit significand.
    fn parts(self) -> (usize, u64);
}

macro_rules! float {
    ($word:ty, $float:ty, $mantissa:literal) => {
        impl Float for $word {
            const MANTISSA: u32 = $mantissa;

            #[inline(always)]
            fn value(self) -> f64 {
                f64::from(<$float>::from_bits(self))
            }

            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "rounding to the type is the purpose")]
            fn nearest(value: f64) -> Self {
                (value as $float).to_bits()
            }

            #[inline(always)]
            fn is_special(self) -> bool {
                self << 1 >= <$float>::INFINITY.to_bits() << 1
            }

            #[inline(always)]
            fn is_zero(self) -> bool {
                self << 1 == 0
            }

            #[inline(always)]
            fn round_ties_even(self, drop: u32) -> Self {
                let mask = (1 << drop) - 1;
                let odd = (self >> drop) & 1;
                self.wrapping_add((mask >> 1) + (odd & mask)) & !mask
            }

            #[inline(always)]
            fn round_ties_away(self, drop: u32) -> Self {
                let mask = (1 << drop) - 1;
                self.wrapping_add((mask >> 1) + (mask & 1)) & !mask
            }

            #[inline(always)]
            fn parts(self) -> (usize, u64) {
                let bits = self.to_u64();
                let exponent = (bits >> $mantissa) & ((1 << (Self::BITS - 1 - $mantissa)) - 1);
                (usize::try_from(exponent).unwrap_or_default(), bits & ((1 << $mantissa) - 1))
            }
        }
    };
}

float!(u32, f32, 23);
float!(u64, f64, 52);

/// How one value is rounded.
pub(in crate::codec) trait Rule<F>: Send + Sync + 'static {
    /// The rounded value. Called for every element; what it returns for those that keep their bits is not used.
    fn round(&self, bits: F) -> F;
}

/// The step that applies a rule. Decoding copies.
pub(in crate::codec) struct Rounding<F, R> {
    rule: R,
    fills: Vec<F>,
}

impl<F: Float, R: Rule<F>> Rounding<F, R> {
    pub(in crate::codec) fn new(rule: R, input: &Stage) -> Self {
        Self { rule, fills: input.spec.missing().into_iter().map(F::from_u64).collect() }
    }
}

/// The step of a rule that serves both float types.
///
/// # Errors
/// `Unsupported` for other types.
pub(in crate::codec) fn prepare<R: Rule<u32> + Rule<u64>>(
    codec: &str,
    rule: R,
    input: &Stage,
) -> Result<Box<dyn Step>> {
    match input.spec.dtype {
        DType::F32 => Ok(Box::new(Rounding::<u32, R>::new(rule, input))),
        DType::F64 => Ok(Box::new(Rounding::<u64, R>::new(rule, input))),
        other => Err(unsupported(codec, other)),
    }
}

/// The refusal of a type that is not a float.
pub(in crate::codec) fn unsupported(codec: &str, dtype: DType) -> Error {
    Error::unsupported(format!("{codec} does not take elements of type {dtype}")).hint("use it for f32 and f64")
}

/// Explicit bits of the significand of a float type; 0 for other types.
pub(in crate::codec) fn mantissa_bits(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => u32::MANTISSA,
        DType::F64 => u64::MANTISSA,
        _ => 0,
    }
}

impl<F: Float, R: Rule<F>> Step for Rounding<F, R> {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let (elements, out) = (F::words(input), F::words_mut(sized(out, input.len())));
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (out, element) in out.iter_mut().zip(elements) {
                    let bits = F::from_le(*element);
                    let rounded = self.rule.round(bits);
                    let keep = bits.is_special() | bits.is_zero() | rounded.is_special();
                    *out = if keep { bits } else { rounded }.to_le();
                }
            },
        );
        if !self.fills.is_empty() {
            for (out, element) in out.iter_mut().zip(elements) {
                if self.fills.contains(&F::from_le(*element)) || self.fills.contains(&F::from_le(*out)) {
                    *out = *element;
                }
            }
        }
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        check_limit(input.len(), limit)?;
        out.clear();
        out.extend_from_slice(input);
        Ok(())
    }
}
