//! Values into a file.
//!
//! Reading order: `sink_options`, `sink`, `targets` (datasets that take chunks); a file from a model: `build`, `dimensions`,
//! `write_attribute`; from another file: `copy`, `contents` (values that are not encoded anew), `as_made` (datasets as they were
//! before they were packed); `allocation` (datasets to which parallel HDF5 can append), `metadata` (how much room everything but
//! values takes).

pub(crate) mod allocation;
pub(crate) mod as_made;
pub(crate) mod build;
pub(crate) mod contents;
pub(crate) mod copy;
pub(crate) mod dimensions;
pub(crate) mod metadata;
pub(crate) mod sink;
pub(crate) mod sink_options;
pub(crate) mod targets;
pub(crate) mod write_attribute;
