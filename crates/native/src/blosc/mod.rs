//! Blosc: chunks of blocks, each filtered and compressed on its own.
//!
//! An own implementation of the published formats (`README_CHUNK_FORMAT`, `README_CFRAME_FORMAT` and
//! `README_B2ND_METALAYER` of C-Blosc2) over the block compressors of this crate. It keeps no global state, starts
//! no threads, checks every length and offset, and adds no second copy of zstd, lz4 and zlib to the program.

mod b2nd;
mod blosclz;
mod chunk;
mod filters;
mod frame;
mod header_reader;
mod v1;
mod v2;

pub(crate) use v1::Blosc;
pub(crate) use v2::Blosc2;

use knarr_array::filter::Hdf5Filter;
use knarr_array::{Error, Result};
use knarr_codec::codec::{OptionDoc, OptionKind, Options, Stage};

use crate::support::{Method, level, level_option, lz4_block};

/// Compressors that chunks are written with, by Blosc's names and with Blosc's numbers (`BLOSC_LZ4` and so on).
/// `blosclz` and `snappy` are only read.
const COMPRESSORS: &[&str] = &["lz4", "lz4hc", "zlib", "zstd"];
const COMPRESSOR_CODES: &[u32] = &[1, 2, 4, 5];

const CNAME: OptionDoc =
    OptionDoc { name: "cname", kind: OptionKind::Word(COMPRESSORS), doc: "compressor of the blocks" };
const LEVEL: OptionDoc = level_option(1, 9, 5, "1 is fastest, 9 is smallest; zstd gets level 2n-1, and 22 for 9");

/// Bytes per block, so that most chunks are one block. Blosc's own choice fits the first-level cache for the sake of
/// threads that share a chunk; here a thread has whole chunks, and 1 MiB measured as fast as 256 KiB with a ratio
/// 12 % (byte delta) to 32 % (byte shuffle) better with zstd on the smooth field of the speed benchmark.
const BLOCK: usize = 1 << 20;

/// Number of the compressor that the options name.
fn compressor_code(options: &Options) -> Result<u32> {
    let name = options.word("cname")?;
    let index = COMPRESSORS.iter().position(|known| *known == name);
    index
        .and_then(|index| COMPRESSOR_CODES.get(index).copied())
        .ok_or_else(|| Error::internal(format!("blosc has no compressor '{name}'")))
}

/// Name of the compressor with this number. A decoder takes it from the chunk, so any serves for one that is only read.
fn compressor_name(code: u32) -> &'static str {
    let index = COMPRESSOR_CODES.iter().position(|known| *known == code);
    index.and_then(|index| COMPRESSORS.get(index).copied()).unwrap_or("lz4")
}

/// What Blosc's level from 1 to 9 means for each compressor, as in C-Blosc2.
fn method(options: &Options) -> Result<Method> {
    let level = level(options)?;
    Ok(match options.word("cname")? {
        "lz4" => Method::Lz4(lz4_block::Method::Fast { acceleration: 10 - level }),
        "lz4hc" => Method::Lz4(lz4_block::Method::High { level }),
        "zlib" => Method::Zlib { level },
        _ => Method::Zstd { level: if level < 9 { 2 * level - 1 } else { 22 }, planes: None },
    })
}

/// What both filters write of `cd_values` behind the first two: bytes per element and chunk, level, the number of what
/// is done to blocks before, compressor.
fn cd_values(options: &Options, input: &Stage, filter_code: u32) -> Option<[u32; 5]> {
    let number = |value: usize| u32::try_from(value).ok();
    Some([
        number(chunk::header_typesize(input.spec.dtype.size()))?,
        number(input.spec.byte_len())?,
        u32::try_from(options.int("level").ok()?).ok()?,
        filter_code,
        compressor_code(options).ok()?,
    ])
}

/// The number of what is done to blocks before, and the options `cname` and `level`, of a filter of either version.
fn from_cd_values(filter: &Hdf5Filter) -> (Option<u32>, Options) {
    let value = |index: usize| filter.cd_values.get(index).copied();
    let options = Options::default()
        .with_word("cname", compressor_name(value(6).unwrap_or(0)))
        .with_int("level", i64::from(value(4).unwrap_or(5)).clamp(1, 9));
    (value(5), options)
}
