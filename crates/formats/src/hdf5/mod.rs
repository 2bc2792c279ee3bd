//! HDF5 and netCDF-4.
//!
//! [`Hdf5Source`] asks the HDF5 library where chunks lie and lets workers read and decode them without its
//! lock. [`Hdf5Sink`] makes a file from a model, or copies the structure of one, and takes finished chunks.
//!
//! | file | what it is |
//! |---|---|
//! | `sys/` | the C library behind a safe surface; all `unsafe` |
//! | `format` | which files are of this format |
//! | `walk`, `scan`, `names`, `paths`, `values`, `words` | from the file to the model |
//! | `characters` | text of attributes byte for byte |
//! | `source`, `chunks`, `strings` | reading regions |
//! | `pieces` | where values lie in the file's bytes, for checkpoints |
//! | `sink` | writing chunks |
//! | `copy`, `create`, `contents` | copying what is not encoded anew |
//! | `as_made` | storing datasets as they were before they were packed |
//! | `allocation` | datasets to which parallel HDF5 can append |
//! | `metadata` | how much room everything but values takes |
//! | `handed_over` | headers whose values come beside them: those of a program, or computed ones |
//! | `beside` | other files that a file names |
//! | `for_netcdf` | what programs of netCDF-C do not open or show |
//! | `build`, `dimensions`, `write_attribute` | netCDF-4 from a model |
//! | `explain` | errors of the library in words that help |
//! | `filters` | names of registered filters |

mod allocation;
mod as_made;
mod beside;
mod build;
mod characters;
mod chunks;
mod contents;
mod copy;
mod create;
mod dimensions;
mod element;
mod explain;
mod external_files;
mod filters;
mod for_netcdf;
mod format;
mod handed_over;
mod metadata;
mod names;
mod paths;
mod pieces;
mod scan;
mod sink;
mod sink_options;
mod source;
mod strings;
mod sys;
mod targets;
mod values;
mod walk;
mod words;
mod write_attribute;

pub use as_made::{AsMade, StoredAs};
pub use beside::{lost, other_files};
pub use filters::{filter_title, pipeline_words};
pub use for_netcdf::{NetcdfLimits, netcdf_limits};
pub(crate) use format::{FORMAT, resolver};
pub use sink::Hdf5Sink;
pub use sink_options::SinkOptions;
pub use source::{FilterResolver, Hdf5Source};
