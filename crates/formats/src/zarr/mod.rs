//! Zarr: versions 2 and 3 are read, version 3 is written.
//!
//! Specifications: <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html>,
//! <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>.

mod anew;
mod array;
mod attributes;
mod chunks;
mod codecs;
mod consolidated;
mod copied;
mod decode;
mod fixed;
mod hierarchy;
mod json;
mod keys;
mod node;
mod plain;
mod scaled;
mod shard;
mod sink;
mod source;
mod stored;
mod strings;
mod types;

pub use anew::Anew;
pub use shard::{MANY_CHUNKS, Sharding};
pub use sink::{CONTENTS, ZarrOptions, ZarrSink};
pub use source::ZarrSource;

use knarr_array::Result;
use knarr_flow::read_store::ReadStore;
use std::path::Path;

/// True if directory `path` is a Zarr group or array.
pub fn sniff(path: &Path) -> bool {
    hierarchy::is_node_at(path)
}

/// True if `store` is a Zarr group or array.
///
/// # Errors
/// `Read`, and what else keeps the store from telling.
pub fn is_store(store: &dyn ReadStore) -> Result<bool> {
    hierarchy::is_node(store, "")
}
