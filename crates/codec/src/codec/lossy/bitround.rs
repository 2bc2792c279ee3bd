//! `bitround`: keeps the leading bits of each significand.

use crate::codec::lossy::rounding::{Float, Rule, mantissa_bits, prepare, rounds_floats, unsupported};
use crate::codec::{Codec, Hdf5Form, Kind, Loss, OptionDoc, OptionKind, Options, Stage, Step};
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};

/// IEEE rounding of the significand to `keepbits` explicit bits, ties to even, as `numcodecs.bitround`
/// (M. Klöwer et al., Nature Computational Science 1, 2021). netCDF's BitRound differs in ties only, which it
/// rounds away from zero.
pub(in crate::codec) struct BitRound;

impl Codec for BitRound {
    fn name(&self) -> &'static str {
        "bitround"
    }

    fn wire_id(&self) -> u16 {
        9
    }

    fn summary(&self) -> &'static str {
        "rounds significands to a number of bits, ties to even (BitRound, Klöwer et al., 2021)"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["bitround:9", "bitround:7", "bitround:0 | shuffle", "bitround:23"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc {
            name: "keepbits",
            kind: OptionKind::Int { min: 0, max: 52, default: None },
            doc: "explicit bits of the significand to keep: at most 23 for f32, 52 for f64",
        }]
    }

    rounds_floats!();

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let mantissa = mantissa_bits(input.spec.dtype);
        if mantissa == 0 {
            return Err(unsupported("bitround", input.spec.dtype));
        }
        let keep = u32::try_from(options.int("keepbits")?).unwrap_or(u32::MAX);
        let drop = mantissa.checked_sub(keep).ok_or_else(|| {
            Error::usage(format!("bitround: {} has no {keep} bits to keep", input.spec.dtype))
                .hint(format!("give keepbits from 0 to {mantissa}"))
        })?;
        prepare("bitround", DropBits { drop }, input)
    }
}

/// Rounds the last bits of the significand away.
struct DropBits {
    drop: u32,
}

impl<F: Float> Rule<F> for DropBits {
    #[inline(always)]
    fn round(&self, bits: F) -> F {
        bits.round_ties_even(self.drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Stage;
    use knarr_array::array::ArraySpec;

    fn rounded(values: &[f32], keepbits: i64, fills: Vec<u64>) -> Vec<f32> {
        let mut spec = ArraySpec::new(DType::F32, [values.len()]);
        spec.fills = fills;
        let options = Options::default().with_int("keepbits", keepbits);
        let step = BitRound.prepare(&options, &Stage { spec, is_array: true }).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut out = Vec::new();
        step.encode(&bytes, &mut out).unwrap();
        out.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn ties_go_to_even() {
        assert_eq!(rounded(&[1.0, 1.25, 1.75, 1.2, 1.3, -1.75], 1, vec![]), [1.0, 1.0, 2.0, 1.0, 1.5, -2.0]);
        assert_eq!(rounded(&[0.1], 23, vec![]), [0.1]);
    }

    #[test]
    fn special_values_keep_their_bits_and_none_arise() {
        let nan = f32::from_bits(0x7FC1_2345);
        let fill = 9.96921e36f32;
        let values = [nan, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, fill, f32::MAX, -f32::MAX];
        let fills = vec![u64::from(fill.to_bits()), u64::from(1.0f32.to_bits())];
        let out = rounded(&values, 3, fills.clone());
        assert!(out.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits()), "{out:?}");
        // 1.01 would become the fill value 1.
        assert_eq!(rounded(&[1.01, 1.13], 3, fills), [1.01, 1.125]);
    }
}
