//! Boxes of elements inside row-major arrays. All arithmetic of boxes is here and nowhere else.
//!
//! Reading order: [`Region`], `copy` (boxes in memory), `chunks` (the grid of chunks), `assign` (overlapping regions).

mod assign;
mod chunks;
mod copy;
mod hyperslab;
#[cfg(test)]
mod testing;

pub use assign::assign;
pub use chunks::{chunk_count, chunk_position, chunk_region, each_chunk, in_chunk, pad_chunk};
pub use copy::{Placed, copy_box, fill, fill_box, one_run, runs};
pub use hyperslab::{Region, volume};
