//! The filters of Blosc, applied to one block.

use knarr_array::{Error, Result};
use knarr_codec::codec::{bitshuffle, planes, sized};

/// Slots of the filter pipeline in an extended header.
pub(super) const SLOTS: usize = 6;

/// Filter numbers of C-Blosc2.
const NONE: u8 = 0;
const SHUFFLE: u8 = 1;
const BITSHUFFLE: u8 = 2;
const DELTA: u8 = 3;
const TRUNCATE: u8 = 4;
const BYTEDELTA: u8 = 35;

/// One step of the pipeline of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    /// Byte shuffle.
    Shuffle,
    /// Bit shuffle. Chunks of Blosc 1 leave blocks alone that are not a multiple of 8 elements; later ones leave
    /// only the last elements alone.
    Bitshuffle { whole_blocks_only: bool },
    /// XOR with the element before (first block) or with the same byte of the first block.
    Delta,
    /// Difference to the byte before, within each of `size` planes.
    ByteDelta { size: usize },
}

/// A pipeline, in the order of encoding.
pub(super) type Pipeline = Vec<Filter>;

/// The pipeline that an extended header states.
pub(super) fn from_header(ids: [u8; SLOTS], parameters: [u8; SLOTS], typesize: usize) -> Result<Pipeline> {
    let mut pipeline = Vec::new();
    for (id, parameter) in ids.into_iter().zip(parameters) {
        pipeline.push(match id {
            // Truncated precision is not undone.
            NONE | TRUNCATE => continue,
            SHUFFLE => Filter::Shuffle,
            BITSHUFFLE => Filter::Bitshuffle { whole_blocks_only: false },
            DELTA => Filter::Delta,
            BYTEDELTA => Filter::ByteDelta { size: if parameter == 0 { typesize } else { usize::from(parameter) } },
            other => return Err(Error::unsupported(format!("blosc filter {other} is not known"))),
        });
    }
    Ok(pipeline)
}

/// Filter numbers and parameters of a pipeline, in the last slots, as C-Blosc2 places them.
pub(super) fn to_header(pipeline: &[Filter]) -> ([u8; SLOTS], [u8; SLOTS]) {
    let (mut ids, mut parameters) = ([0; SLOTS], [0; SLOTS]);
    for ((id, parameter), filter) in ids.iter_mut().zip(&mut parameters).rev().zip(pipeline.iter().rev()) {
        (*id, *parameter) = match filter {
            Filter::Shuffle => (SHUFFLE, 0),
            Filter::Bitshuffle { .. } => (BITSHUFFLE, 0),
            Filter::Delta => (DELTA, 0),
            Filter::ByteDelta { size } => (BYTEDELTA, u8::try_from(*size).unwrap_or(0)),
        };
    }
    (ids, parameters)
}

/// Where a block lies: its place in the chunk, and the chunk's first block, decoded.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) typesize: usize,
    /// The first block of the chunk; `None` for that block itself.
    pub(super) reference: Option<&'a [u8]>,
}

/// Buffers of filters.
#[derive(Default)]
pub(super) struct Buffers {
    current: Vec<u8>,
    next: Vec<u8>,
    bits: Vec<u8>,
}

