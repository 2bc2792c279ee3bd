//! Builds a netCDF-4 file from the model of another format.

use super::sys::File;
use knarr_core::error::{Error, Result};
use knarr_core::store::{Source, Storage};

/// Makes groups, dimensions, variables and attributes of `source` in `file`.
pub(super) fn build(source: &dyn Source, _file: &File, _storages: &[Storage]) -> Result<()> {
    Err(Error::unsupported(format!("{} cannot be written as netCDF-4 yet", source.format())))
}
