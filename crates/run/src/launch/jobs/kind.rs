//! The kind of output for each value of `output` in `knarr.toml`.

use std::path::Path;

use knarr_array::error::Result;
use knarr_capture::HandedOver;
use knarr_config::Output;
use knarr_flow::store::Source;
use knarr_formats::classic;
use knarr_formats::output::{self, OutputKind};

/// The kind that a rule with this output asks for, as far as it is known before there is a file.
pub(in crate::launch) fn kind_asked(output: &Output) -> &'static dyn OutputKind {
    match output {
        Output::Netcdf4 | Output::Classic => output::NETCDF4,
        Output::Zarr | Output::At(_) => output::ZARR,
    }
}

/// The kind of output that is made of a file that was handed over. `classic` is its header if it is a classic netCDF file.
/// An HDF5 file is for readers of netCDF, unless a single process wrote it under another kind of name and said which filters it
/// has.
///
/// # Errors
/// `Corrupt` if the header is damaged.
pub(in crate::launch) fn kind_of(
    handed: &HandedOver,
    source: &dyn Source,
    classic: Option<&Path>,
) -> Result<&'static dyn OutputKind> {
    let output = handed.rule.compress().output();
    Ok(match (output, classic) {
        (Output::Classic, Some(header)) => output::classic(classic::version_of(header)?),
        (Output::Netcdf4, _) if handed.readers_filters().is_some() => output::of_hdf5(&handed.target, source),
        _ => kind_asked(output),
    })
}
