//! A store as a source.
//!
//! Reading order: `keys` (the store as the crate `zarrs` reads it), `array`, `ahead` (objects that lie elsewhere), `source`.

pub(in crate::zarr) mod ahead;
pub(in crate::zarr) mod array;
pub(in crate::zarr) mod keys;
pub(in crate::zarr) mod source;
