//! Where the chunks of a dataset lie: 12 bytes a chunk, found by position in constant time.

use std::collections::HashMap;

use crate::sys::Dataset;
use knarr_array::error::{Error, Result};
use knarr_array::region::volume;

/// A stored chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredChunk {
    /// Offset in the file.
    pub(crate) address: u64,
    /// Length in bytes.
    pub(crate) size: u64,
    /// Bit *i* set means filter *i* was left out.
    pub(crate) filter_mask: u32,
}

/// All stored chunks of a dataset.
#[derive(Debug)]
pub(crate) struct ChunkTable {
    /// Chunks per axis.
    grid: Vec<u64>,
    places: ChunkLocations,
    /// Chunks with a filter mask or of 4 GiB and more.
    odd: HashMap<u64, (u64, u32)>,
    /// Number of stored chunks.
    len: usize,
}

#[derive(Debug)]
enum ChunkLocations {
    /// Indexed by linear position; a size of 0 with address `u64::MAX` is a hole.
    Dense {
        addresses: Vec<u64>,
        sizes: Vec<u32>,
    },
    Sparse(HashMap<u64, (u64, u32)>),
}

const HOLE: u64 = u64::MAX;

impl ChunkLocations {
    /// Of chunks with number, address and size, in a grid of so many.
    ///
    /// # Errors
    /// `Corrupt` if a chunk is stored twice.
    fn of(found: Vec<(u64, u64, u32)>, grid_len: u64) -> Result<Self> {
        let twice = || Error::corrupt("a chunk is stored twice").hint("the file is damaged: restore it from a copy");
        let most = found.len().saturating_mul(4).saturating_add(1024);
        let Some(n) = usize::try_from(grid_len).ok().filter(|&n| n <= most) else {
            let mut places = HashMap::with_capacity(found.len());
            for (linear, address, size) in found {
                if places.insert(linear, (address, size)).is_some() {
                    return Err(twice());
                }
            }
            return Ok(Self::Sparse(places));
        };
        let (mut addresses, mut sizes) = (vec![HOLE; n], vec![0u32; n]);
        for (linear, address, size) in found {
            let place = usize::try_from(linear).unwrap_or(usize::MAX);
            if let (Some(a), Some(s)) = (addresses.get_mut(place), sizes.get_mut(place)) {
                if *a != HOLE {
                    return Err(twice());
                }
                (*a, *s) = (address, size);
            }
        }
        Ok(Self::Dense { addresses, sizes })
    }
}

impl ChunkTable {
    /// Reads the chunk index of `dataset`. `base` is added to addresses.
    ///
    /// # Errors
    /// `Corrupt` if chunks are out of place, overlap, or reach beyond the end of the file.
    pub(crate) fn read(dataset: &Dataset, shape: &[u64], chunk: &[u64], base: u64, file_len: u64) -> Result<Self> {
        let grid: Vec<u64> = shape.iter().zip(chunk).map(|(n, c)| n.div_ceil(*c)).collect();
        let grid_len = volume(&grid).ok_or_else(|| Error::unsupported("there are more than 2^64 chunks"))?;
        let mut found: Vec<(u64, u64, u32)> = Vec::new();
        let mut odd = HashMap::new();
        dataset.chunks(shape.len(), &mut |record| {
            let mut linear = 0u64;
            for ((offset, c), n) in record.offset.iter().zip(chunk).zip(&grid) {
                if offset % c != 0 {
                    return Err(Error::corrupt(format!("a chunk starts at {:?}, between chunks", record.offset)));
                }
                if offset / c >= *n {
                    // Left behind when the dataset shrank: no element of it can be read.
                    return Ok(());
                }
                linear = linear * n + offset / c;
            }
            let address = record
                .address
                .checked_add(base)
                .filter(|start| start.checked_add(record.size).is_some_and(|end| end <= file_len))
                .ok_or_else(|| {
                    Error::corrupt(format!(
                        "a chunk at byte {} with {} bytes reaches beyond the end of the file at {file_len}",
                        record.address, record.size
                    ))
                    .hint("the file is truncated or damaged: restore it from a copy")
                })?;
            let size = u32::try_from(record.size).unwrap_or(u32::MAX);
            if record.filter_mask != 0 || size == u32::MAX {
                odd.insert(linear, (record.size, record.filter_mask));
            }
            found.push((linear, address, size));
            Ok(())
        })?;
        refuse_overlaps(&found, &odd)?;
        let len = found.len();
        Ok(Self { grid, places: ChunkLocations::of(found, grid_len)?, odd, len })
    }

    /// Number of stored chunks.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Row-major number of the chunk at `position`.
    pub(crate) fn linear(&self, position: &[u64]) -> u64 {
        position.iter().zip(&self.grid).fold(0, |linear, (p, n)| linear * n + p)
    }

    /// The chunk with this number, if it is stored.
    pub(crate) fn get(&self, linear: u64) -> Option<StoredChunk> {
        let (address, size) = match &self.places {
            ChunkLocations::Dense { addresses, sizes } => {
                let place = usize::try_from(linear).ok()?;
                (*addresses.get(place)?, *sizes.get(place)?)
            }
            ChunkLocations::Sparse(places) => *places.get(&linear)?,
        };
        if address == HOLE {
            return None;
        }
        let (size, filter_mask) = if self.odd.is_empty() {
            (u64::from(size), 0)
        } else {
            self.odd.get(&linear).copied().unwrap_or((u64::from(size), 0))
        };
        Some(StoredChunk { address, size, filter_mask })
    }

    /// Positions and places of all stored chunks, in row-major order.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (Vec<u64>, StoredChunk)> + '_ {
        let mut numbers: Vec<u64> = match &self.places {
            ChunkLocations::Dense { addresses, .. } => (0..addresses.len() as u64).collect(),
            ChunkLocations::Sparse(places) => places.keys().copied().collect(),
        };
        numbers.sort_unstable();
        numbers.into_iter().filter_map(|linear| Some((self.position(linear), self.get(linear)?)))
    }

    fn position(&self, mut linear: u64) -> Vec<u64> {
        let mut position = vec![0; self.grid.len()];
        for (place, n) in position.iter_mut().zip(&self.grid).rev() {
            *place = linear % n;
            linear /= n;
        }
        position
    }
}

/// Two chunks that share bytes cannot both be right.
fn refuse_overlaps(found: &[(u64, u64, u32)], odd: &HashMap<u64, (u64, u32)>) -> Result<()> {
    let mut spans: Vec<(u64, u64)> = found
        .iter()
        .map(|(linear, address, size)| (*address, odd.get(linear).map_or(u64::from(*size), |(size, _)| *size)))
        .collect();
    spans.sort_unstable();
    match spans.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        None => Ok(()),
        Some(pair) => Err(Error::corrupt(format!("chunks at bytes {} and {} overlap", pair[0].0, pair[1].0))
            .hint("the file is damaged: restore it from a copy")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::error::ErrorKind;

    #[test]
    fn a_chunk_that_is_stored_twice_is_refused() {
        for grid in [4, 1 << 40] {
            assert!(ChunkLocations::of(vec![(1, 100, 5), (3, 200, 5)], grid).is_ok());
            let error = ChunkLocations::of(vec![(1, 100, 5), (3, 200, 5), (1, 300, 5)], grid).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{grid}");
        }
    }
}
