//! The codec `blosc2`: frames of one chunk, as the HDF5 filter 32026 stores them.

use knarr_array::Result;
use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, OptionDoc, OptionKind, Options, Stage, Step};

use super::chunk::{self, Settings, Version, Workspace};
use super::filters::Filter;
use super::{BLOCK, CNAME, LEVEL, cd_values, compressor_code, frame, from_cd_values, method};
use crate::support::{Pool, filter};

const FILTER: FilterId = 32026;
/// What the filter's `set_local` writes first.
const REVISION: u32 = 1;
/// Dimensions that cd_values have room for (`BLOSC2_MAX_DIM`); arrays of more are given none.
const MOST_DIMENSIONS: usize = 8;

const OPTIONS: &[OptionDoc] = &[
    CNAME,
    LEVEL,
    OptionDoc {
        name: "filter",
        kind: OptionKind::Word(FILTERS),
        doc: "what is done to a block before it is compressed; bytedelta and delta go with shuffle",
    },
];
const FILTERS: &[&str] = &["shuffle", "bitshuffle", "bytedelta", "delta", "no"];

/// Blosc 2 frames.
pub(crate) struct Blosc2;

fn pipeline(options: &Options, typesize: usize) -> Result<Vec<Filter>> {
    Ok(match options.word("filter")? {
        "shuffle" => vec![Filter::Shuffle],
        "bitshuffle" => vec![Filter::Bitshuffle { whole_blocks_only: false }],
        "bytedelta" => vec![Filter::Shuffle, Filter::ByteDelta { size: typesize }],
        "delta" => vec![Filter::Delta, Filter::Shuffle],
        _ => vec![],
    })
}

/// The number of option `filter` in cd_values, which have room for one: readers take the pipeline from the frame.
fn filter_code(options: &Options) -> Result<u32> {
    Ok(match options.word("filter")? {
        "shuffle" | "bytedelta" | "delta" => 1,
        "bitshuffle" => 2,
        _ => 0,
    })
}

impl Codec for Blosc2 {
    fn name(&self) -> &'static str {
        "blosc2"
    }

    fn wire_id(&self) -> u16 {
        105
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "Blosc 2 frames, own implementation: bytedelta with zstd is a strong fast chain that HDF5 readers open"
    }

    fn examples(&self) -> &'static [&'static str] {
        &[
            "blosc2",
            "blosc2:zstd,level=1,filter=bytedelta",
            "blosc2:zlib,filter=bitshuffle",
            "blosc2:lz4hc,filter=delta",
            "blosc2:zstd,filter=no",
        ]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let typesize = chunk::header_typesize(input.spec.dtype.size());
        let settings = Settings {
            version: Version::Two,
            method: method(options)?,
            pipeline: pipeline(options, typesize)?,
            typesize,
            block: BLOCK,
        };
        let byte = |value: u32| u8::try_from(value).unwrap_or(0);
        let level = u32::try_from(options.int("level")?).unwrap_or(0);
        let encoder = frame::Encoder { compressor: byte(compressor_code(options)?), level: byte(level) };
        Ok(Box::new(Prepared { settings, encoder, work: Pool::new() }))
    }

    fn hdf5(&self, options: &Options, input: &Stage) -> Hdf5Form {
        all_cd_values(options, input).map_or(Hdf5Form::None, |cd_values| filter(FILTER, cd_values))
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        let (code, options) = from_cd_values(filter);
        let name = match code {
            Some(0) => "no",
            Some(2) => "bitshuffle",
            Some(3) => "delta",
            _ => "shuffle",
        };
        Some(options.with_word("filter", name))
    }
}

/// Exactly what `set_local` writes: revision, block size (0: chosen by the encoder), what both versions have, and for
/// chunks of two and more dimensions their number and extents.
fn all_cd_values(options: &Options, input: &Stage) -> Option<Vec<u32>> {
    let common = cd_values(options, input, filter_code(options).ok()?)?;
    let mut values = [&[REVISION, 0], &common[..]].concat();
    let shape = &input.spec.shape;
    if (2..=MOST_DIMENSIONS).contains(&shape.len()) {
        for number in std::iter::once(&shape.len()).chain(shape) {
            values.push(u32::try_from(*number).ok()?);
        }
    }
    Some(values)
}

struct Prepared {
    settings: Settings,
    encoder: frame::Encoder,
    work: Pool<Workspace>,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        frame::max_len(input_len)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.work
            .with(|| Ok(Workspace::default()), |work| frame::encode(&self.settings, &self.encoder, input, work, out))?
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        self.work.with(|| Ok(Workspace::default()), |work| frame::decode(input, limit, work, out))?
    }
}
