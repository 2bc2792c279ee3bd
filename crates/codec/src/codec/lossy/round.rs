//! `round`: the fewest mantissa bits that keep a bound, element by element.
//!
//! Every finite value that is neither a fill value nor to stay exact becomes the nearest multiple of the largest power of two that is
//! at most twice its tolerance, which zeroes trailing mantissa bits (as BitRound does; Klöwer et al. 2021,
//! doi:10.1038/s43588-021-00156-2) and leaves ordinary numbers that any reader opens. Each result is checked
//! against the tolerance after the cast to the stored type; where it fails the value stays as it was.

use crate::codec::lossy::rounding::rounds_floats;
use crate::codec::{Codec, Hdf5Form, Kind, Loss, OptionDoc, OptionKind, Options, Stage, Step};
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::quality::{Bound, Exact, Limits};

/// The codec.
pub(in crate::codec) struct Round;

const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "abs",
        kind: OptionKind::FloatOr(0.0),
        doc: "largest absolute error, unit of the data; 0: not asked",
    },
    OptionDoc {
        name: "rel",
        kind: OptionKind::FloatOr(0.0),
        doc: "largest error relative to each value; 0: not asked",
    },
    OptionDoc {
        name: "bits",
        kind: OptionKind::Int { min: 0, max: 52, default: Some(0) },
        doc: "explicit mantissa bits that stay right; 0: not asked",
    },
    OptionDoc {
        name: "digits",
        kind: OptionKind::Int { min: 0, max: 15, default: Some(0) },
        doc: "decimal digits that stay right; 0: not asked",
    },
    OptionDoc {
        name: "finest",
        kind: OptionKind::FloatOr(0.0),
        doc: "absolute error below which rel, bits and digits ask for nothing",
    },
    OptionDoc { name: "up_to", kind: OptionKind::Optional, doc: "values up to this stay exact" },
    OptionDoc { name: "from", kind: OptionKind::Optional, doc: "values from this on stay exact" },
];

impl Codec for Round {
    fn name(&self) -> &'static str {
        "round"
    }

    fn wire_id(&self) -> u16 {
        40
    }

    fn summary(&self) -> &'static str {
        "rounds each value to the fewest mantissa bits that keep the bound; readers need nothing"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["round:abs=0.01", "round:rel=0.001 | shuffle | snappy", "round:bits=9", "round:digits=3,abs=0.5"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    rounds_floats!();

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let asked = |name| options.float(name).map(|value| if value > 0.0 { value } else { f64::INFINITY });
        let count = |name| options.int(name).map(|value| u32::try_from(value).ok().filter(|&value| value > 0));
        let bound = Bound {
            abs: asked("abs")?,
            rel: asked("rel")?,
            bits: count("bits")?,
            digits: count("digits")?,
            finest: options.float("finest")?,
            exact: Exact { up_to: options.optional("up_to"), from: options.optional("from") },
        };
        if bound.is_uniform() && bound.abs.is_infinite() {
            return Err(Error::usage("'round' needs a bound").hint("give abs, rel, bits or digits: 'round:abs=0.01'"));
        }
        let exact = bound.exact.limits(input.spec.dtype);
        Ok(Box::new(Rounding { bound, exact, dtype: input.spec.dtype, missing: input.spec.missing() }))
    }
}

struct Rounding {
    bound: Bound,
    exact: Limits,
    dtype: DType,
    /// Bit patterns of missing values.
    missing: Vec<u64>,
}

impl Step for Rounding {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.reserve(input.len());
        let fills = &self.missing;
        if self.dtype == DType::F32 {
            for &bytes in input.as_chunks::<4>().0 {
                let value = f32::from_le_bytes(bytes);
                #[expect(clippy::cast_possible_truncation, reason = "the cast to the stored type is what is checked")]
                let rounded = self.nearest(f64::from(value)) as f32;
                let keep = !self.holds(f64::from(value), f64::from(rounded))
                    || (!fills.is_empty() && is_fill(fills, u64::from(value.to_bits()), u64::from(rounded.to_bits())));
                out.extend_from_slice(&if keep { bytes } else { rounded.to_le_bytes() });
            }
        } else {
            for &bytes in input.as_chunks::<8>().0 {
                let value = f64::from_le_bytes(bytes);
                let rounded = self.nearest(value);
                let keep = !self.holds(value, rounded)
                    || (!fills.is_empty() && is_fill(fills, value.to_bits(), rounded.to_bits()));
                out.extend_from_slice(&if keep { bytes } else { rounded.to_le_bytes() });
            }
        }
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        if input.len() > limit {
            return Err(Error::corrupt(format!("{} bytes where at most {limit} fit", input.len())));
        }
        out.clear();
        out.extend_from_slice(input);
        Ok(())
    }
}

