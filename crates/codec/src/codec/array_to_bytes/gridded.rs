//! The codec around the crate `grid`: names, options and kinds, and the codecs to which it leaves blocks.

use crate::codec::array_to_bytes::pcodec::Pcodec;
use crate::codec::compressors::brotli::Brotli;
use crate::codec::{Codec, Kind, Options, Stage, Step, ZarrCodec, ZarrKind};
use knarr_array::array::{ArraySpec, DType};
use knarr_array::error::{Error, Result};
use knarr_grid::{Libraries, Library};

/// The codecs to which `grid` leaves blocks.
pub const GRID_LIBRARIES: Libraries<'static> = Libraries {
    pcodec: &Left { codec: &Pcodec, option: "level" },
    brotli: &Left { codec: &Brotli, option: "quality" },
};

/// A codec to which blocks are left, and the option that is its effort.
struct Left {
    codec: &'static dyn Codec,
    option: &'static str,
}

impl Left {
    /// The codec, ready for `length` bytes.
    fn step(&self, dtype: DType, effort: i64, length: usize) -> Result<Box<dyn Step>> {
        let spec = ArraySpec::new(dtype, [length / dtype.size()]);
        self.codec.prepare(&Options::default().with_int(self.option, effort), &Stage { spec, is_array: true })
    }
}

impl Library for Left {
    fn encode(&self, dtype: DType, effort: i64, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.step(dtype, effort, bytes.len()).and_then(|step| step.encode(bytes, &mut out)).ok()?;
        Some(out)
    }

    fn decode(&self, dtype: DType, length: usize, body: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.step(dtype, 5, length).and_then(|step| step.decode(body, length, &mut bytes)).ok()?;
        Some(bytes)
    }
}

/// Knarr's own codec for gridded numbers.
pub(in crate::codec) struct Grid;

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
        let ArraySpec { dtype, shape, fills, .. } = &self.spec;
        knarr_grid::encode(*dtype, shape, fills, input, GRID_LIBRARIES, out)
            .map_err(|error| Error::internal(error.to_string()))
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.spec.byte_len() > limit {
            return Err(Error::corrupt("the chunk is larger than what is expected of it"));
        }
        out.clear();
        knarr_grid::decode(self.spec.dtype, &self.spec.shape, input, GRID_LIBRARIES, out)
            .map_err(|error| Error::corrupt(error.to_string()))
    }
}
