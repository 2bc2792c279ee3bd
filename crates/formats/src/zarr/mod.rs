//! Zarr on a local disk: versions 2 and 3 are read, version 3 is written.
//!
//! Specifications: <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html>,
//! <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>.

mod array;
mod attributes;
mod chunks;
mod codecs;
mod copied;
mod decode;
mod fixed;
mod hierarchy;
mod json;
mod node;
mod plain;
mod scaled;
mod shard;
mod sink;
mod source;
mod strings;
mod types;

pub use shard::{MANY_CHUNKS, Sharding};
pub use sink::{ZarrOptions, ZarrSink};
pub use source::ZarrSource;

use std::path::Path;

/// True if directory `path` is a Zarr group or array.
pub fn sniff(path: &Path) -> bool {
    hierarchy::is_node(path)
}
