//! Formats of outputs.

use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_choose::choose::FormatLimits;
use knarr_codec::codec::ReaderLevel;
use knarr_flow::network::url_of;
use knarr_formats::classic::Version;
use serde::Serialize;

/// Format of an output, by its suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputFormat {
    /// netCDF-4, which is HDF5: `.nc`, `.nc4`, `.cdf`, `.netcdf`.
    NetCdf4,
    /// HDF5: `.h5`, `.hdf5`, `.hdf`, `.he5`.
    Hdf5,
    /// Zarr v3, a directory or a ZIP file: `.zarr`, `.zarr.zip`.
    Zarr,
    /// Text: `.csv`, and `.tsv` with tabs.
    Csv,
    /// The bytes of one variable: `.bin`, `.raw`.
    Raw,
    /// Classic netCDF, which no name asks for.
    Classic(Version),
}

impl OutputFormat {
    /// The format that the suffix of `path` stands for. What has a URL is a Zarr store: a file cannot be written piece by
    /// piece there.
    ///
    /// # Errors
    /// `Usage` for other suffixes, `Unsupported` for other formats with a URL.
    pub fn of(path: &Path) -> Result<Self> {
        let suffix = suffix_of(path);
        if let Some(url) = url_of(path) {
            return match Self::known(&suffix) {
                _ if suffix == ZIPPED => Err(Error::unsupported("ZIP files are not written to a URL")
                    .hint("end the name in .zarr, or write the file here and copy it")
                    .at(url)),
                None | Some(Self::Zarr) => Ok(Self::Zarr),
                Some(_) => Err(Error::unsupported("only Zarr stores are written to a URL")
                    .hint("end the name in .zarr, or write the file here and copy it")
                    .at(url)),
            };
        }
        Self::known(&suffix).ok_or_else(|| {
            Error::usage(format!("'{}' does not say which format to write", path.display()))
                .hint("end the name in .nc (netCDF-4), .h5 (HDF5), .zarr or .zarr.zip (Zarr v3), .csv, or .bin (raw)")
        })
    }

    /// The format that `suffix` stands for, with its dot or without.
    ///
    /// # Errors
    /// `Usage` for suffixes that stand for none.
    pub fn of_suffix(suffix: &str) -> Result<Self> {
        Self::known(suffix.trim_start_matches('.')).ok_or_else(|| {
            Error::usage(format!("'{suffix}' is no format that is written")).hint("choose nc, h5 or zarr")
        })
    }

    fn known(suffix: &str) -> Option<Self> {
        match suffix.to_lowercase().as_str() {
            "nc" | "nc4" | "cdf" | "netcdf" => Some(Self::NetCdf4),
            "h5" | "hdf5" | "hdf" | "he5" => Some(Self::Hdf5),
            "zarr" | ZIPPED => Some(Self::Zarr),
            "csv" | "tsv" => Some(Self::Csv),
            "bin" | "raw" => Some(Self::Raw),
            _ => None,
        }
    }

    /// True for formats without chunks and chains: values lie there as they are.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Csv | Self::Raw | Self::Classic(_))
    }

    /// What the format can hold for readers that have at most `portable`. Where that is not said, netCDF files and Zarr
    /// stores are for the tools that open such: most builds of netCDF-C bring no filters beyond those of HDF5, and Zarr
    /// libraries no codecs beyond those of the specification and zstd.
    ///
    /// # Errors
    /// `Unsupported` for formats that hold nothing but values: there is nothing to choose.
    pub fn target(self, portable: Option<ReaderLevel>) -> Result<FormatLimits> {
        Ok(match self {
            // Plugins of netCDF-C are fewer than those of hdf5plugin.
            Self::NetCdf4 if portable == Some(ReaderLevel::Standard) => FormatLimits::Hdf5(ReaderLevel::NetCdf),
            Self::NetCdf4 => FormatLimits::Hdf5(portable.unwrap_or(ReaderLevel::Core)),
            Self::Hdf5 => FormatLimits::Hdf5(portable.unwrap_or(ReaderLevel::Standard)),
            Self::Zarr => FormatLimits::Zarr(portable.unwrap_or(ReaderLevel::Core)),
            Self::Csv | Self::Raw | Self::Classic(_) => {
                return Err(Error::unsupported("the format holds plain values: there is no chain to choose")
                    .hint("ask for nc, h5 or zarr"));
            }
        })
    }
}

/// Suffix of Zarr stores that are one ZIP file.
const ZIPPED: &str = "zarr.zip";

/// True if the Zarr store that is called so is one ZIP file.
pub(super) fn is_zipped(path: &Path) -> bool {
    suffix_of(path) == ZIPPED
}

/// Suffix of a name, in small letters: the last part, or the two of [`ZIPPED`]. Shells add a slash to what is a directory.
fn suffix_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    if name.strip_suffix(ZIPPED).is_some_and(|stem| stem.len() > 1 && stem.ends_with('.')) {
        return ZIPPED.to_owned();
    }
    path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// What opens an output of this format that needs `reader`, in words.
pub fn opened_by(format: OutputFormat, reader: ReaderLevel) -> &'static str {
    match (format, reader) {
        (OutputFormat::Zarr, ReaderLevel::Core) => "every Zarr v3 library",
        (OutputFormat::Zarr, ReaderLevel::NetCdf | ReaderLevel::Standard) => {
            "Zarr v3 libraries with the codecs of numcodecs"
        }
        (OutputFormat::Zarr, ReaderLevel::Knarr) => "Knarr",
        _ => reader.in_words(),
    }
}