impl Buffers {
    /// The filtered form of a block.
    pub(super) fn forward<'a>(&'a mut self, pipeline: &[Filter], place: Place<'_>, block: &'a [u8]) -> &'a [u8] {
        for (index, filter) in pipeline.iter().enumerate() {
            let input = if index == 0 { block } else { &self.current };
            let out = sized(&mut self.next, block.len());
            match *filter {
                Filter::Shuffle => planes::split(input, place.typesize, out),
                Filter::Bitshuffle { whole_blocks_only } => {
                    let length = bit_length(block.len(), place.typesize, whole_blocks_only);
                    let (bits, rest) = out.split_at_mut(length);
                    let (elements, tail) = input.split_at(length);
                    bitshuffle::transpose(elements, place.typesize, bits, &mut self.bits);
                    rest.copy_from_slice(tail);
                }
                Filter::Delta => delta(input, place, out),
                Filter::ByteDelta { size } => byte_delta(input, size, out),
            }
            std::mem::swap(&mut self.current, &mut self.next);
        }
        if pipeline.is_empty() { block } else { &self.current }
    }

    /// A buffer for the filtered form of a block of `len` bytes, to be filled before [`Buffers::backward`].
    pub(super) fn filtered(&mut self, len: usize) -> &mut [u8] {
        sized(&mut self.current, len)
    }

    /// Undoes the filters on what [`Buffers::filtered`] was filled with, and puts the result into `block`.
    pub(super) fn backward(&mut self, pipeline: &[Filter], place: Place<'_>, block: &mut [u8]) -> Result<()> {
        if self.current.len() != block.len() {
            return Err(Error::internal("blosc: a block has another length than its streams"));
        }
        let Some((first, later)) = pipeline.split_first() else {
            block.copy_from_slice(&self.current);
            return Ok(());
        };
        for filter in later.iter().rev() {
            undo(*filter, &self.current, place, sized(&mut self.next, block.len()), &mut self.bits);
            std::mem::swap(&mut self.current, &mut self.next);
        }
        undo(*first, &self.current, place, block, &mut self.bits);
        Ok(())
    }
}

/// The inverse of one filter.
fn undo(filter: Filter, input: &[u8], place: Place<'_>, out: &mut [u8], scratch: &mut Vec<u8>) {
    match filter {
        Filter::Shuffle => planes::join(input, place.typesize, out),
        Filter::Bitshuffle { whole_blocks_only } => {
            let length = bit_length(input.len(), place.typesize, whole_blocks_only);
            let (elements, rest) = out.split_at_mut(length);
            let (bits, tail) = input.split_at(length);
            bitshuffle::untranspose(bits, place.typesize, elements, scratch);
            rest.copy_from_slice(tail);
        }
        Filter::Delta => undelta(input, place, out),
        Filter::ByteDelta { size } => undo_byte_delta(input, size, out),
    }
}

/// Bytes of a block that are bit-shuffled; the rest is copied.
fn bit_length(len: usize, typesize: usize, whole_blocks_only: bool) -> usize {
    let elements = len / typesize.max(1);
    match (elements % 8, whole_blocks_only) {
        (0, _) => elements * typesize,
        (_, true) => 0,
        (rest, false) => (elements - rest) * typesize,
    }
}

/// Bytes between an element and the one before it in the first block: C-Blosc2 works in units of 8 bytes, or of
/// single bytes, for types that are not 1, 2, 4 or 8 bytes long.
fn lag(typesize: usize) -> usize {
    match typesize {
        1 | 2 | 4 | 8 => typesize,
        other if other % 8 == 0 => 8,
        _ => 1,
    }
}

fn delta(input: &[u8], place: Place<'_>, out: &mut [u8]) {
    let xor = |out: &mut [u8], input: &[u8], before: &[u8]| {
        for ((out, byte), before) in out.iter_mut().zip(input).zip(before) {
            *out = byte ^ before;
        }
    };
    match place.reference {
        Some(reference) => xor(out, input, reference),
        None => {
            let lag = lag(place.typesize).min(input.len());
            let (first, later) = out.split_at_mut(lag);
            first.copy_from_slice(input.get(..lag).unwrap_or(&[]));
            xor(later, input.get(lag..).unwrap_or(&[]), input);
        }
    }
}

fn undelta(input: &[u8], place: Place<'_>, out: &mut [u8]) {
    match place.reference {
        Some(_) => delta(input, place, out),
        None => {
            let lag = lag(place.typesize);
            for index in 0..input.len() {
                let before = index.checked_sub(lag).and_then(|before| out.get(before)).copied().unwrap_or(0);
                if let (Some(out), Some(byte)) = (out.get_mut(index), input.get(index)) {
                    *out = byte ^ before;
                }
            }
        }
    }
}

/// Length of the planes of a block: what does not fill an element is left alone.
fn plane_len(len: usize, size: usize) -> usize {
    (len / size.max(1)).max(1)
}

