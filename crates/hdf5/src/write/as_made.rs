//! Datasets that are stored as a program has made them, instead of as they were packed: with its chunks, or in one run, and with
//! its filters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::read::source::Hdf5Source;
use crate::sys::{Dataset, Plist};
use crate::write::contents::each_piece;
use knarr_array::error::Result;
use knarr_array::filter::Hdf5Filter;
use knarr_array::model::{StorageLayout, Variable};
use knarr_array::region::{Placed, Region, chunk_region, copy_region, each_chunk, fill};
use knarr_codec::chain::{Chain, Scratch};
use knarr_codec::codec::Loss;
use knarr_flow::store::Source;

/// How datasets are stored, by their paths.
pub type AsMade = BTreeMap<String, StoredAs>;

/// How a dataset is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAs {
    /// Its chunks; `None` if its values lie in one run.
    pub chunk: Option<Vec<u64>>,
    /// Filters, in pipeline order.
    pub filters: Vec<Hdf5Filter>,
}

impl StoredAs {
    /// How a variable is stored, in one run if that is in no chunks.
    pub fn of(variable: &Variable) -> Self {
        let chunk = match &variable.layout {
            StorageLayout::Chunked(chunk) => Some(chunk.clone()),
            _ => None,
        };
        Self { chunk, filters: variable.filters.clone() }
    }

    /// True if values of a variable of `source` can be stored so.
    pub(crate) fn is_possible(&self, source: &Hdf5Source, variable: usize) -> bool {
        self.filters.is_empty() || self.chain(source, variable).is_some_and(|chain| chain.loss() == Loss::Lossless)
    }

    fn chain(&self, source: &Hdf5Source, variable: usize) -> Option<Chain> {
        let described = source.model().variables.get(variable)?;
        source.resolve(&self.filters, &described.chunk_spec(self.chunk.as_deref()?))
    }

    /// Changes the list by which the dataset is made.
    pub(crate) fn set(&self, list: &Plist) -> Result<()> {
        let Some(chunk) = &self.chunk else { return list.set_contiguous() };
        list.set_filters(&[])?;
        list.set_chunked(chunk)?;
        list.set_filters(&self.filters)?;
        // Chunks are written one by one.
        list.allocate_incrementally()
    }

    /// Copies the values of a variable to the dataset that is stored so.
    pub(crate) fn copy(&self, source: &Hdf5Source, variable: usize, target: &Dataset) -> Result<()> {
        let described = source.model().variable(variable)?;
        if described.is_empty() {
            return Ok(());
        }
        let stored = source.stored(variable)?;
        // Ranks write into chunks that are there: where all were there, all are.
        let are_all = source.dataset(stored)?.0.creation()?.allocates_early()?;
        let is_needed = |region: &Region| are_all || source.is_written(variable, region);
        let mut values = Vec::new();
        if let (Some(chunk), Some(chain)) =
            (&self.chunk, self.chain(source, variable).filter(|_| !self.filters.is_empty()))
        {
            let (mut whole, mut encoded, mut scratch) = (Vec::new(), Vec::new(), Scratch::default());
            let size = described.dtype.size();
            return each_chunk(&Region::whole(&described.shape), chunk, |position| {
                let region = chunk_region(&described.shape, chunk, position);
                if !is_needed(&region) {
                    return Ok(());
                }
                source.read_region(variable, &region, &mut values)?;
                let bytes = if region.count == *chunk {
                    &values
                } else {
                    // What lies beyond the edge has fill values.
                    whole.resize(chain.input().byte_len(), 0);
                    fill(&mut whole, &stored.padding);
                    let origin = vec![0; chunk.len()];
                    let from = Placed { shape: &region.count, start: &origin };
                    copy_region(
                        &values,
                        from,
                        &mut whole,
                        Placed { shape: chunk, start: &origin },
                        &region.count,
                        size,
                    );
                    &whole
                };
                chain.encode(bytes, &mut scratch, &mut encoded)?;
                target.write_chunk(&region.start, 0, &encoded)
            });
        }
        let mut copy = |region: &Region| {
            if !is_needed(region) {
                return Ok(());
            }
            source.read_region(variable, region, &mut values)?;
            target.write_bytes(region, &values)
        };
        match &described.layout {
            // Each is decoded once.
            StorageLayout::Chunked(chunk) => each_chunk(&Region::whole(&described.shape), chunk, |position| {
                copy(&chunk_region(&described.shape, chunk, position))
            }),
            _ => each_piece(&described.shape, described.dtype.size() as u64, &mut copy),
        }
    }
}
