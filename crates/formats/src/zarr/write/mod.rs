//! A store as a sink.
//!
//! Reading order: `node` (metadata), `plain` and `strings` (values that the caller does not encode), `copied` (arrays of another
//! store), `sink`.

pub(in crate::zarr) mod copied;
pub(in crate::zarr) mod node;
pub(in crate::zarr) mod plain;
pub(in crate::zarr) mod sink;
pub(in crate::zarr) mod strings;
