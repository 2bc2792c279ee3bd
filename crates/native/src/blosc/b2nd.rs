//! The metalayer `b2nd` (`README_B2ND_METALAYER` of C-Blosc2): a chunk cut into N-dimensional blocks.

use knarr_array::{Error, Result};

use super::header_reader::Reader;
use crate::support::resize;

/// `B2ND_MAX_DIM`
const MOST_DIMENSIONS: usize = 8;
/// Blocks at the edges are padded. A chunk that grows more than so many times by that is refused.
const LARGEST_PADDING: usize = 16;

/// Shape of a chunk and of its blocks.
pub(super) struct Layout {
    chunk: Vec<usize>,
    block: Vec<usize>,
}

impl Layout {
    /// Reads the metalayer's contents.
    pub(super) fn parse(contents: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(contents);
        reader.skip(2)?;
        let rank = usize::from(reader.u8()?);
        if !(1..=MOST_DIMENSIONS).contains(&rank) {
            return Err(Error::corrupt(format!("blosc2: {rank} dimensions")));
        }
        let mut read = |wide: bool| -> Result<Vec<usize>> {
            reader.skip(1)?;
            (0..rank).map(|_| if wide { reader.tagged_i64() } else { reader.tagged_i32() }).collect()
        };
        let (shape, chunk, block) = (read(true)?, read(false)?, read(false)?);
        if shape.iter().zip(&chunk).any(|(shape, chunk)| shape > chunk) {
            return Err(Error::unsupported("blosc2: an array of several chunks within one HDF5 chunk is not read"));
        }
        if chunk.iter().zip(&block).any(|(chunk, block)| *block == 0 || block > chunk) {
            return Err(Error::corrupt("blosc2: a block does not fit its chunk"));
        }
        if shape != chunk {
            return Err(Error::unsupported("blosc2: an array smaller than its chunk is not read"));
        }
        Ok(Self { chunk, block })
    }

    /// Largest length of a chunk with its padding if it has `limit` bytes without.
    pub(super) fn padded_limit(limit: usize) -> usize {
        limit.saturating_mul(LARGEST_PADDING)
    }

    /// Puts the elements of the blocks, which follow each other in `blocks`, into row-major order.
    pub(super) fn gather(&self, blocks: &[u8], typesize: usize, out: &mut Vec<u8>) -> Result<()> {
        let product = |extents: &[usize]| extents.iter().try_fold(typesize, |product, n| product.checked_mul(*n));
        let grid: Vec<usize> =
            self.chunk.iter().zip(&self.block).map(|(chunk, block)| chunk.div_ceil(*block)).collect();
        let padded: Vec<usize> = grid.iter().zip(&self.block).map(|(count, block)| count * block).collect();
        let (Some(chunk_len), Some(block_len)) = (product(&self.chunk), product(&self.block)) else {
            return Err(Error::corrupt("blosc2: the chunk is too large"));
        };
        if product(&padded) != Some(blocks.len()) {
            return Err(Error::corrupt("blosc2: the chunk has another length than its blocks"));
        }
        resize(out, chunk_len)?;
        if chunk_len == 0 {
            return Ok(());
        }
        let mut origin = vec![0; grid.len()];
        for block in blocks.chunks_exact(block_len) {
            self.place_block(block, &origin, typesize, out);
            step(&mut origin, &grid);
        }
        Ok(())
    }

    /// Copies one block, row by row, without its padding. `origin` counts blocks.
    fn place_block(&self, block: &[u8], origin: &[usize], typesize: usize, out: &mut [u8]) {
        let start: Vec<usize> = origin.iter().zip(&self.block).map(|(count, block)| count * block).collect();
        // What lies within the chunk.
        let inner: Vec<usize> = start
            .iter()
            .zip(&self.block)
            .zip(&self.chunk)
            .map(|((start, block), chunk)| (*block).min(chunk - start))
            .collect();
        let row = inner.last().copied().unwrap_or(1) * typesize;
        let outer = inner.split_last().map_or(&[][..], |(_, outer)| outer);
        let mut place = vec![0; outer.len()];
        for _ in 0..outer.iter().product() {
            let (mut from, mut to) = (0, 0);
            for (axis, offset) in place.iter().chain(&[0]).enumerate() {
                from = from * self.block.get(axis).unwrap_or(&1) + offset;
                to = to * self.chunk.get(axis).unwrap_or(&1) + start.get(axis).unwrap_or(&0) + offset;
            }
            let (from, to) = (from * typesize, to * typesize);
            if let (Some(from), Some(to)) = (block.get(from..from + row), out.get_mut(to..to + row)) {
                to.copy_from_slice(from);
            }
            step(&mut place, outer);
        }
    }
}

/// Advances a row-major index by one.
fn step(index: &mut [usize], extents: &[usize]) {
    for (index, extent) in index.iter_mut().zip(extents).rev() {
        *index += 1;
        if *index < *extent {
            return;
        }
        *index = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_with_padding_are_put_in_rows() {
        let layout = Layout { chunk: vec![3, 5], block: vec![2, 3] };
        // Blocks of the 3 x 5 array 0..15, padded with 99.
        let blocks =
            [[0, 1, 2, 5, 6, 7], [3, 4, 99, 8, 9, 99], [10, 11, 12, 99, 99, 99], [13, 14, 99, 99, 99, 99]].concat();
        let mut out = Vec::new();
        layout.gather(&blocks, 1, &mut out).unwrap();
        assert_eq!(out, (0..15).collect::<Vec<u8>>());
        assert!(layout.gather(&blocks[1..], 1, &mut out).is_err());
    }
}
