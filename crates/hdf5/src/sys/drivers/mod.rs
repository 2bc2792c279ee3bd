//! File drivers that are HDF5's own but for one thing.
//!
//! Reading order: `driver`, `heap_guard` (reads), `reserving` (writes).

pub(in crate::sys) mod driver;
pub(in crate::sys) mod heap_guard;
pub(in crate::sys) mod reserving;
