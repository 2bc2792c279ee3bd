//! Regions of row-major arrays: boxes of elements, which HDF5 calls hyperslabs. All arithmetic of them is here and
//! nowhere else. Extents, starts and counts are in elements, slowest axis first.
//!
//! Reading order: [`Region`], [`Regions`] (many of them), `copy` (regions in memory), `chunks` (the grid of chunks), `assign` (regions that
//! overlap), `transpose` (arrays with their axes in another order).

mod assign;
mod chunks;
mod copy;
mod hyperslab;
mod regions;
#[cfg(test)]
mod testing;
mod transpose;

pub use assign::assign;
pub use chunks::{chunk_count, chunk_position, chunk_region, each_chunk, grouped_position, in_chunk, pad_chunk};
pub use copy::{Placed, copy_region, fill, fill_region, one_run, run_length, runs};
pub use hyperslab::{Region, volume};
pub use regions::Regions;
pub use transpose::row_major;
