//! `granular`: keeps a number of significant decimal digits, with as many bits as each value needs.

use crate::codec::lossy::rounding::{Float, Rounding, Rule, mantissa_bits, rounds_floats, unsupported};
use crate::codec::{Codec, Hdf5Form, Kind, Loss, OptionDoc, OptionKind, Options, Stage, Step};
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use std::f64::consts::{LN_2, LN_10};

/// Granular BitRound of netCDF-C and NCO (C. Zender, doi:10.5194/gmd-9-3199-2016, with the quantum of
/// X. Delaunay et al., doi:10.5194/gmd-12-4099-2019): the same bits as `NC_QUANTIZE_GRANULARBR`, except that
/// subnormal values keep their bits and that f64 values a few units in the last place above a power of two may
/// keep one bit less.
pub(in crate::codec) struct Granular;

impl Codec for Granular {
    fn name(&self) -> &'static str {
        "granular"
    }

    fn wire_id(&self) -> u16 {
        10
    }

    fn summary(&self) -> &'static str {
        "rounds each value to significant decimal digits with the fewest bits (netCDF's Granular BitRound)"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["granular:3", "granular:1", "granular:3 | xor", "granular:7"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc {
            name: "digits",
            kind: OptionKind::Int { min: 1, max: 15, default: None },
            doc: "significant decimal digits to keep: at most 7 for f32, 15 for f64",
        }]
    }

    rounds_floats!();

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let digits = i32::try_from(options.int("digits")?).map_err(|_| Error::internal("granular: digits"))?;
        let dtype = input.spec.dtype;
        match dtype {
            DType::F32 if digits > 7 => {
                Err(Error::usage(format!("granular: f32 has no {digits} significant digits")).hint("give 1 to 7"))
            }
            DType::F32 => Ok(Box::new(Rounding::<u32, _>::new(Digits::new(digits, dtype, 127), input))),
            DType::F64 => Ok(Box::new(Rounding::<u64, _>::new(Digits::new(digits, dtype, 1023), input))),
            other => Err(unsupported("granular", other)),
        }
    }
}

/// Bits to drop within one power of two: they change where a power of ten falls into it.
#[derive(Clone, Copy)]
struct Binade {
    /// For the power of two itself.
    at_start: u32,
    /// For significands below `threshold`.
    below: u32,
    /// For significands from `threshold` on.
    above: u32,
    threshold: u64,
}

/// Bits to drop by biased exponent.
struct Digits {
    binades: Vec<Binade>,
}

impl Digits {
    fn new(digits: i32, dtype: DType, bias: i32) -> Self {
        let mantissa = mantissa_bits(dtype);
        let unit = 1u64 << mantissa;
        let binade = |exponent: i32| {
            let formula = Formula { exponent: exponent - bias + 1, mantissa, digits };
            // The digits before the decimal point do not decrease within a binade: find where they change.
            let first = formula.digits_before_point(0);
            let (mut low, mut high) = (0, unit);
            while low < high {
                let middle = low.midpoint(high);
                if formula.digits_before_point(middle) > first { high = middle } else { low = middle + 1 }
            }
            Binade {
                at_start: formula.drop(0),
                below: formula.drop(1),
                above: formula.drop(low.min(unit - 1)),
                threshold: low,
            }
        };
        let keep = Binade { at_start: 0, below: 0, above: 0, threshold: unit };
        Self { binades: std::iter::once(keep).chain((1..=2 * bias).map(binade)).collect() }
    }
}

impl<F: Float> Rule<F> for Digits {
    #[inline(always)]
    fn round(&self, bits: F) -> F {
        let (exponent, significand) = bits.parts();
        let Some(binade) = self.binades.get(exponent) else { return bits };
        let drop = match significand {
            0 => binade.at_start,
            low if low < binade.threshold => binade.below,
            _ => binade.above,
        };
        bits.round_ties_away(drop)
    }
}

/// netCDF-C's computation (`nc4_convert_type`) for values `2^exponent * (unit + significand) / (2 * unit)`.
struct Formula {
    /// As `frexp` gives it.
    exponent: i32,
    mantissa: u32,
    digits: i32,
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "small whole numbers")]
impl Formula {
    /// Decimal logarithm of `frexp`'s fraction, in [0.5, 1).
    fn log10_fraction(&self, significand: u64) -> f64 {
        let unit = 1u64 << self.mantissa;
        ((unit + significand) as f64 / (2 * unit) as f64).log10()
    }

    fn digits_before_point(&self, significand: u64) -> i32 {
        (f64::from(self.exponent) * (LN_2 / LN_10) + self.log10_fraction(significand)).floor() as i32 + 1
    }

    /// Explicit bits of the significand to drop.
    fn drop(&self, significand: u64) -> u32 {
        let bits_per_digit = LN_10 / LN_2;
        let quantum = (bits_per_digit * f64::from(self.digits_before_point(significand) - self.digits)).floor() as i32;
        // `floor(exponent - log2(fraction))`, which only a power of two raises by one. Taken as such, so that
        // rounding errors of the logarithm play no part next to powers of two.
        let leading = match significand {
            0 => (f64::from(self.exponent) - bits_per_digit * self.log10_fraction(0)).floor() as i32,
            _ => self.exponent,
        };
        self.mantissa.saturating_sub((leading - quantum).unsigned_abs().saturating_sub(1))
    }
}
