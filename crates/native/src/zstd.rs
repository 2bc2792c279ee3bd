//! Zstandard.

use knarr_array::Result;
use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, OptionDoc, Options, Stage, Step, ZarrCodec};
use serde_json::json;

use crate::support::{
    Coder, Format, Method, Pool, bytes_to_bytes, cd_level, filter, level, level_option, reserve, resize,
};

const FILTER: FilterId = 32015;
const OPTIONS: &[OptionDoc] =
    &[level_option(1, 22, 3, "1 is fastest, 22 is smallest; above 19 it needs hundreds of MiB for large chunks")];

/// Zstandard frames with content size and without checksum, as the HDF5 filter and the Zarr codec write them.
pub(crate) struct Zstd;

impl Codec for Zstd {
    fn name(&self) -> &'static str {
        "zstd"
    }

    fn wire_id(&self) -> u16 {
        100
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "Zstandard (RFC 8878) by libzstd: good ratio at every speed, fast decoding"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["zstd", "zstd:1", "zstd:19"]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Prepared {
            method: Method::Zstd {
                level: level(options)?,
                planes: (!input.is_array).then_some(input.spec.dtype.size()),
            },
            coders: Pool::new(),
        }))
    }

    fn hdf5(&self, options: &Options, _input: &Stage) -> Hdf5Form {
        options
            .int("level")
            .ok()
            .and_then(|level| u32::try_from(level).ok())
            .map_or(Hdf5Form::None, |level| filter(FILTER, vec![level]))
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        Some(cd_level(filter, 3, 1, 22))
    }

    fn zarr(&self, options: &Options, _input: &Stage) -> Option<ZarrCodec> {
        Some(bytes_to_bytes("zstd", json!({"level": options.int("level").ok()?, "checksum": false})))
    }
}

struct Prepared {
    method: Method,
    coders: Pool<Coder>,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        zstd_safe::compress_bound(input_len)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        reserve(out, self.max_encoded_len(input.len()))?;
        self.coders.with(|| Ok(Coder::default()), |coder| coder.append(self.method, input, out))?
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        // The size a frame states is not trusted; the output buffer is what limits the decoder.
        resize(out, limit)?;
        let length = self.coders.with(|| Ok(Coder::default()), |coder| coder.decode(Format::Zstd, input, out))??;
        out.truncate(length);
        Ok(())
    }
}
