//! Zarr: versions 2 and 3 are read, version 3 is written.
//!
//! Specifications: <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html>,
//! <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>.
//!
//! Reading order: `metadata` (what a store says), `chunk`, `read`, `write`, `format` (which inputs are stores).

mod chunk;
mod format;
mod metadata;
mod read;
mod write;

pub use chunk::recode::Recode;
pub use chunk::shard::{MANY_CHUNKS, Sharding};
pub(crate) use format::{FORMAT, ZIPPED};
pub use format::{is_store, sniff};
pub use read::source::ZarrSource;
pub use write::sink::{CONTENTS, ZarrOptions, ZarrSink};
