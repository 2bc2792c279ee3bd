//! `trailing`: zero bits at the end of every element, dropped.

use std::marker::PhantomData;

use crate::codec::order::{Word, with_word};
use crate::codec::{Codec, Kind, Options, Stage, Step, check_limit, sized};
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};

/// Elements shifted right by the zero bits that all of them end in, in integers of the same width; the last byte
/// of the stream is the shift.
pub(in crate::codec) struct Trailing;

impl Codec for Trailing {
    fn name(&self) -> &'static str {
        "trailing"
    }

    fn wire_id(&self) -> u16 {
        8
    }

    fn kind(&self) -> Kind {
        Kind::ArrayToBytes
    }

    fn summary(&self) -> &'static str {
        "shifts out the zero bits that every element ends in, as rounding leaves them"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["trailing", "bitround:5 | trailing | shuffle | snappy", "lorenzo | trailing"]
    }

    fn keeps_size(&self, _options: &Options) -> bool {
        true
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype.is_number()
    }

    fn needs_values(&self) -> bool {
        true
    }

    fn prepare(&self, _options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        with_word!("trailing", input.spec.dtype, W => Box::new(Prepared::<W> { word: PhantomData }))
    }
}

struct Prepared<W> {
    word: PhantomData<fn() -> W>,
}

impl<W: Word> Step for Prepared<W> {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len.saturating_add(1)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let elements = W::words(input);
        let used = elements.iter().fold(W::default(), |used, element| used.with(W::from_le(*element)));
        let shift = used.trailing_zeros().min(W::BITS - 1);
        for (out, element) in W::words_mut(sized(out, input.len())).iter_mut().zip(elements) {
            *out = W::from_le(*element).down(shift).to_le();
        }
        out.push(u8::try_from(shift).unwrap_or_default());
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let (&shift, elements) = input.split_last().ok_or_else(|| Error::corrupt("trailing: stream ends early"))?;
        check_limit(elements.len(), limit)?;
        let shift = u32::from(shift);
        if shift >= W::BITS {
            return Err(Error::corrupt(format!("trailing: {shift} bits of {}", W::BITS)));
        }
        for (out, element) in W::words_mut(sized(out, elements.len())).iter_mut().zip(W::words(elements)) {
            *out = W::from_le(*element).up(shift).to_le();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_zero_bits_are_shifted_out() {
        let step = Prepared::<u16> { word: PhantomData };
        let (mut out, mut back) = (Vec::new(), Vec::new());
        let bytes = [0x40, 0x01, 0xC0, 0xFF, 0x00, 0x00];
        step.encode(&bytes, &mut out).unwrap();
        assert_eq!(out, [0x05, 0x00, 0xFF, 0x03, 0x00, 0x00, 6]);
        step.decode(&out, 6, &mut back).unwrap();
        assert_eq!(back, bytes);
        *out.last_mut().unwrap() = 16;
        assert!(step.decode(&out, 6, &mut back).is_err());
    }
}
