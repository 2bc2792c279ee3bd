//! `snappy`: very fast, little compression. The raw format, by the crate `snap`.

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use crate::codec::{Codec, Kind, Options, Stage, Step, check_limit, sized};
use knarr_array::error::{Error, Result};

/// Snappy's raw format (`format_description.txt` of google/snappy).
pub(in crate::codec) struct Snappy;

impl Codec for Snappy {
    fn name(&self) -> &'static str {
        "snappy"
    }

    fn wire_id(&self) -> u16 {
        18
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "Snappy raw format: very fast, low ratio (crate snap)"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["snappy", "bitshuffle | snappy"]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn prepare(&self, _options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Prepared))
    }
}

/// A copy of 64 bytes takes 3 bytes in the stream, one of 11 bytes takes 2.
const MAX_RATIO: usize = 22;

struct Prepared;

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        max_compress_len(input_len)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let len = Encoder::new()
            .compress(input, sized(out, max_compress_len(input.len())))
            .map_err(|error| Error::unsupported(format!("snappy: {error}")).hint("use chunks below 4 GiB"))?;
        out.truncate(len);
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let corrupt = |error: snap::Error| Error::corrupt(format!("snappy: {error}"));
        let len = decompress_len(input).map_err(corrupt)?;
        check_limit(len, limit)?;
        // The length is stated, not earned: reserve no more than the stream can hold.
        if len > input.len().saturating_mul(MAX_RATIO) {
            return Err(Error::corrupt(format!("snappy: {} bytes cannot hold {len}", input.len())));
        }
        let len = Decoder::new().decompress(input, sized(out, len)).map_err(corrupt)?;
        out.truncate(len);
        Ok(())
    }
}
