//! What a store says of its groups and arrays.
//!
//! Reading order: `json`, `types` and `fixed` (data types), `scaled` and `codecs` (what codecs are called), `attributes`, `stored`
//! (objects that describe), `consolidated` and `hierarchy` (which groups and arrays there are).

pub(in crate::zarr) mod attributes;
pub(in crate::zarr) mod codecs;
pub(in crate::zarr) mod consolidated;
pub(in crate::zarr) mod fixed;
pub(in crate::zarr) mod hierarchy;
pub(in crate::zarr) mod json;
pub(in crate::zarr) mod scaled;
pub(in crate::zarr) mod stored;
pub(in crate::zarr) mod types;
