//! One ZIP file as a store of objects: each object is a member of its name. Members are stored, not deflated, so that any
//! part of one can be read.
//!
//! Specification: <https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>. Zarr stores of this kind are those of
//! `zarr.storage.ZipStore` of zarr-python.
#![forbid(unsafe_code)]

mod growing;
mod read;
mod write;

pub use read::{ZipObjects, is_zip};
pub use write::ZipStore;
