//! `xor`: bits that changed since the previous element.

use crate::codec::{Codec, Kind, Options, Stage, Step, check_limit};
use knarr_array::array::DType;
use knarr_array::error::Result;

/// Each element XOR the one before it in memory order, as Gorilla does for floats (T. Pelkonen et al.,
/// VLDB 2015); the first is kept. Works on bytes, so that neither type nor byte order matters.
pub(in crate::codec) struct Xor;

impl Codec for Xor {
    fn name(&self) -> &'static str {
        "xor"
    }

    fn wire_id(&self) -> u16 {
        6
    }

    fn kind(&self) -> Kind {
        Kind::Filter
    }

    fn summary(&self) -> &'static str {
        "exclusive or with the previous element: repeated bits become zero (Gorilla, VLDB 2015)"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["xor", "xor | bitshuffle | snappy"]
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype.size() > 0
    }

    fn prepare(&self, _options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Prepared { size: input.spec.dtype.size().max(1) }))
    }
}

struct Prepared {
    /// Bytes per element.
    size: usize,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.extend_from_slice(input);
        for (byte, before) in out.iter_mut().skip(self.size).zip(input) {
            *byte ^= before;
        }
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        check_limit(input.len(), limit)?;
        out.clear();
        out.extend_from_slice(input);
        match self.size {
            1 => accumulate(out.as_chunks_mut::<1>().0),
            2 => accumulate(out.as_chunks_mut::<2>().0),
            4 => accumulate(out.as_chunks_mut::<4>().0),
            8 => accumulate(out.as_chunks_mut::<8>().0),
            size => {
                let mut before = vec![0; size];
                for element in out.chunks_exact_mut(size) {
                    element.iter_mut().zip(&before).for_each(|(byte, before)| *byte ^= before);
                    before.copy_from_slice(element);
                }
            }
        }
        Ok(())
    }
}

fn accumulate<const SIZE: usize>(elements: &mut [[u8; SIZE]]) {
    let mut before = [0; SIZE];
    for element in elements {
        before.iter_mut().zip(element.iter()).for_each(|(before, byte)| *before ^= byte);
        *element = before;
    }
}
