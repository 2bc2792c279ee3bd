//! The codec `zfpy`: zfp streams behind zfp's own header, as Python's `zfpy` and numcodecs write them.

use knarr_core::Result;
use knarr_core::array::DType;
use knarr_core::codec::{Codec, Kind, Loss, OptionDoc, Options, Stage, Step, check_limit};

use super::header::Mode;
use super::library::{self, Field, Scalar};
use super::{OPTIONS, settings};
use crate::support::check_ordinary;

/// zfp streams that say themselves what they hold.
pub(crate) struct Zfpy;

impl Codec for Zfpy {
    fn name(&self) -> &'static str {
        "zfpy"
    }

    fn wire_id(&self) -> u16 {
        115
    }

    fn kind(&self) -> Kind {
        Kind::ArrayToBytes
    }

    fn summary(&self) -> &'static str {
        "zfp behind its own header, as Python's zfpy and numcodecs write it: read from Zarr, whatever its mode"
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn loss(&self, options: &Options) -> Loss {
        if options.word("mode").is_ok_and(|mode| mode == "reversible") { Loss::Lossless } else { Loss::Lossy }
    }

    fn supports(&self, dtype: DType) -> bool {
        Scalar::of(dtype).is_some()
    }

    fn needs_values(&self) -> bool {
        true
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let (mode, field) = settings(options, input)?;
        Ok(Box::new(Prepared { mode, field, dtype: input.spec.dtype }))
    }
}

struct Prepared {
    mode: Mode,
    field: Field,
    dtype: DType,
}

impl Step for Prepared {
    fn max_encoded_len(&self, _input_len: usize) -> usize {
        library::max_len(&self.field, self.mode).unwrap_or(usize::MAX / 2)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.field.check_len(input.len())?;
        if self.mode != Mode::Reversible {
            check_ordinary("zfpy", self.dtype, input)?;
        }
        library::compress(&self.field, self.mode, true, input, out)
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        check_limit(self.field.byte_len(), limit)?;
        library::decompress_headed(&self.field, input, out)
    }
}
