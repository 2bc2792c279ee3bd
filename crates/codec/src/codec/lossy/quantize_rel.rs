//! `quantize-rel`: the fewest significand bits within a pointwise relative error bound.

use crate::codec::lossy::rounding::{Float, Rule, prepare, rounds_floats};
use crate::codec::{Codec, Hdf5Form, Kind, Loss, OptionDoc, OptionKind, Options, Stage, Step};
use knarr_array::array::DType;
use knarr_array::error::Result;

/// Rounds significands to the number of bits that the bound implies. Every element is checked and keeps its
/// bits where it would miss the bound, as subnormal values do.
pub(in crate::codec) struct QuantizeRel;

impl Codec for QuantizeRel {
    fn name(&self) -> &'static str {
        "quantize-rel"
    }

    fn wire_id(&self) -> u16 {
        12
    }

    fn summary(&self) -> &'static str {
        "rounds significands so that no error relative to the value itself exceeds the bound"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["quantize-rel:0.01", "quantize-rel:1e-6 | shuffle"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc { name: "rel", kind: OptionKind::Float, doc: "largest error as a fraction of each value" }]
    }

    rounds_floats!();

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let bound = options.float("rel")?;
        prepare("quantize-rel", Relative { bound, keep: keepbits(bound) }, input)
    }
}

/// Explicit bits to keep: rounding to `n` of them has a relative error of at most 2^-(n+1).
fn keepbits(bound: f64) -> u32 {
    (0..u64::MANTISSA).find(|&keep| 0.5f64.powi(keep.cast_signed() + 1) <= bound).unwrap_or(u64::MANTISSA)
}

struct Relative {
    bound: f64,
    keep: u32,
}

impl<F: Float> Rule<F> for Relative {
    #[inline(always)]
    fn round(&self, bits: F) -> F {
        let rounded = bits.round_ties_even(F::MANTISSA.saturating_sub(self.keep));
        let value = bits.value();
        if (rounded.value() - value).abs() <= self.bound * value.abs() { rounded } else { bits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_become_bits() {
        assert_eq!([0.5, 0.25, 0.1, 0.01, 1e-3, 1e-20].map(keepbits), [0, 1, 3, 6, 9, 52]);
    }

    #[test]
    fn every_value_keeps_the_bound() {
        let rule = Relative { bound: 0.01, keep: keepbits(0.01) };
        for bits in (0..f32::INFINITY.to_bits()).step_by(9973).chain([1, 2, 3, 1000]) {
            let (value, rounded) = (bits.value(), rule.round(bits).value());
            assert!((rounded - value).abs() <= 0.01 * value, "{value:e} became {rounded:e}");
        }
    }
}
