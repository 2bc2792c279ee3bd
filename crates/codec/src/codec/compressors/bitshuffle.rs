//! `bitshuffle`: bits of like significance together. HDF5 filter 32008.
//!
//! The layout is that of the registered filter (K. Masui et al., Astronomy and Computing 12, 2015;
//! `bshuf_bitshuffle` and `bshuf_h5filter.c`): blocks of a multiple of 8 elements, a shorter last
//! block, and fewer than 8 elements copied as they are. The filter's compressed modes put a header
//! and sizes around the same blocks; [`encode_blocks`] and [`decode_blocks`] do that framing for
//! codecs that bring the compressor.

use pulp::Arch;

use crate::codec::{Codec, Hdf5Form, Kind, OptionDoc, OptionKind, Options, Stage, Step};
use crate::codec::{check_limit, compressors::shuffle::element_size, planes, sized};
use knarr_array::error::{Error, Result};
use knarr_array::filter::{FilterId, Hdf5Filter};

/// Registered number of the filter.
pub const FILTER: FilterId = knarr_array::filter::BITSHUFFLE;

/// Version of the filter whose cd_values are written.
const VERSION: [u32; 2] = [0, 4];

/// Blocks hold a multiple of so many elements; fewer at the end are copied.
const MULTIPLE: usize = 8;

/// Length of the header of the compressed modes.
const HEADER: usize = 12;

/// Options shared by the plain and the compressed modes.
pub const OPTIONS: [OptionDoc; 2] = [
    OptionDoc {
        name: "block",
        kind: OptionKind::Int { min: -1, max: 1 << 30, default: Some(0) },
        doc: "elements per block, a multiple of 8; 0 is the filter's default of 8 KiB, -1 the whole chunk",
    },
    OptionDoc {
        name: "size",
        kind: OptionKind::Int { min: 0, max: 65_535, default: Some(0) },
        doc: "bytes per element; 0 takes that of the data type",
    },
];

/// The plain mode: bits are transposed and nothing is compressed.
pub(in crate::codec) struct Bitshuffle;

impl Codec for Bitshuffle {
    fn name(&self) -> &'static str {
        "bitshuffle"
    }

    fn wire_id(&self) -> u16 {
        2
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "bit shuffle: stores the lowest bits of all elements of a block, then the next ones (HDF5 filter 32008)"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["bitshuffle", "bitshuffle:8", "bitshuffle:-1", "bitshuffle:64,size=3", "snappy | bitshuffle"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        &OPTIONS
    }

    fn keeps_size(&self, _options: &Options) -> bool {
        true
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Plain { layout: Layout::new(options, input)? }))
    }

    fn hdf5(&self, options: &Options, input: &Stage) -> Hdf5Form {
        let Ok(layout) = Layout::new(options, input) else { return Hdf5Form::None };
        layout.hdf5(input, &[0])
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        match filter.cd_values.as_slice() {
            [_, _, _] | [_, _, _, _] | [_, _, _, _, 0, ..] => options_from_hdf5(&filter.cd_values),
            _ => None,
        }
    }
}

/// Options `block` and `size` of a pipeline entry of the filter, whatever its mode; `None` if they make no sense.
pub fn options_from_hdf5(cd_values: &[u32]) -> Option<Options> {
    let size = cd_values.get(2).filter(|size| (1..=65_535).contains(*size))?;
    let block = cd_values.get(3).copied().unwrap_or(0);
    let sound = block <= 1 << 30 && block % 8 == 0;
    sound.then(|| Options::default().with_int("block", i64::from(block)).with_int("size", i64::from(*size)))
}

/// Sizes of elements and blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes per element, at least 1.
    pub size: usize,
    /// Elements per block, a multiple of 8 and at least 8.
    pub block: usize,
    /// `block` as written to cd_values: 0 for the default.
    stored: u32,
}

impl Layout {
    /// The layout that options `block` and `size` ask for.
    ///
    /// # Errors
    /// `Usage` if the block is not a multiple of 8 elements.
    pub fn new(options: &Options, input: &Stage) -> Result<Self> {
        let size = element_size(options, input)?;
        let whole = (input.spec.byte_len() / size / MULTIPLE).max(1) * MULTIPLE;
        match options.int("block")? {
            0 => Ok(Self { size, block: default_block(size), stored: 0 }),
            -1 => Self::of_block(size, whole),
            block => Self::of_block(size, usize::try_from(block).unwrap_or_default()),
        }
    }

    fn of_block(size: usize, block: usize) -> Result<Self> {
        let stored = u32::try_from(block).unwrap_or_default();
        if stored == 0 || !block.is_multiple_of(MULTIPLE) {
            return Err(Error::usage(format!("bitshuffle: blocks of {block} elements"))
                .hint("give a multiple of 8, 0 for the default, or -1 for the whole chunk"));
        }
        Ok(Self { size, block, stored })
    }

