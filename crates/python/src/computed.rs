//! Values that Python computes when they are asked for, block by block.

use knarr_array::array::{DType, Endian};
use knarr_array::error::{Error, Result};
use knarr_array::model::Model;
use knarr_array::region::{Placed, Region, chunk_position, copy_region, each_chunk, fill};
use knarr_flow::cache::ChunkCache;
use knarr_flow::store::Values;
use knarr_formats::ExternalValues;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use std::sync::Arc;

use crate::relay::Raised;

/// Bytes of blocks that are kept when nothing else is asked for.
const CACHE: usize = 64 << 20;

/// One variable whose values are computed.
#[derive(Clone)]
pub(crate) struct Computed {
    /// Absolute path in the header.
    path: String,
    dtype: DType,
    shape: Vec<u64>,
    /// `None` for an array in memory.
    blocks: Option<Blocks>,
    /// Nothing is computed now: others write it.
    is_later: bool,
}

/// How Dask divides a variable.
#[derive(Clone)]
struct Blocks {
    /// Where blocks end along each axis.
    ends: Vec<Vec<u64>>,
    /// Length of the longest along each axis.
    longest: Vec<u64>,
    /// Shape of the chunks that blocks are made of.
    chunk: Vec<u64>,
}

impl Computed {
    /// `blocks` are the lengths of Dask's blocks along each axis, and the shape of chunks that they are made of.
    ///
    /// # Errors
    /// `Internal` for types that are no numbers, and blocks that do not make up the shape.
    pub(crate) fn new(
        path: String,
        dtype: &str,
        shape: Vec<u64>,
        blocks: Option<(Vec<Vec<u64>>, Vec<u64>)>,
    ) -> Result<Self> {
        let blocks = blocks.map(|(lengths, chunk)| {
            let ends = lengths.iter().map(|lengths| ends_of(lengths)).collect();
            let longest = lengths.iter().map(|lengths| lengths.iter().copied().max().unwrap_or(0)).collect();
            Blocks { ends, longest, chunk }
        });
        let fits = |Blocks { ends, chunk, .. }: &Blocks| {
            let is_whole = ends.iter().zip(&shape).all(|(ends, extent)| ends.last() == Some(extent));
            (ends.len(), chunk.len()) == (shape.len(), shape.len()) && is_whole
        };
        if blocks.as_ref().is_some_and(|blocks| !fits(blocks)) {
            return Err(Error::internal("the blocks do not make up the array").at_variable(&path));
        }
        Ok(Self { dtype: dtype.parse()?, path, shape, blocks, is_later: false })
    }

    /// The same variable, whose values others write later.
    pub(crate) fn later(self) -> Self {
        Self { is_later: true, ..self }
    }

    /// True if others write its values later.
    pub(crate) fn is_later(&self) -> bool {
        self.is_later
    }

    /// Absolute path in the header.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// How the variable of the header comes by its values.
    pub(crate) fn external(&self) -> ExternalValues {
        ExternalValues { path: self.path.clone(), chunk: self.blocks.as_ref().map(|blocks| blocks.chunk.clone()) }
    }

    /// Bytes of the largest block.
    fn block_bytes(&self) -> usize {
        let blocks = self.blocks.as_ref();
        blocks.map_or(0, |blocks| byte_count(&Region::whole(&blocks.longest), self.dtype.size()))
    }

    /// Checks that the header has the variable as it is computed.
    ///
    /// # Errors
    /// `Internal` if it has not.
    pub(crate) fn check(&self, header: &Model) -> Result<()> {
        let is_same = header.variables.iter().any(|variable| {
            (&variable.path, variable.dtype, variable.endian, &variable.shape)
                == (&self.path, self.dtype, Endian::Little, &self.shape)
        });
        if is_same {
            Ok(())
        } else {
            Err(Error::internal("the header has another type or shape").at_variable(&self.path))
        }
    }
}

/// Bytes of the elements of a region, of `size` bytes each.
fn byte_count(region: &Region, size: usize) -> usize {
    region.volume().and_then(|len| usize::try_from(len).ok()?.checked_mul(size)).unwrap_or(usize::MAX)
}

/// Where consecutive lengths end; empty ones count for nothing.
fn ends_of(lengths: &[u64]) -> Vec<u64> {
    let mut end = 0;
    let lengths = lengths.iter().filter(|length| **length > 0);
    lengths
        .map(|length| {
            end += length;
            end
        })
        .collect()
}

