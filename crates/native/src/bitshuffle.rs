//! The compressed modes of the bitshuffle filter: bits transposed, then LZ4 or zstd, block by block.

use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::{Error, Result};
use knarr_codec::codec::bitshuffle::{self, Layout};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, OptionDoc, Options, Stage, Step};

use crate::support::{Coder, Method, Pool, level, level_option, lz4_block};

const LZ4_OPTIONS: &[OptionDoc] = &bitshuffle::OPTIONS;
const ZSTD_OPTIONS: &[OptionDoc] = &[
    level_option(1, 22, 3, "level of zstd: 1 is fastest, 22 is smallest"),
    bitshuffle::OPTIONS[0],
    bitshuffle::OPTIONS[1],
];
/// What the filter compresses with if its level is not stated.
const DEFAULT_LEVEL: u32 = 3;

/// `BSHUF_H5_COMPRESS_LZ4`
const LZ4_MODE: u32 = 2;
/// `BSHUF_H5_COMPRESS_ZSTD`
const ZSTD_MODE: u32 = 3;

/// Bit shuffle with LZ4.
pub(crate) const LZ4: Bitshuffle = Bitshuffle { mode: LZ4_MODE };
/// Bit shuffle with zstd.
pub(crate) const ZSTD: Bitshuffle = Bitshuffle { mode: ZSTD_MODE };

/// One compressed mode of the filter.
pub(crate) struct Bitshuffle {
    mode: u32,
}

impl Bitshuffle {
    fn is_zstd(&self) -> bool {
        self.mode == ZSTD_MODE
    }
}

impl Codec for Bitshuffle {
    fn name(&self) -> &'static str {
        if self.is_zstd() { "bitshuffle-zstd" } else { "bitshuffle-lz4" }
    }

    fn wire_id(&self) -> u16 {
        if self.is_zstd() { 113 } else { 112 }
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        if self.is_zstd() {
            "bit shuffle and zstd in blocks of 8 KiB, as one HDF5 filter (32008)"
        } else {
            "bit shuffle and LZ4 in blocks of 8 KiB, as one HDF5 filter (32008): common for detector images"
        }
    }

    fn examples(&self) -> &'static [&'static str] {
        if self.is_zstd() {
            &["bitshuffle-zstd", "bitshuffle-zstd:1,block=128"]
        } else {
            &["bitshuffle-lz4", "bitshuffle-lz4:-1"]
        }
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionDoc] {
        if self.is_zstd() { ZSTD_OPTIONS } else { LZ4_OPTIONS }
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let method = if self.is_zstd() {
            Method::Zstd { level: level(options)?, planes: None }
        } else {
            Method::Lz4(lz4_block::Method::Fast { acceleration: 1 })
        };
        Ok(Box::new(Prepared { method, layout: Layout::new(options, input)?, coders: Pool::new() }))
    }

    fn hdf5(&self, options: &Options, input: &Stage) -> Hdf5Form {
        let Ok(layout) = Layout::new(options, input) else { return Hdf5Form::None };
        if !self.is_zstd() {
            return layout.hdf5(input, &[LZ4_MODE]);
        }
        let level = options.int("level").ok().and_then(|level| u32::try_from(level).ok());
        level.map_or(Hdf5Form::None, |level| layout.hdf5(input, &[ZSTD_MODE, level]))
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[bitshuffle::FILTER]
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        if filter.cd_values.get(4) != Some(&self.mode) {
            return None;
        }
        let options = bitshuffle::options_from_hdf5(&filter.cd_values)?;
        if !self.is_zstd() {
            return Some(options);
        }
        let level = filter.cd_values.get(5).copied().unwrap_or(DEFAULT_LEVEL);
        Some(options.with_int("level", i64::from(level).clamp(1, 22)))
    }
}

struct Prepared {
    method: Method,
    layout: Layout,
    coders: Pool<Coder>,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        bitshuffle::max_blocks_len(self.layout, input_len, |block| self.method.bound(block))
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        crate::support::reserve(out, self.max_encoded_len(input.len()))?;
        self.coders.with(
            || Ok(Coder::default()),
            |coder| {
                bitshuffle::encode_blocks(self.layout, input, out, |block, out| coder.append(self.method, block, out))
            },
        )?
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let format = self.method.format();
        self.coders.with(
            || Ok(Coder::default()),
            |coder| {
                bitshuffle::decode_blocks(self.layout.size, input, limit, out, |data, block| {
                    coder.expand(format, data, block).map_err(|error: Error| error.at("bitshuffle"))
                })
            },
        )?
    }
}
