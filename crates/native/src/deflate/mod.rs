//! DEFLATE in the two framings that files use: zlib streams and gzip members.

mod bits;
mod blocks;
mod effort;
mod huffman;
mod search;
mod splice;
mod stream;
mod stretch;

use knarr_array::array::DType;
use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::{Error, Result};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, OptionDoc, Options, Stage, Step, ZarrCodec};
use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};
use serde_json::json;

use crate::support::{Pool, bytes_to_bytes, cd_level, filter, level, level_option, resize};
use effort::Effort;

const FILTER: FilterId = 1;
const OPTIONS: &[OptionDoc] =
    &[level_option(1, 12, 5, "1 is fastest, 12 is smallest; 10 to 12 search for the best parse and are slow")];
/// Files state a level only for information; 10 to 12 exist in libdeflate alone.
const LARGEST_ZLIB_LEVEL: i64 = 9;

/// `deflate`: zlib streams, the HDF5 filter 1.
pub(crate) const ZLIB: Deflate = Deflate { framing: Framing::Zlib };
/// `gzip`: gzip members, the Zarr codec.
pub(crate) const GZIP: Deflate = Deflate { framing: Framing::Gzip };

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Zlib,
    Gzip,
}

/// DEFLATE in one framing.
pub(crate) struct Deflate {
    framing: Framing,
}

impl Codec for Deflate {
    fn name(&self) -> &'static str {
        match self.framing {
            Framing::Zlib => "deflate",
            Framing::Gzip => "gzip",
        }
    }

    fn wire_id(&self) -> u16 {
        match self.framing {
            Framing::Zlib => 101,
            Framing::Gzip => 102,
        }
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        match self.framing {
            Framing::Zlib => "DEFLATE (RFC 1951) as a zlib stream by libdeflate: what every HDF5 and netCDF-4 reads",
            Framing::Gzip => "DEFLATE (RFC 1951) as a gzip member by libdeflate: what every Zarr reads",
        }
    }

    fn examples(&self) -> &'static [&'static str] {
        match self.framing {
            Framing::Zlib => &["deflate", "deflate:1", "deflate:12"],
            Framing::Gzip => &["gzip:9"],
        }
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn supports(&self, _dtype: DType) -> bool {
        true
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let level = level(options)?;
        Ok(Box::new(Prepared {
            framing: self.framing,
            planes: if input.is_array { 1 } else { input.spec.dtype.size() },
            effort: Effort::of(level),
            level: CompressionLvl::new(level)
                .map_err(|_| Error::internal("libdeflate refuses a level from 1 to 12"))?,
            encoders: Pool::new(),
            decoders: Pool::new(),
        }))
    }

    fn hdf5(&self, options: &Options, _input: &Stage) -> Hdf5Form {
        match (self.framing, zlib_level(options)) {
            (Framing::Zlib, Some(level)) => filter(FILTER, vec![level]),
            _ => Hdf5Form::None,
        }
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        match self.framing {
            Framing::Zlib => &[FILTER],
            Framing::Gzip => &[],
        }
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        Some(cd_level(filter, 5, 1, LARGEST_ZLIB_LEVEL))
    }

    fn zarr(&self, options: &Options, _input: &Stage) -> Option<ZarrCodec> {
        let name = match self.framing {
            Framing::Zlib => "numcodecs.zlib",
            Framing::Gzip => "gzip",
        };
        Some(bytes_to_bytes(name, json!({"level": zlib_level(options)?})))
    }
}

fn zlib_level(options: &Options) -> Option<u32> {
    u32::try_from(options.int("level").ok()?.min(LARGEST_ZLIB_LEVEL)).ok()
}

/// RFC 1950: deflate, 32 KiB window, default compression.
const ZLIB_HEADER: &[u8] = &[0x78, 0x9C];
/// RFC 1952: deflate, no name, no time, unknown system.
const GZIP_HEADER: &[u8] = &[0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF];
struct Prepared {
    framing: Framing,
    /// Parts of the input that differ in kind: the bytes of each significance after a shuffle.
    planes: usize,
    effort: Effort,
    level: CompressionLvl,
    encoders: Pool<Compressor>,
    decoders: Pool<Decompressor>,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        // Stored blocks of at least 5,000 bytes with 5 bytes each, the final block, and the longer of the two
        // framings.
        input_len + 5 * input_len.div_ceil(5000) + 128
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.extend_from_slice(match self.framing {
            Framing::Zlib => ZLIB_HEADER,
            Framing::Gzip => GZIP_HEADER,
        });
        let begun = std::mem::take(out);
        *out = self.encoders.with(
            || Ok(Compressor::new(self.level)),
            |encoder| stream::encode(input, self.planes, self.effort, encoder, begun),
        )??;
        match self.framing {
            Framing::Zlib => out.extend_from_slice(&libdeflater::adler32(input).to_be_bytes()),
            Framing::Gzip => {
                out.extend_from_slice(&libdeflater::crc32(input).to_le_bytes());
                // RFC 1952: the length modulo 2^32.
                let length = u32::try_from(input.len() & 0xFFFF_FFFF).unwrap_or(0);
                out.extend_from_slice(&length.to_le_bytes());
            }
        }
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        match self.framing {
            Framing::Zlib => inflate(&self.decoders, input, limit, out),
            Framing::Gzip => self.decoders.with(
                || Ok(Decompressor::new()),
                |decoder| decompress(limit, out, |out| decoder.gzip_decompress(input, out)),
            )?,
        }
    }
}

/// Decodes a zlib stream of at most `limit` bytes into `out`, whoever wrote it.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn inflate(decoders: &Pool<Decompressor>, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let decode = |decoder: &mut Decompressor| decompress(limit, out, |out| decoder.zlib_decompress(input, out));
    decoders.with(|| Ok(Decompressor::new()), decode)?
}

/// Replaces `out` by what `decode` writes into a buffer of `limit` bytes.
fn decompress(
    limit: usize,
    out: &mut Vec<u8>,
    decode: impl FnOnce(&mut [u8]) -> Result<usize, DecompressionError>,
) -> Result<()> {
    resize(out, limit)?;
    match decode(out) {
        Ok(length) => {
            out.truncate(length);
            Ok(())
        }
        Err(DecompressionError::BadData) => Err(Error::corrupt("deflate: not a valid stream")),
        Err(DecompressionError::InsufficientSpace) => {
            Err(Error::corrupt(format!("deflate: more than {limit} bytes are encoded")))
        }
    }
}
