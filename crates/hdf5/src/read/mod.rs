//! Values from a file.
//!
//! Reading order: `source`, `chunks` (where they lie), `strings`, `external_files`, `characters` (text of attributes byte for byte),
//! `handed_over` (headers whose values come beside them: those of a program, or computed ones), `pieces` (where values lie in
//! the file's bytes, for checkpoints), `sibling_files` (other files that a file names), `for_netcdf` (what programs of netCDF-C do not
//! open or show).

pub(crate) mod characters;
pub(crate) mod chunks;
pub(crate) mod external_files;
pub(crate) mod for_netcdf;
pub(crate) mod handed_over;
pub(crate) mod pieces;
pub(crate) mod sibling_files;
pub(crate) mod source;
pub(crate) mod strings;
