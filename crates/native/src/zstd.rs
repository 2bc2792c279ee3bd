//! Zstandard.

use knarr_core::array::DType;
use knarr_core::codec::{Codec, FilterId, Hdf5Filter, Hdf5Form, Kind, OptionDoc, Options, Stage, Step, ZarrCodec};
use knarr_core::{Error, Result};
use serde_json::json;
use zstd_safe::{CCtx, DCtx, WriteBuf};

use crate::support::{Pool, bytes_to_bytes, cd_level, filter, level, level_option, reserve};

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

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn supports(&self, _dtype: DType) -> bool {
        true
    }

    fn prepare(&self, options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Prepared { level: level(options)?, encoders: Pool::new(), decoders: Pool::new() }))
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
    level: i32,
    encoders: Pool<CCtx<'static>>,
    decoders: Pool<DCtx<'static>>,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        zstd_safe::compress_bound(input_len)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        reserve(out, self.max_encoded_len(input.len()))?;
        self.encoders
            .with(
                || CCtx::try_create().ok_or_else(|| Error::unsupported("no memory for a zstd encoder")),
                |context| context.compress(out, input, self.level),
            )?
            .map(drop)
            .map_err(|code| Error::internal(format!("zstd: {}", zstd_safe::get_error_name(code))))
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        // The size a frame states is not trusted; the output buffer is what limits the decoder.
        let mut window = Window::new(out, limit)?;
        self.decoders
            .with(
                || DCtx::try_create().ok_or_else(|| Error::unsupported("no memory for a zstd decoder")),
                |context| context.decompress(&mut window, input),
            )?
            .map(drop)
            .map_err(|code| Error::corrupt(format!("zstd: {}", zstd_safe::get_error_name(code))))
    }
}

/// The first `limit` bytes of a vector's capacity, whatever its real capacity is.
struct Window<'a> {
    out: &'a mut Vec<u8>,
    limit: usize,
}

impl<'a> Window<'a> {
    fn new(out: &'a mut Vec<u8>, limit: usize) -> Result<Self> {
        reserve(out, limit)?;
        Ok(Self { out, limit })
    }
}

// SAFETY: `new` reserved `limit` bytes from the start of the vector and nothing else can reallocate it while it
// is borrowed here.
unsafe impl WriteBuf for Window<'_> {
    fn as_slice(&self) -> &[u8] {
        self.out
    }

    fn capacity(&self) -> usize {
        self.limit
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.out.as_mut_ptr()
    }

    unsafe fn filled_until(&mut self, n: usize) {
        // SAFETY: the caller says that the first `n` bytes, within `limit`, are set.
        unsafe { self.out.set_len(n.min(self.limit)) }
    }
}
