//! HDF5 and netCDF-4.
//!
//! [`Hdf5Source`] asks the HDF5 library where chunks lie and lets workers read and decode them without its
//! lock. [`Hdf5Sink`] makes a file from a model, or copies the structure of one, and takes finished chunks.
//!
//! Reading order: `sys` (the C library behind a safe surface; all `unsafe`), `text` (what is in files, in words), `model` (from
//! a file to its model), `create` (datasets, whatever filters this build of HDF5 has), `read`, `write`, `format` (which files
//! are of this format).

mod create;
mod format;
mod model;
mod read;
mod sys;
mod text;
mod write;

pub use format::{FORMAT, resolver};
pub use read::for_netcdf::{NetcdfLimits, netcdf_limits};
pub use read::handed_over::Handed;
pub use read::sibling_files::{lost, other_files};
pub use read::source::{FilterResolver, Hdf5Source};
pub use text::filters::{filter_title, pipeline_words};
pub use write::as_made::{AsMade, StoredAs};
pub use write::sink::Hdf5Sink;
pub use write::sink_options::SinkOptions;
