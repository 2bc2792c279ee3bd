//! `signs`: whether the sign changed, instead of the sign.

use crate::codec::{Codec, Kind, Options, Stage, Step, check_limit};
use knarr_array::array::DType;
use knarr_array::error::Result;

/// The sign bit of each element is replaced by its difference to the sign of the element before it in memory order;
/// the first is kept. Values and their negatives are then the same bytes: a run of numbers that comes back mirrored,
/// as fields do whose problem is symmetric, is a repeat for the compressor that follows.
pub(in crate::codec) struct Signs;

impl Codec for Signs {
    fn name(&self) -> &'static str {
        "signs"
    }

    fn wire_id(&self) -> u16 {
        43
    }

    fn kind(&self) -> Kind {
        Kind::Filter
    }

    fn summary(&self) -> &'static str {
        "changes of sign instead of signs: numbers that come back negated are repeats for what follows"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["signs", "signs | shuffle | brotli:3"]
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype.is_float()
    }

    fn needs_values(&self) -> bool {
        true
    }

    fn prepare(&self, _options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Prepared { size: input.spec.dtype.size().max(1) }))
    }
}

const SIGN: u8 = 0x80;

struct Prepared {
    /// Bytes per element; the last one has the sign.
    size: usize,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.extend_from_slice(input);
        let top = self.size - 1;
        let before = input.iter().skip(top).step_by(self.size);
        for (byte, before) in out.iter_mut().skip(top + self.size).step_by(self.size).zip(before) {
            *byte ^= before & SIGN;
        }
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        check_limit(input.len(), limit)?;
        out.clear();
        out.extend_from_slice(input);
        let mut sign = 0;
        for byte in out.iter_mut().skip(self.size - 1).step_by(self.size) {
            *byte ^= sign;
            sign = *byte & SIGN;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negated_numbers_are_repeats() {
        let numbers = [1.5f64, -2.25, 3.0, 0.0, -0.0, f64::NEG_INFINITY, 7.0];
        let negated = numbers.map(|number| -number);
        let bytes: Vec<u8> = numbers.iter().chain(&negated).flat_map(|number| number.to_le_bytes()).collect();
        let mut out = Vec::new();
        Prepared { size: 8 }.encode(&bytes, &mut out).unwrap();
        let (first, second) = out.split_at(8 * numbers.len());
        assert_eq!(first[8..], second[8..], "all but the first, which has another one before it");
    }
}