fn byte_delta(input: &[u8], size: usize, out: &mut [u8]) {
    let length = plane_len(input.len(), size);
    let planes = (length * size).min(input.len());
    for (plane, out) in input.chunks_exact(length).zip(out.chunks_exact_mut(length)).take(size) {
        if let (Some(first), Some(place)) = (plane.first(), out.first_mut()) {
            *place = *first;
        }
        for ((byte, before), out) in plane.iter().skip(1).zip(plane).zip(out.iter_mut().skip(1)) {
            *out = byte.wrapping_sub(*before);
        }
    }
    copy_from(planes, input, out);
}

fn undo_byte_delta(input: &[u8], size: usize, out: &mut [u8]) {
    let length = plane_len(input.len(), size);
    let planes = (length * size).min(input.len());
    for (plane, out) in input.chunks_exact(length).zip(out.chunks_exact_mut(length)).take(size) {
        let mut sum = 0u8;
        let ((groups, rest), (out_groups, out_rest)) = (plane.as_chunks::<8>(), out.as_chunks_mut::<8>());
        for (group, out) in groups.iter().zip(out_groups) {
            // Prefix sums of 8 bytes at once: a multiplication adds each byte to all higher ones. Even and odd bytes
            // are done apart so that no sum carries into its neighbour.
            let word = u64::from_le_bytes(*group);
            let even = (word & LOW_BYTES).wrapping_mul(EACH_SECOND);
            let odd = ((word >> 8) & LOW_BYTES).wrapping_mul(EACH_SECOND);
            // Byte 2k: evens up to 2k and odds up to 2k - 1; byte 2k + 1: both up to there.
            let low = even.wrapping_add(odd << 16);
            let high = even.wrapping_add(odd);
            let before = u64::from(sum) * EACH_SECOND;
            let sums = (low.wrapping_add(before) & LOW_BYTES) | ((high.wrapping_add(before) & LOW_BYTES) << 8);
            *out = sums.to_le_bytes();
            // The sum of all 8, taken without `before`, so that groups wait for each other by one addition only.
            sum = sum.wrapping_add(high.to_le_bytes()[6]);
        }
        for (byte, out) in rest.iter().zip(out_rest) {
            sum = sum.wrapping_add(*byte);
            *out = sum;
        }
    }
    copy_from(planes, input, out);
}

/// Copies what does not fill a plane.
fn copy_from(start: usize, input: &[u8], out: &mut [u8]) {
    if let (Some(input), Some(out)) = (input.get(start..), out.get_mut(start..)) {
        out.copy_from_slice(input);
    }
}

const LOW_BYTES: u64 = 0x00FF_00FF_00FF_00FF;
const EACH_SECOND: u64 = 0x0001_0001_0001_0001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_is_undone() {
        let block: Vec<u8> = (0..4099u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let reference: Vec<u8> = block.iter().rev().copied().collect();
        for typesize in [1, 2, 3, 4, 8, 12, 16] {
            for filter in [
                Filter::Shuffle,
                Filter::Bitshuffle { whole_blocks_only: true },
                Filter::Bitshuffle { whole_blocks_only: false },
                Filter::Delta,
                Filter::ByteDelta { size: typesize },
            ] {
                for reference in [None, Some(reference.as_slice())] {
                    for length in [0, 1, 16, 100, 4096, 4099] {
                        let (plain, place) = (&block[..length], Place { typesize, reference });
                        let pipeline = [Filter::Shuffle, filter];
                        let mut buffers = Buffers::default();
                        let filtered = buffers.forward(&pipeline, place, plain).to_vec();
                        buffers.filtered(length).copy_from_slice(&filtered);
                        let mut back = vec![0; length];
                        buffers.backward(&pipeline, place, &mut back).unwrap();
                        assert!(back == plain, "{filter:?} {typesize} {length}");
                    }
                }
            }
        }
    }

    #[test]
    fn byte_delta_is_the_difference_to_the_byte_before() {
        let mut out = [0; 9];
        byte_delta(&[5, 7, 4, 250, 3, 3, 1, 2, 9], 2, &mut out);
        assert_eq!(out, [5, 2, 253, 246, 3, 0, 254, 1, 9]);
    }
}