    /// The pipeline entry exactly as the filter's `set_local` writes it, with `mode` and its parameters at the end.
    pub fn hdf5(&self, input: &Stage, mode: &[u32]) -> Hdf5Form {
        let (Ok(size), true) = (u32::try_from(self.size), input.spec.byte_len().is_multiple_of(self.size)) else {
            return Hdf5Form::None;
        };
        let cd_values = [&[VERSION[0], VERSION[1], size, self.stored], mode].concat();
        Hdf5Form::Filter(Hdf5Filter { id: FILTER, optional: false, cd_values })
    }

    /// Bytes per block.
    pub fn block_len(&self) -> usize {
        self.block * self.size
    }

    /// Parts `len` bytes into those in blocks and those copied at the end.
    fn blocked_len(&self, len: usize) -> usize {
        let group = MULTIPLE * self.size;
        len / group * group
    }
}

/// `bshuf_default_block_size`: 8 KiB in elements, a multiple of 8, at least 128.
pub fn default_block(size: usize) -> usize {
    (8192 / size.max(1) / MULTIPLE * MULTIPLE).max(128)
}

struct Plain {
    layout: Layout,
}

impl Step for Plain {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.each_block(input, sized(out, input.len()), transpose);
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        check_limit(input.len(), limit)?;
        self.each_block(input, sized(out, input.len()), untranspose);
        Ok(())
    }
}

impl Plain {
    fn each_block(&self, input: &[u8], out: &mut [u8], work: fn(&[u8], usize, &mut [u8], &mut Vec<u8>)) {
        let blocked = self.layout.blocked_len(input.len());
        let (blocks, rest) = input.split_at(blocked);
        let (out_blocks, out_rest) = out.split_at_mut(blocked);
        let mut scratch = Vec::new();
        for (block, out) in blocks.chunks(self.layout.block_len()).zip(out_blocks.chunks_mut(self.layout.block_len())) {
            work(block, self.layout.size, out, &mut scratch);
        }
        out_rest.copy_from_slice(rest);
    }
}

/// Transposes the bits of one block: row `r` of `out` (one bit per element) holds bit `r` of every element,
/// counted from the lowest bit of the first byte. `block` and `out` hold the same multiple of 8 elements
/// of `size` bytes.
pub fn transpose(block: &[u8], size: usize, out: &mut [u8], scratch: &mut Vec<u8>) {
    let scratch = sized(scratch, block.len());
    planes::split(block, size, scratch);
    let plane_len = (block.len() / size.max(1)).max(1);
    for (plane, rows) in scratch.chunks_exact_mut(plane_len).zip(out.chunks_exact_mut(plane_len)) {
        transpose_bits(plane);
        planes::split(plane, 8, rows);
    }
}

/// Inverse of [`transpose`].
pub fn untranspose(block: &[u8], size: usize, out: &mut [u8], scratch: &mut Vec<u8>) {
    let scratch = sized(scratch, block.len());
    let plane_len = (block.len() / size.max(1)).max(1);
    for (rows, plane) in block.chunks_exact(plane_len).zip(scratch.chunks_exact_mut(plane_len)) {
        planes::join(rows, 8, plane);
        transpose_bits(plane);
    }
    planes::join(scratch, size, out);
}

/// Transposes each group of 8 bytes as a matrix of 8 by 8 bits (Warren, Hacker's Delight, 7-3). Its own inverse.
fn transpose_bits(bytes: &mut [u8]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for group in bytes.as_chunks_mut::<8>().0 {
                let mut x = u64::from_le_bytes(*group);
                let t = (x ^ (x >> 7)) & 0x00AA_00AA_00AA_00AA;
                x ^= t ^ (t << 7);
                let t = (x ^ (x >> 14)) & 0x0000_CCCC_0000_CCCC;
                x ^= t ^ (t << 14);
                let t = (x ^ (x >> 28)) & 0x0000_0000_F0F0_F0F0;
                x ^= t ^ (t << 28);
                *group = x.to_le_bytes();
            }
        },
    );
}

/// Upper bound of the length of [`encode_blocks`] if a block of `n` bytes compresses to at most `bound(n)`.
pub fn max_blocks_len(layout: Layout, input_len: usize, bound: impl Fn(usize) -> usize) -> usize {
    let blocked = layout.blocked_len(input_len);
    let (full, last) = (blocked / layout.block_len(), blocked % layout.block_len());
    let block = |len: usize| bound(len).saturating_add(4);
    let last = if last > 0 { block(last) } else { 0 };
    (full.saturating_mul(block(layout.block_len()))).saturating_add(last + HEADER + (input_len - blocked))
}

