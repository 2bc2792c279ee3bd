//! `zlib`: DEFLATE by zlib itself.
//!
//! `deflate` writes the same format faster. This codec is for streams that have to be those of another program, byte for
//! byte: HDF5 and netCDF-C call zlib, whose versions write the same at levels 1 to 9 (compared: 1.2.13 and 1.3.2). Others
//! do not, such as zlib-ng.

use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::{Error, Result};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, OptionDoc, Options, Stage, Step, ZarrCodec};
use libdeflater::Decompressor;
use serde_json::json;

use crate::deflate::inflate;
use crate::support::{Pool, append, bytes_to_bytes, c_len, filter, level, level_option, reserve};

const FILTER: FilterId = 1;
const OPTIONS: &[OptionDoc] = &[level_option(0, 9, 6, "1 is fastest, 9 is smallest; 0 only stores")];

/// zlib streams as zlib's `compress2` writes them, which the HDF5 filter 1 calls.
pub(crate) struct Zlib;

impl Codec for Zlib {
    fn name(&self) -> &'static str {
        "zlib"
    }

    fn wire_id(&self) -> u16 {
        116
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "DEFLATE (RFC 1951) by zlib itself: the very bytes that HDF5 and netCDF-C write; slower and larger than `deflate`"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["zlib", "zlib:0", "zlib:1", "zlib:9"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn prepare(&self, options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Prepared { level: level(options)?, decoders: Pool::new() }))
    }

    fn hdf5(&self, options: &Options, _input: &Stage) -> Hdf5Form {
        let level = options.int("level").ok().and_then(|level| u32::try_from(level).ok());
        level.map_or(Hdf5Form::None, |level| filter(FILTER, vec![level]))
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        match filter.cd_values.as_slice() {
            [level @ 0..=9] => Some(Options::default().with_int("level", i64::from(*level))),
            _ => None,
        }
    }

    fn zarr(&self, options: &Options, _input: &Stage) -> Option<ZarrCodec> {
        Some(bytes_to_bytes("numcodecs.zlib", json!({"level": options.int("level").ok()?})))
    }
}

struct Prepared {
    level: i32,
    decoders: Pool<Decompressor>,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        // `compressBound` of zlib, which may count in 32 bits.
        input_len + (input_len >> 12) + (input_len >> 14) + (input_len >> 25) + 13
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let capacity = self.max_encoded_len(input.len());
        let length = c_len(input.len(), "zlib")?;
        reserve(out, capacity)?;
        let compress = |to: *mut u8, capacity: usize| {
            let mut written = c_len(capacity, "zlib")?;
            // SAFETY: `to` has room for `capacity` bytes, which `written` says, and `input` has `length` bytes. zlib keeps
            // neither address.
            let status = unsafe { libz_sys::compress2(to, &raw mut written, input.as_ptr(), length, self.level) };
            match status {
                libz_sys::Z_OK => usize::try_from(written).map_err(|_| Error::internal("zlib: impossible length")),
                libz_sys::Z_MEM_ERROR => Err(Error::unsupported("zlib: no memory").hint("use fewer threads")),
                other => Err(Error::internal(format!("zlib: error {other}"))),
            }
        };
        // SAFETY: `compress2` writes at most as many bytes as it is told that there is room for, and says how many.
        unsafe { append(out, capacity, compress) }
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        inflate(&self.decoders, input, limit, out)
    }
}
