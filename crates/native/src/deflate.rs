//! DEFLATE by libdeflate, in the two framings that files use: zlib streams and gzip members.

use knarr_core::array::DType;
use knarr_core::codec::{Codec, FilterId, Hdf5Filter, Hdf5Form, Kind, OptionDoc, Options, Stage, Step, ZarrCodec};
use knarr_core::{Error, Result};
use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};
use serde_json::json;

use crate::support::{Pool, bytes_to_bytes, cd_level, filter, level, level_option, resize};

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

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn supports(&self, _dtype: DType) -> bool {
        true
    }

    fn prepare(&self, options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        let level = CompressionLvl::new(level(options)?)
            .map_err(|_| Error::internal("libdeflate refuses a level from 1 to 12"))?;
        Ok(Box::new(Prepared { framing: self.framing, level, encoders: Pool::new(), decoders: Pool::new() }))
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

struct Prepared {
    framing: Framing,
    level: CompressionLvl,
    encoders: Pool<Compressor>,
    decoders: Pool<Decompressor>,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        // Stored blocks of at least 10,000 bytes with 5 bytes each (libdeflate's own bound), the final block, and
        // the longer of the two framings.
        input_len + 5 * input_len.div_ceil(5000) + 64
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let framing = self.framing;
        let encoded = self.encoders.with(
            || Ok(Compressor::new(self.level)),
            |encoder| {
                resize(out, self.max_encoded_len(input.len()))?;
                match framing {
                    Framing::Zlib => encoder.zlib_compress(input, out),
                    Framing::Gzip => encoder.gzip_compress(input, out),
                }
                .map_err(|error| Error::internal(format!("deflate: {error}")))
            },
        )??;
        out.truncate(encoded);
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        resize(out, limit)?;
        let decoded = self.decoders.with(
            || Ok(Decompressor::new()),
            |decoder| match self.framing {
                Framing::Zlib => decoder.zlib_decompress(input, out),
                Framing::Gzip => decoder.gzip_decompress(input, out),
            },
        )?;
        match decoded {
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
}
