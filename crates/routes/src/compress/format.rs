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
    /// Zarr v3 directory: `.zarr`.
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
        let suffix = path.extension().map(|suffix| suffix.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(url) = url_of(path) {
            return match Self::known(suffix.trim_end_matches('/')) {
                None | Some(Self::Zarr) => Ok(Self::Zarr),
                Some(_) => Err(Error::unsupported("only Zarr stores are written to a URL")
                    .hint("end the name in .zarr, or write the file here and copy it")
                    .at(url)),
            };
        }
        Self::known(&suffix).ok_or_else(|| {
            Error::usage(format!("'{}' does not say which format to write", path.display()))
                .hint("end the name in .nc (netCDF-4), .h5 (HDF5), .zarr (Zarr v3), .csv, or .bin (raw)")
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
            "zarr" => Some(Self::Zarr),
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
