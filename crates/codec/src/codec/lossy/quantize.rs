//! `quantize`: multiples of a step within an absolute error bound.

use crate::codec::lossy::rounding::{Float, Rule, prepare, rounds_floats};
use crate::codec::{Codec, Hdf5Form, Kind, Loss, OptionDoc, OptionKind, Options, Stage, Step};
use knarr_array::array::DType;
use knarr_array::error::Result;

/// Linear quantisation. Every element is checked after it was rounded to the stored type, and keeps its bits
/// where it would miss the bound.
pub(in crate::codec) struct Quantize;

impl Codec for Quantize {
    fn name(&self) -> &'static str {
        "quantize"
    }

    fn wire_id(&self) -> u16 {
        11
    }

    fn summary(&self) -> &'static str {
        "rounds values to multiples of a step so that no absolute error exceeds the bound"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["quantize:0.01", "quantize:0.5,step=decimal | pcodec:1", "quantize:1e-3,step=full"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[
            OptionDoc { name: "abs", kind: OptionKind::Float, doc: "largest absolute error, in the unit of the data" },
            OptionDoc {
                name: "step",
                kind: OptionKind::Word(&["binary", "decimal", "full"]),
                doc: "binary: a power of two, whose multiples end in zero bits; decimal: 1, 2 or 5 times a power of ten, \
                      and full: twice the bound, both for codecs that find steps, such as pcodec and fixedscale",
            },
        ]
    }

    rounds_floats!();

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let bound = options.float("abs")?;
        let rule = match options.word("step")? {
            "decimal" => Grid::decimal(bound),
            "full" => Grid::of_step(bound, 2.0 * bound),
            _ => Grid::binary(bound),
        };
        prepare("quantize", rule, input)
    }
}

/// Multiples of `step`, computed as `k * numerator / denominator`, so that decimal ones are the doubles nearest
/// to the decimal numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Grid {
    bound: f64,
    step: f64,
    numerator: f64,
    denominator: f64,
}

impl Grid {
    fn of_step(bound: f64, step: f64) -> Self {
        Self { bound, step, numerator: step, denominator: 1.0 }
    }

    /// The largest power of two up to twice the bound.
    fn binary(bound: f64) -> Self {
        let exponent_mask = f64::INFINITY.to_bits();
        let step = f64::from_bits((2.0 * bound).to_bits() & exponent_mask);
        // Below 2^-1022 there are no exponent bits left; any step within the bound will do.
        Self::of_step(bound, if step > 0.0 { step } else { 2.0 * bound })
    }

    /// The largest of 1, 2 and 5 times a power of ten up to twice the bound.
    fn decimal(bound: f64) -> Self {
        // Powers of ten up to 10^22 are exact.
        for exponent in (-22..=22).rev() {
            let power = 10f64.powi(i32::abs(exponent));
            for digit in [5.0, 2.0, 1.0] {
                let (numerator, denominator) = if exponent < 0 { (digit, power) } else { (digit * power, 1.0) };
                let step = numerator / denominator;
                if step <= 2.0 * bound {
                    return Self { bound, step, numerator, denominator };
                }
            }
        }
        Self::binary(bound)
    }
}

impl<F: Float> Rule<F> for Grid {
    #[inline(always)]
    fn round(&self, bits: F) -> F {
        let value = bits.value();
        // Adding +0 turns −0 into +0, so that small values of both signs become the same.
        let multiple = (value / self.step).round_ties_even() * self.numerator / self.denominator + 0.0;
        let rounded = F::nearest(multiple);
        if (rounded.value() - value).abs() <= self.bound { rounded } else { bits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_fit_the_bound() {
        assert_eq!(Grid::binary(0.01).step, 1.0 / 64.0);
        assert_eq!(Grid::decimal(0.01).step, 0.02);
        assert_eq!(Grid::decimal(0.005).step, 0.01);
        assert_eq!(Grid::decimal(300.0).step, 500.0);
        assert_eq!(Grid::decimal(1e-30), Grid::binary(1e-30));
    }

    #[test]
    fn values_that_would_miss_the_bound_keep_their_bits() {
        let grid = Grid::binary(1e-3);
        // Multiples of 2^-10 near 10^6 fall between two f32 values more than the bound apart.
        for value in [1_000_000.06f32, 16_777_217.0, 1e30, -3e-5, 0.4999] {
            let rounded = f32::from_bits(grid.round(value.to_bits()));
            assert!((f64::from(rounded) - f64::from(value)).abs() <= 1e-3, "{value} became {rounded}");
        }
        assert_eq!(grid.round((-1e-5f32).to_bits()), 0);
    }

    #[test]
    fn decimal_multiples_are_the_nearest_doubles() {
        let grid = Grid::decimal(0.05);
        assert_eq!(f64::from_bits(grid.round(0.27f64.to_bits())), 0.3);
        assert_eq!(f64::from_bits(grid.round(0.68f64.to_bits())), 0.7);
    }
}