/// Start and length of block `n` of an axis.
fn block_along(ends: &[u64], n: u64) -> (u64, u64) {
    let n = usize::try_from(n).unwrap_or(usize::MAX);
    let start = n.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    (start, ends.get(n).map_or(0, |end| end - start))
}

/// The elements of the block at a position among the blocks.
fn block(ends: &[Vec<u64>], position: &[u64]) -> Region {
    let (start, count): (Vec<u64>, Vec<u64>) = ends.iter().zip(position).map(|(ends, n)| block_along(ends, *n)).unzip();
    Region::new(start, count)
}

/// Values of variables that Python computes.
pub(crate) struct ComputedValues {
    variables: Vec<Computed>,
    /// `compute(number, start, stop)` gives the bytes of a region as an array of `uint8`.
    compute: Py<PyAny>,
    raised: Arc<Raised>,
    /// Blocks that were computed, by variable and place among its blocks.
    blocks: ChunkCache,
}

impl ComputedValues {
    pub(crate) fn new(variables: Vec<Computed>, compute: Py<PyAny>, raised: Arc<Raised>) -> Self {
        Self { variables, compute, raised, blocks: ChunkCache::new(CACHE) }
    }

    /// The bytes of a region.
    fn compute(&self, number: usize, region: &Region, size: usize) -> Result<Vec<u8>> {
        let stop: Vec<u64> = (0..region.count.len()).map(|axis| region.end(axis)).collect();
        let bytes = Python::attach(|py| {
            let values = self.compute.bind(py).call1((number, &region.start, stop))?;
            let values: PyReadonlyArray1<'_, u8> = values.extract()?;
            Ok::<_, PyErr>(values.as_slice()?.to_vec())
        });
        let bytes = bytes.map_err(|error| self.raised.raise(error))?;
        if bytes.len() == byte_count(region, size) {
            return Ok(bytes);
        }
        Err(Error::internal(format!("{} bytes were computed for a region of another size", bytes.len())))
    }
}

impl Values for ComputedValues {
    fn read(&self, number: usize, region: &Region, padding: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let variable = self.variables.get(number).ok_or_else(|| Error::internal("no such variable"))?;
        let size = padding.len();
        if variable.is_later {
            out.resize(byte_count(region, size), 0);
            fill(out, padding);
            return Ok(());
        }
        let Some(Blocks { ends, .. }) = &variable.blocks else {
            *out = self.compute(number, region, size)?;
            return Ok(());
        };
        // In units of blocks: how many there are along each axis, and those that the region meets.
        let grid: Vec<u64> = ends.iter().map(|ends| ends.len() as u64).collect();
        let holding = |axis: usize, at: u64| ends[axis].partition_point(|end| *end <= at) as u64;
        let first: Vec<u64> = (0..ends.len()).map(|axis| holding(axis, region.start[axis])).collect();
        let count: Vec<u64> =
            (0..ends.len()).map(|axis| holding(axis, region.end(axis) - 1) - first[axis] + 1).collect();
        out.resize(byte_count(region, size), 0);
        each_chunk(&Region::new(first, count), &vec![1; ends.len()], |position| {
            let whole = block(ends, position);
            let Some(part) = region.intersection(&whole) else { return Ok(()) };
            let place = position.iter().zip(&grid).fold(0, |at, (n, blocks)| at * blocks + n);
            let bytes = byte_count(&whole, size);
            let next = (place + 1..grid.iter().product()).map(|place| (number, place));
            let from = Placed { shape: &whole.count, start: &part.start_in(&whole) };
            let to = Placed { shape: &region.count, start: &part.start_in(region) };
            let compute = |(_, place): (usize, u64)| {
                let position = chunk_position(&grid, &vec![1; grid.len()], place);
                self.compute(number, &block(ends, &position), size)
            };
            self.blocks.get_or_help((number, place), bytes, next, compute, |bytes| {
                copy_region(bytes, from, out, to, &part.count, size);
            })
        })
    }

    fn is_written(&self, number: usize, _region: &Region) -> bool {
        self.variables.get(number).is_none_or(|variable| !variable.is_later)
    }

    fn block(&self, number: usize) -> Option<&[u64]> {
        self.variables.get(number)?.blocks.as_ref().map(|blocks| blocks.longest.as_slice())
    }

    fn limit_cache(&self, bytes: usize) {
        // While the last chunks of a block are read, others are of the next one.
        let largest = self.variables.iter().map(Computed::block_bytes).max().unwrap_or(0);
        self.blocks.set_limit(bytes.max(largest.saturating_mul(2)));
    }
}
