//! Whole chunks that a program writes at once.

use serde::{Deserialize, Serialize};

use knarr_array::array::{ArraySpec, DType, Endian};
use knarr_array::error::{Error, Result};
use knarr_array::filter::Hdf5Filter;
use knarr_array::region::{Placed, Region, chunk_count, chunk_position, chunk_region, copy_region, fill, one_run};

/// A block of a dataset that begins with a chunk and ends with one or at the edge of the dataset.
///
/// All shapes are in elements, slowest axis first, and have one extent for each axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Element type of the dataset, which is that of the values in memory.
    pub dtype: DType,
    /// Byte order of both.
    pub endian: Endian,
    /// The dataset's filters as the file has them.
    pub filters: Vec<Hdf5Filter>,
    /// Shape of the chunks.
    pub chunk: Vec<u64>,
    /// The block's place in the dataset, and its shape.
    pub region: Region,
    /// Bytes of the element that fills what a chunk has beyond the edge of the dataset.
    pub padding: Vec<u8>,
    /// Threads that may encode, the calling one among them.
    pub threads: usize,
}

impl Block {
    /// As JSON; `None` if it cannot be written, which no block meets.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    /// The block in `bytes`; `None` if there is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// What a chunk is. Fill values are not said: only Knarr's filter needs them, whose client data has them.
    pub(crate) fn spec(&self) -> Result<ArraySpec> {
        let extent = |&extent: &u64| usize::try_from(extent).map_err(|_| Error::unsupported("chunks too large"));
        let shape = self.chunk.iter().map(extent).collect::<Result<Vec<usize>>>()?;
        let spec = ArraySpec { endian: self.endian, ..ArraySpec::new(self.dtype, shape) };
        spec.checked_len()?;
        Ok(spec)
    }

    /// Checks the block against itself and against the `bytes` of values that come with it.
    ///
    /// # Errors
    /// `Usage` if it has no chunks, is not aligned to them, or if values are missing.
    pub(crate) fn check(&self, bytes: usize) -> Result<()> {
        let rank = self.chunk.len();
        let shaped = rank > 0 && self.region.start.len() == rank && self.region.count.len() == rank;
        let aligned = self.chunk.iter().zip(&self.region.start).all(|(&chunk, &start)| chunk > 0 && start % chunk == 0);
        let size = self.dtype.size();
        let wanted = self.region.volume().and_then(|count| count.checked_mul(size as u64));
        if shaped && aligned && self.padding.len() == size && bytes > 0 && wanted == Some(bytes as u64) {
            return Ok(());
        }
        Err(Error::usage(format!("{bytes} bytes are no block of whole chunks: {self:?}")))
    }

    /// Number of chunks.
    pub(crate) fn chunks(&self) -> u64 {
        chunk_count(&self.region.count, &self.chunk)
    }

    /// The first element of chunk `index` in the dataset, and the chunk's values: a part of `values`, or put together
    /// in `room`. The block was checked with these values.
    pub(crate) fn chunk<'a>(&self, index: u64, values: &'a [u8], room: &'a mut Vec<u8>) -> (Vec<u64>, &'a [u8]) {
        let shape = &self.region.count;
        // Counted from the first element of the block.
        let part = chunk_region(shape, &self.chunk, &chunk_position(shape, &self.chunk, index));
        let offset = part.start.iter().zip(&self.region.start).map(|(here, block)| here + block).collect();
        let size = self.dtype.size();
        let bytes = |elements: u64| usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(size);
        let len = bytes(self.chunk.iter().product());
        let from = Placed { shape, start: &part.start };
        if part.count == self.chunk
            && let Some(first) = one_run(from, &part.count)
        {
            let begin = bytes(first);
            return (offset, values.get(begin..begin.saturating_add(len)).unwrap_or_default());
        }
        room.resize(len, 0);
        if part.count != self.chunk {
            fill(room, &self.padding);
        }
        let origin = vec![0; shape.len()];
        copy_region(values, from, room, Placed { shape: &self.chunk, start: &origin }, &part.count, size);
        (offset, room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(chunk: &[u64], start: &[u64], count: &[u64]) -> Block {
        Block {
            dtype: DType::U8,
            endian: Endian::Little,
            filters: Vec::new(),
            chunk: chunk.to_vec(),
            region: Region::new(start, count),
            padding: vec![99],
            threads: 1,
        }
    }

    #[test]
    fn chunks_are_cut_out_and_padded() {
        let block = block(&[2, 3], &[4, 6], &[3, 5]);
        let values: Vec<u8> = (0..15).collect();
        block.check(values.len()).unwrap();
        assert_eq!(Block::from_bytes(&block.to_bytes().unwrap()), Some(block.clone()));
        assert_eq!(block.chunks(), 4);
        let of = |index| {
            let mut room = vec![1; 40];
            let (offset, values) = block.chunk(index, &values, &mut room);
            (offset, values.to_vec())
        };
        assert_eq!(of(0), (vec![4, 6], vec![0, 1, 2, 5, 6, 7]));
        assert_eq!(of(1), (vec![4, 9], vec![3, 4, 99, 8, 9, 99]));
        assert_eq!(of(3), (vec![6, 9], vec![13, 14, 99, 99, 99, 99]));
    }

    #[test]
    fn chunks_that_lie_together_are_not_copied() {
        for (chunk, count) in [(vec![2, 3], vec![4, 3]), (vec![1, 2], vec![2, 4]), (vec![1, 1, 4], vec![2, 2, 4])] {
            let block = block(&chunk, &vec![0; chunk.len()], &count);
            let values: Vec<u8> = (0..u8::try_from(count.iter().product::<u64>()).unwrap()).collect();
            let mut joined = Vec::new();
            for index in 0..block.chunks() {
                let mut room = Vec::new();
                joined.extend_from_slice(block.chunk(index, &values, &mut room).1);
                assert!(room.is_empty(), "{chunk:?} of {count:?}");
            }
            assert_eq!(joined, values);
        }
    }

    #[test]
    fn what_is_no_block_is_refused() {
        for (chunk, start, count, bytes) in [
            (&[2u64, 3][..], &[1u64, 0][..], &[2u64, 3][..], 6usize),
            (&[2, 3], &[0, 0], &[2, 3], 5),
            (&[2, 0], &[0, 0], &[2, 3], 6),
            (&[2], &[0, 0], &[2, 3], 6),
            (&[], &[], &[], 1),
            (&[2, 3], &[0, 0], &[0, 3], 0),
            (&[1, 1], &[0, 0], &[u64::MAX, 2], 6),
        ] {
            assert!(block(chunk, start, count).check(bytes).is_err(), "{chunk:?} {start:?} {count:?}");
        }
    }
}
