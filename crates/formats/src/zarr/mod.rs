//! Zarr: versions 2 and 3 are read, version 3 is written.
//!
//! Specifications: <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html>,
//! <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>.

mod ahead;
mod anew;
mod array;
mod attributes;
mod chunks;
mod codecs;
mod consolidated;
mod copied;
mod decode;
mod fixed;
mod format;
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
pub(crate) use format::{FORMAT, ZIPPED};
pub use format::{is_store, sniff};
pub use shard::{MANY_CHUNKS, Sharding};
pub use sink::{CONTENTS, ZarrOptions, ZarrSink};
pub use source::ZarrSource;
