//! The codec `blosc`: chunks that every Blosc since 1.0 reads.

use knarr_array::Result;
use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, OptionDoc, OptionKind, Options, Stage, Step, ZarrCodec};
use serde_json::json;

use super::chunk::{self, Settings, Version, Workspace};
use super::filters::Filter;
use super::{BLOCK, CNAME, LEVEL, cd_values, from_cd_values, method};
use crate::support::{Pool, bytes_to_bytes, filter, reserve};

const FILTER: FilterId = 32001;
/// What the filter's `set_local` writes first: its own revision and the version of the chunk format.
const REVISION: u32 = 2;
const FORMAT: u32 = 2;

const OPTIONS: &[OptionDoc] = &[
    CNAME,
    LEVEL,
    OptionDoc {
        name: "shuffle",
        kind: OptionKind::Word(SHUFFLES),
        doc: "what is done to a block before it is compressed: byte shuffle, bit shuffle or nothing",
    },
];
const SHUFFLES: &[&str] = &["byte", "bit", "no"];

/// Blosc 1 chunks.
pub(crate) struct Blosc;

/// The number of option `shuffle` in cd_values (`BLOSC_SHUFFLE`, `BLOSC_BITSHUFFLE`, `BLOSC_NOSHUFFLE`).
fn shuffle_code(options: &Options) -> Result<u32> {
    Ok(match options.word("shuffle")? {
        "byte" => 1,
        "bit" => 2,
        _ => 0,
    })
}

impl Codec for Blosc {
    fn name(&self) -> &'static str {
        "blosc"
    }

    fn wire_id(&self) -> u16 {
        104
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "Blosc 1 chunks, own implementation: shuffle and a fast compressor over blocks that fit a cache"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["blosc", "blosc:lz4hc,shuffle=no", "blosc:zlib,level=1,shuffle=bit", "blosc:zstd,level=3,shuffle=byte"]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let pipeline = match shuffle_code(options)? {
            1 => vec![Filter::Shuffle],
            2 => vec![Filter::Bitshuffle { whole_blocks_only: true }],
            _ => vec![],
        };
        let settings = Settings {
            version: Version::One,
            method: method(options)?,
            pipeline,
            typesize: input.spec.dtype.size(),
            block: BLOCK,
        };
        Ok(Box::new(Prepared { settings, work: Pool::new() }))
    }

    fn hdf5(&self, options: &Options, input: &Stage) -> Hdf5Form {
        let common = shuffle_code(options).ok().and_then(|code| cd_values(options, input, code));
        common.map_or(Hdf5Form::None, |common| filter(FILTER, [&[REVISION, FORMAT], &common[..]].concat()))
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        let (code, options) = from_cd_values(filter);
        let shuffle = match code {
            Some(2) => "bit",
            Some(0) => "no",
            _ => "byte",
        };
        Some(options.with_word("shuffle", shuffle))
    }

    fn zarr(&self, options: &Options, input: &Stage) -> Option<ZarrCodec> {
        let shuffle = match shuffle_code(options).ok()? {
            1 => "shuffle",
            2 => "bitshuffle",
            _ => "noshuffle",
        };
        Some(bytes_to_bytes(
            "blosc",
            json!({
                "cname": options.word("cname").ok()?,
                "clevel": options.int("level").ok()?,
                "shuffle": shuffle,
                "typesize": chunk::header_typesize(input.spec.dtype.size()),
                "blocksize": 0,
            }),
        ))
    }
}

struct Prepared {
    settings: Settings,
    work: Pool<Workspace>,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        chunk::max_len(Version::One, input_len)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        reserve(out, self.max_encoded_len(input.len()))?;
        self.work.with(|| Ok(Workspace::default()), |work| chunk::append(&self.settings, input, work, out))?
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        self.work.with(|| Ok(Workspace::default()), |work| chunk::decode(input, limit, work, out))?
    }
}