/// Writes the compressed form of the filter: total length (64 bits) and block length (32 bits) in bytes, then
/// for each transposed block its compressed length (32 bits) and bytes, then the elements left over; all
/// lengths big-endian. `compress` appends one compressed block to the vector.
///
/// # Errors
/// What `compress` reports; `Unsupported` if a length does not fit its field.
pub fn encode_blocks(
    layout: Layout,
    input: &[u8],
    out: &mut Vec<u8>,
    mut compress: impl FnMut(&[u8], &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let block_len = u32::try_from(layout.block_len())
        .map_err(|_| Error::unsupported(format!("bitshuffle: blocks of {} bytes", layout.block_len())))?;
    out.clear();
    out.extend_from_slice(&(input.len() as u64).to_be_bytes());
    out.extend_from_slice(&block_len.to_be_bytes());
    let (blocks, rest) = input.split_at(layout.blocked_len(input.len()));
    let (mut bits, mut scratch) = (Vec::new(), Vec::new());
    for block in blocks.chunks(layout.block_len()) {
        transpose(block, layout.size, sized(&mut bits, block.len()), &mut scratch);
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        compress(&bits, out)?;
        let len = u32::try_from(out.len() - start - 4)
            .map_err(|_| Error::unsupported("bitshuffle: a compressed block exceeds 4 GiB"))?;
        if let Some(field) = out.get_mut(start..start + 4) {
            field.copy_from_slice(&len.to_be_bytes());
        }
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Inverse of [`encode_blocks`] for elements of `size` bytes. Block lengths come from the stream, as in the
/// filter. `decompress` fills the slice with one decompressed block.
///
/// # Errors
/// `Corrupt` if the stream is not what the filter writes or decodes to more than `limit` bytes;
/// what `decompress` reports.
pub fn decode_blocks(
    size: usize,
    input: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
    mut decompress: impl FnMut(&[u8], &mut [u8]) -> Result<()>,
) -> Result<()> {
    let short = || Error::corrupt("bitshuffle stream ends early");
    let (total, input) = input.split_first_chunk::<8>().ok_or_else(short)?;
    let (block_len, mut input) = input.split_first_chunk::<4>().ok_or_else(short)?;
    let total = usize::try_from(u64::from_be_bytes(*total)).unwrap_or(usize::MAX);
    check_limit(total, limit)?;
    let block_len = usize::try_from(u32::from_be_bytes(*block_len)).unwrap_or(usize::MAX);
    let group = MULTIPLE * size.max(1);
    if block_len == 0 || block_len % group != 0 {
        return Err(Error::corrupt(format!("bitshuffle block of {block_len} bytes with elements of {size}")));
    }
    let (mut bits, mut scratch) = (Vec::new(), Vec::new());
    let out = sized(out, total);
    let (blocks, rest) = out.split_at_mut(total / group * group);
    for block in blocks.chunks_mut(block_len) {
        let (len, after) = input.split_first_chunk::<4>().ok_or_else(short)?;
        let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
        let (compressed, after) = after.split_at_checked(len).ok_or_else(short)?;
        decompress(compressed, sized(&mut bits, block.len()))?;
        untranspose(&bits, size, block, &mut scratch);
        input = after;
    }
    if input.len() != rest.len() {
        return Err(Error::corrupt(format!("bitshuffle stream ends with {} bytes, not {}", input.len(), rest.len())));
    }
    rest.copy_from_slice(input);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_r_of_each_element_is_in_row_r() {
        for size in [1, 2, 3, 4, 8, 12] {
            let count = 24;
            let block: Vec<u8> = (0..count * size).map(|i| u8::try_from(i * 89 % 256).unwrap()).collect();
            let (mut out, mut scratch) = (vec![0; block.len()], Vec::new());
            transpose(&block, size, &mut out, &mut scratch);
            for element in 0..count {
                for row in 0..size * 8 {
                    let expected = block[element * size + row / 8] >> (row % 8) & 1;
                    assert_eq!(out[row * count / 8 + element / 8] >> (element % 8) & 1, expected);
                }
            }
            let mut back = vec![0; block.len()];
            untranspose(&out, size, &mut back, &mut scratch);
            assert_eq!(back, block);
        }
    }

    #[test]
    fn framed_blocks_round_trip_and_refuse_damage() {
        let input: Vec<u8> = (0..4 * 1003).map(|i| u8::try_from(i * 31 % 253).unwrap()).collect();
        let layout = Layout { size: 4, block: 128, stored: 128 };
        let (mut stream, mut out) = (Vec::new(), Vec::new());
        let store = |bits: &[u8], out: &mut Vec<u8>| {
            out.extend_from_slice(bits);
            Ok(())
        };
        let load = |bits: &[u8], out: &mut [u8]| {
            if bits.len() != out.len() {
                return Err(Error::corrupt("length"));
            }
            out.copy_from_slice(bits);
            Ok(())
        };
        encode_blocks(layout, &input, &mut stream, store).unwrap();
        assert!(stream.len() <= max_blocks_len(layout, input.len(), |n| n));
        decode_blocks(4, &stream, input.len(), &mut out, load).unwrap();
        assert_eq!(out, input);
        for cut in 0..stream.len() {
            assert!(decode_blocks(4, &stream[..cut], input.len(), &mut out, load).is_err());
        }
        assert!(decode_blocks(4, &stream, input.len() - 1, &mut out, load).is_err());
    }

    #[test]
    fn default_blocks_are_those_of_the_filter() {
        assert_eq!([1, 2, 4, 8, 12, 100].map(default_block), [8192, 4096, 2048, 1024, 680, 128]);
    }
}
