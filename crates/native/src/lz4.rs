//! LZ4 in the framing of the HDF5 filter 32004.
//!
//! Layout (H5Z-LZ4): original size (u64), block size (u32), then per block its compressed size (u32) and bytes;
//! all numbers big-endian. A block whose compressed size equals its original size is stored as it is.

use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::{Error, Result};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, OptionDoc, OptionKind, Options, Stage, Step};

use crate::support::{c_len, filter, level, level_option, lz4_block, reserve, resize};

const FILTER: FilterId = 32004;
const OPTIONS: &[OptionDoc] = &[
    level_option(0, 12, 0, "0 is the fast encoder; 1 to 12 are lz4hc levels, slower and smaller"),
    OptionDoc {
        name: "block",
        kind: OptionKind::Int { min: 0, max: LARGEST_BLOCK, default: Some(0) },
        doc: "bytes that are encoded at once; 0 stands for 1 GiB",
    },
];
/// What the HDF5 filter takes for block size 0.
const DEFAULT_BLOCK: usize = 1 << 30;
/// `LZ4_MAX_INPUT_SIZE`.
const LARGEST_BLOCK: i64 = 0x7E00_0000;
/// A length or size.
const FIELD: usize = 4;
const HEADER: usize = 8 + FIELD;

/// LZ4 blocks behind the header of the HDF5 filter.
pub(crate) struct Lz4;

impl Codec for Lz4 {
    fn name(&self) -> &'static str {
        "lz4"
    }

    fn wire_id(&self) -> u16 {
        103
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "LZ4 and LZ4HC by liblz4 in the framing of the HDF5 filter: the fastest, at a small ratio"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["lz4", "lz4:9", "lz4:0,block=512"]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn prepare(&self, options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        let block = match usize::try_from(options.int("block")?) {
            Ok(0) | Err(_) => DEFAULT_BLOCK,
            Ok(block) => block,
        };
        let method = match level(options)? {
            0 => lz4_block::Method::Fast { acceleration: 1 },
            level => lz4_block::Method::High { level },
        };
        Ok(Box::new(Prepared { method, block }))
    }

    fn hdf5(&self, options: &Options, _input: &Stage) -> Hdf5Form {
        let block = options.int("block").ok().and_then(|block| u32::try_from(block).ok());
        block.map_or(Hdf5Form::None, |block| filter(FILTER, vec![block]))
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        let block = filter.cd_values.first().copied().unwrap_or(0);
        // A chunk states its own block size, so one that no encoder would use does no harm here.
        let block = i64::from(block).min(LARGEST_BLOCK);
        Some(Options::default().with_int("level", 0).with_int("block", block))
    }
}

struct Prepared {
    method: lz4_block::Method,
    block: usize,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        let block = self.block.min(input_len).max(1);
        input_len + HEADER + FIELD * input_len.div_ceil(block)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let block = self.block.min(input.len());
        // liblz4 is faster if it need not watch the end of its output, so the last block may be given more room
        // than it keeps.
        reserve(out, self.max_encoded_len(input.len()) + lz4_block::bound(block)? - block)?;
        out.extend_from_slice(&(input.len() as u64).to_be_bytes());
        out.extend_from_slice(&c_len::<u32>(block, "lz4")?.to_be_bytes());
        for plain in input.chunks(block.max(1)) {
            let field = out.len();
            out.extend_from_slice(&[0; FIELD]);
            let data = out.len();
            lz4_block::append(self.method, plain, out)?;
            if out.len() - data >= plain.len() {
                out.truncate(data);
                out.extend_from_slice(plain);
            }
            let size = c_len::<u32>(out.len() - data, "lz4")?.to_be_bytes();
            if let Some(place) = out.get_mut(field..data) {
                place.copy_from_slice(&size);
            }
        }
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let ends_early = || Error::corrupt("lz4: the chunk ends early");
        let (size, rest) = input.split_first_chunk::<8>().ok_or_else(ends_early)?;
        let (block, mut rest) = rest.split_first_chunk::<FIELD>().ok_or_else(ends_early)?;
        let size = usize::try_from(u64::from_be_bytes(*size)).unwrap_or(usize::MAX);
        let block = usize::try_from(u32::from_be_bytes(*block)).unwrap_or(usize::MAX);
        if size > limit {
            return Err(Error::corrupt(format!("lz4: more than {limit} bytes are encoded")));
        }
        if block == 0 && size > 0 {
            return Err(Error::corrupt("lz4: block size 0"));
        }
        resize(out, size)?;
        for plain in out.chunks_mut(block.max(1)) {
            let (length, after) = rest.split_first_chunk::<FIELD>().ok_or_else(ends_early)?;
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            let (data, after) = after.split_at_checked(length).ok_or_else(ends_early)?;
            if length == plain.len() {
                plain.copy_from_slice(data);
            } else {
                lz4_block::expand(data, plain)?;
            }
            rest = after;
        }
        Ok(())
    }
}
