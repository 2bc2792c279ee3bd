//! Kinds of outputs: what each can hold, how one is made, and what it does not keep of its input.
//!
//! Reading order: [`kind`] (what every kind is asked), [`losses`], `plain` (kinds of plain values), one file for each other kind, and here which kinds there are and
//! which one a name asks for.

mod hdf5;
mod kind;
mod losses;
mod plain;
mod zarr;
mod zarr_types;

pub use hdf5::{NETCDF4, taken_names};
pub use kind::{ChunkedOutput, Content, NewOutput, NewSink, OutputKind, PlainOutput};
pub use losses::Losses;
pub use plain::classic;
pub use zarr::ZARR;

use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_flow::store::Source;
use knarr_flow::urls::url_of;

use self::hdf5::{HDF5, is_netcdf};
use self::plain::{CSV, RAW};
use self::zarr::ZIPPED;

/// Those that names ask for. The suffixes of all are different.
const KINDS: &[&dyn OutputKind] = &[NETCDF4, HDF5, ZARR, ZIPPED, CSV, RAW];

/// What is written to a URL whose name does not say.
const AT_URLS: &dyn OutputKind = ZARR;

/// The suffixes that names of outputs may have, for people: `.nc, .nc4`.
pub fn suffixes() -> String {
    let all = KINDS.iter().flat_map(|kind| kind.suffixes()).map(|suffix| format!(".{suffix}"));
    all.collect::<Vec<_>>().join(", ")
}

/// What the name of an output asks for, in words.
const HINT: &str = "end the name in .nc (netCDF-4), .h5 (HDF5), .zarr or .zarr.zip (Zarr v3), .csv, or .bin (raw)";

/// The kind of output that the suffix of `path` stands for. What has a URL is a store.
///
/// # Errors
/// `Usage` for other suffixes, `Unsupported` for kinds that are not written to a URL.
pub fn of(path: &Path) -> Result<&'static dyn OutputKind> {
    let known = KINDS.iter().copied().find(|kind| asks_for(path, *kind));
    let Some(url) = url_of(path) else {
        return known.ok_or_else(|| {
            Error::usage(format!("'{}' does not say which format to write", path.display())).hint(HINT)
        });
    };
    let kind = known.unwrap_or(AT_URLS);
    match kind.not_at_urls() {
        None => Ok(kind),
        Some(why) => {
            Err(Error::unsupported(why).hint("end the name in .zarr, or write the file here and copy it").at(url))
        }
    }
}

/// The kind of output that may take the place of `source`, an HDF5 file that is called `path`: netCDF-4 if netCDF-4 wrote it or
/// the name says so. Tools go by the name, whatever library wrote the file.
pub fn of_hdf5(path: &Path, source: &dyn Source) -> &'static dyn ChunkedOutput {
    if is_netcdf(source) || asks_for(path, NETCDF4) { NETCDF4 } else { HDF5 }
}

/// True if the name of `path` ends in a suffix of this kind. Shells add a slash to what is a directory; it is no part of the name.
fn asks_for(path: &Path, kind: &dyn OutputKind) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let is_stem = |stem: &str| stem.strip_suffix('.').is_some_and(|stem| !stem.is_empty());
    kind.suffixes().iter().any(|suffix| name.strip_suffix(suffix).is_some_and(is_stem))
}

/// The kind of output that `suffix` stands for, with its dot or without.
///
/// # Errors
/// `Usage` for suffixes that stand for none.
pub fn of_suffix(suffix: &str) -> Result<&'static dyn OutputKind> {
    let wanted = suffix.trim_start_matches('.').to_lowercase();
    KINDS
        .iter()
        .copied()
        .find(|kind| kind.suffixes().contains(&wanted.as_str()))
        .ok_or_else(|| Error::usage(format!("'{suffix}' is no format that is written")).hint("choose nc, h5 or zarr"))
}
