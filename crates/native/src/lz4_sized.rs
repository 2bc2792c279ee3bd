//! LZ4 in the framing of numcodecs: one block behind its decoded length (u32, little-endian).

use knarr_array::{Error, Result};
use knarr_codec::codec::{Codec, Kind, OptionDoc, OptionKind, Options, Stage, Step, ZarrCodec};
use serde_json::json;

use crate::support::{bytes_to_bytes, c_len, lz4_block, reserve, resize};

const OPTIONS: &[OptionDoc] = &[OptionDoc {
    name: "acceleration",
    kind: OptionKind::Int { min: 1, max: 65_537, default: Some(1) },
    doc: "larger skips more: faster and larger",
}];
/// Bytes of the length before the block.
const FIELD: usize = 4;

/// One LZ4 block behind its length: `numcodecs.lz4`. Files of HDF5 use the framing of codec `lz4`.
pub(crate) struct Lz4Sized;

impl Codec for Lz4Sized {
    fn name(&self) -> &'static str {
        "lz4-sized"
    }

    fn wire_id(&self) -> u16 {
        114
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "LZ4 by liblz4 in the framing of numcodecs, for Zarr"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["lz4-sized", "lz4-sized:20"]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn prepare(&self, options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        let acceleration = i32::try_from(options.int("acceleration")?)
            .map_err(|_| Error::internal("option 'acceleration' is out of range"))?;
        Ok(Box::new(Prepared { method: lz4_block::Method::Fast { acceleration } }))
    }

    fn zarr(&self, options: &Options, _input: &Stage) -> Option<ZarrCodec> {
        Some(bytes_to_bytes("numcodecs.lz4", json!({"acceleration": options.int("acceleration").ok()?})))
    }
}

struct Prepared {
    method: lz4_block::Method,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        // `LZ4_COMPRESSBOUND`
        FIELD + input_len + input_len / 255 + 16
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        reserve(out, FIELD + lz4_block::bound(input.len())?)?;
        out.extend_from_slice(&c_len::<u32>(input.len(), "lz4-sized")?.to_le_bytes());
        lz4_block::append(self.method, input, out)
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let (size, block) = input
            .split_first_chunk::<FIELD>()
            .ok_or_else(|| Error::corrupt(format!("lz4-sized: {} bytes are too few for a length", input.len())))?;
        let size = usize::try_from(u32::from_le_bytes(*size)).unwrap_or(usize::MAX);
        if size > limit {
            return Err(Error::corrupt(format!("lz4-sized: more than {limit} bytes are encoded")));
        }
        resize(out, size)?;
        lz4_block::expand(block, out)
    }
}
