//! The codec around [`super::grid`]: names, options and kinds.

use super::grid;
use super::{Codec, Kind, Options, Stage, Step, ZarrCodec, ZarrKind};
use knarr_array::array::{ArraySpec, DType};
use knarr_array::error::{Error, Result};

/// Knarr's own codec for gridded numbers.
pub(super) struct Grid;

impl Codec for Grid {
    fn name(&self) -> &'static str {
        "grid"
    }

    fn wire_id(&self) -> u16 {
        41
    }

    fn kind(&self) -> Kind {
        Kind::ArrayToBytes
    }

    fn summary(&self) -> &'static str {
        "Knarr's own: finds lattices, masks and smoothness in N dimensions and codes residuals in context"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["grid", "grid | shuffle:1"]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype.is_number()
    }

    fn needs_values(&self) -> bool {
        true
    }

    fn prepare(&self, _options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let spec = input.spec.clone();
        if !spec.dtype.is_number() {
            return Err(Error::unsupported(format!("'grid' does not take elements of type {}", spec.dtype)));
        }
        Ok(Box::new(Prepared { spec }))
    }

    fn zarr(&self, _options: &Options, _input: &Stage) -> Option<ZarrCodec> {
        Some(ZarrCodec { kind: ZarrKind::ArrayToBytes, metadata: serde_json::json!({"name": "knarr.grid"}) })
    }
}

struct Prepared {
    spec: ArraySpec,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        // Version byte, and a mode and length for each of the parts, with room to spare.
        input_len + input_len / 1024 + 64
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        grid::encode(self.spec.dtype, &self.spec.shape, &self.spec.fills, input, out)
            .map_err(|error| Error::internal(error.to_string()))
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.spec.byte_len() > limit {
            return Err(Error::corrupt("the chunk is larger than what is expected of it"));
        }
        out.clear();
        grid::decode(self.spec.dtype, &self.spec.shape, input, out).map_err(|error| Error::corrupt(error.to_string()))
    }
}