impl Rounding {
    fn nearest(&self, value: f64) -> f64 {
        let tolerance = if self.bound.is_uniform() { self.bound.abs } else { self.bound.tolerance(value) };
        // The largest power of two at most 2 * tolerance: its exponent with the mantissa cleared.
        let step = f64::from_bits((2.0 * tolerance).to_bits() & 0x7FF0_0000_0000_0000);
        if step == 0.0 || !step.is_finite() {
            return value;
        }
        (value / step).round_ties_even() * step
    }

    /// False for NaN, infinities and values in a protected range, which stay as they are.
    fn holds(&self, value: f64, rounded: f64) -> bool {
        let tolerance = if self.bound.is_uniform() { self.bound.abs } else { self.bound.tolerance(value) };
        let protected = self.exact.protects(value) || self.exact.protects(rounded);
        value.is_finite() && rounded.is_finite() && !protected && (value - rounded).abs() <= tolerance
    }
}

/// True if the value is a fill value or would become one.
fn is_fill(fills: &[u64], value: u64, rounded: u64) -> bool {
    fills.iter().any(|&fill| fill == value || fill == rounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Chain, Scratch};
    use crate::codec::CodecList;
    use knarr_array::array::ArraySpec;
    use knarr_testing::data::{Pattern, SHAPES, sample};

    #[test]
    fn every_bound_holds_for_every_element_of_every_sample() {
        let chains = [
            ("round:abs=0.01", Bound { abs: 0.01, ..Bound::NONE }),
            ("round:rel=0.001", Bound { rel: 0.001, ..Bound::NONE }),
            ("round:bits=7", Bound { bits: Some(7), ..Bound::NONE }),
            ("round:digits=3", Bound { digits: Some(3), ..Bound::NONE }),
            ("round:abs=0.1,rel=0.01,finest=0.001", Bound { abs: 0.1, rel: 0.01, finest: 0.001, ..Bound::NONE }),
            (
                "round:abs=0.3,up_to=-0.1,from=0.7",
                Bound { abs: 0.3, exact: Exact { up_to: Some(-0.1), from: Some(0.7) }, ..Bound::NONE },
            ),
        ];
        for (text, bound) in chains {
            for dtype in [DType::F32, DType::F64] {
                for pattern in [Pattern::Smooth, Pattern::Masked, Pattern::Special, Pattern::Noise] {
                    for shape in SHAPES {
                        let sample = sample(dtype, shape, pattern, 3);
                        let chain = Chain::prepare(&CodecList::pure(), &text.parse().unwrap(), &sample.spec).unwrap();
                        let mut out = Vec::new();
                        chain.encode(&sample.bytes, &mut Scratch::default(), &mut out).unwrap();
                        let seen = bound.check(&sample.spec, &sample.bytes, &out);
                        assert!(seen.is_ok(), "{text} on {}: {}", sample.name, seen.unwrap_err());
                    }
                }
            }
        }
    }

    #[test]
    fn rounding_zeroes_bits() {
        let spec = ArraySpec::new(DType::F32, [1]);
        let chain = Chain::prepare(&CodecList::pure(), &"round:abs=0.01".parse().unwrap(), &spec).unwrap();
        let mut out = Vec::new();
        chain.encode(&273.456f32.to_le_bytes(), &mut Scratch::default(), &mut out).unwrap();
        let bits = u32::from_le_bytes(out.as_slice().try_into().unwrap());
        assert!(bits.trailing_zeros() >= 9, "{bits:#x}");
    }

    #[test]
    fn no_value_becomes_either_zero_where_one_is_a_fill_value() {
        for fill in [0.0f32, -0.0] {
            let mut spec = ArraySpec::new(DType::F32, [4]);
            spec.fills = vec![u64::from(fill.to_bits())];
            let chain = Chain::prepare(&CodecList::pure(), &"round:abs=0.01".parse().unwrap(), &spec).unwrap();
            let bytes: Vec<u8> = [0.002f32, -0.002, 0.0, -0.0].iter().flat_map(|value| value.to_le_bytes()).collect();
            let mut out = Vec::new();
            chain.encode(&bytes, &mut Scratch::default(), &mut out).unwrap();
            assert_eq!(out, bytes);
        }
    }
}
