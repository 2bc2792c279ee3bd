//! Chunks of arrays.
//!
//! Reading order: `decode` (from bytes to elements), `shard` (many in one object), `chunks` (where they lie), `recode` (written by
//! the chain of an array that is there).

pub(in crate::zarr) mod chunks;
pub(in crate::zarr) mod decode;
pub(in crate::zarr) mod recode;
pub(in crate::zarr) mod shard;
