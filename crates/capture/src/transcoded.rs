//! A copy of a file in a format that the library of the program can read: a netCDF-4 file or a Zarr store for PnetCDF, which
//! reads classic files only, or a session of a transfer that another library has written.
//!
//! The program [asks](crate::Request) the launcher for the copy, which is written to the directory of the request in the spool.
//! The program's own library opens it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use knarr_array::path_bytes;
use knarr_config::FileRule;

/// Formats in which files are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Classic netCDF.
    Classic,
    /// netCDF-4, not compressed.
    NetCdf4,
}

/// What is to be shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transcoded {
    /// The file, or the directory of a session.
    #[serde(with = "path_bytes")]
    pub source: PathBuf,
    /// The rule for it, by which it is written again if the program changes it.
    pub rule: FileRule,
    /// What the program reads.
    pub form: Form,
}

impl Transcoded {
    /// Name of the classic file.
    pub const CLASSIC: &'static str = "classic.nc";
    /// Name of the netCDF-4 file.
    const NETCDF4: &'static str = "netcdf4.nc";

    /// Name of the file that is shown.
    pub fn file(form: Form) -> &'static str {
        match form {
            Form::Classic => Self::CLASSIC,
            Form::NetCdf4 => Self::NETCDF4,
        }
    }

    /// True for the name of a file that is shown.
    pub(crate) fn is_copy(name: &str) -> bool {
        [Self::CLASSIC, Self::NETCDF4].contains(&name)
    }
}
