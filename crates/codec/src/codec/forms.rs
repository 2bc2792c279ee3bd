//! How codecs appear in files: HDF5 filter pipelines and Zarr v3 codec metadata.

use serde::{Deserialize, Serialize};

use knarr_array::error::{Error, Result};
use knarr_array::filter::{FilterId, Hdf5Filter};

/// Whether and how a step can be part of a standard HDF5 filter pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hdf5Form {
    /// It cannot.
    None,
    /// It only changes values (rounding): readers need nothing.
    Invisible,
    /// This filter.
    Filter(Hdf5Filter),
}

/// What a reader needs to open a chain, least demanding first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReaderLevel {
    /// Any build of HDF5: deflate, shuffle, fletcher32.
    Core,
    /// netCDF-4 as packages carry it: what [`ReaderLevel::Core`] reads, zstd, Blosc and bzip2.
    NetCdf,
    /// HDF5 with the registered filters that the `hdf5plugin` package carries.
    Standard,
    /// Knarr's own filter.
    Knarr,
}

impl std::str::FromStr for ReaderLevel {
    type Err = Error;

    /// The readers that people choose among. What netCDF packages carry follows from the suffix of an output.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "core" => Ok(Self::Core),
            "standard" => Ok(Self::Standard),
            "knarr" => Ok(Self::Knarr),
            other => {
                Err(Error::usage(format!("'{other}' is not a kind of reader")).hint("choose core, standard or knarr"))
            }
        }
    }
}

impl ReaderLevel {
    /// The value of `--portable` that allows it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::NetCdf | Self::Standard => "standard",
            Self::Knarr => "knarr",
        }
    }

    /// What opens such a file, in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Core => "any build of HDF5",
            Self::NetCdf => {
                "netCDF-C with its filter plugins (Debian's package has none), or HDF5 with those of hdf5plugin"
            }
            Self::Standard => "HDF5 with the registered filters of hdf5plugin",
            Self::Knarr => "HDF5 with Knarr's filter (id 45223)",
        }
    }

    /// What opens a pipeline of these filters. Filters that nobody registered count as those of plugins.
    pub fn of_filters(ids: impl Iterator<Item = FilterId>) -> Self {
        ids.map(|id| super::registered(id).map_or(Self::Standard, |filter| filter.reader)).max().unwrap_or(Self::Core)
    }

    /// What opens an array with these Zarr v3 codecs: those of the specification and zstd every library has, others are
    /// those of numcodecs.
    pub fn of_zarr(codecs: &[serde_json::Value]) -> Self {
        let reader = |codec: &serde_json::Value| match codec.get("name").and_then(serde_json::Value::as_str) {
            Some("bytes" | "transpose" | "gzip" | "blosc" | "zstd" | "crc32c" | "sharding_indexed") => Self::Core,
            Some(name) if name.starts_with("knarr.") => Self::Knarr,
            _ => Self::Standard,
        };
        codecs.iter().map(reader).max().unwrap_or(Self::Core)
    }
}

/// Where a Zarr v3 codec stands in `codecs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZarrKind {
    /// `array -> array`
    ArrayToArray,
    /// `array -> bytes`
    ArrayToBytes,
    /// `bytes -> bytes`
    BytesToBytes,
}

/// One entry of `codecs` in Zarr v3 array metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct ZarrCodec {
    /// Position in the chain.
    pub kind: ZarrKind,
    /// `{"name": ..., "configuration": ...}`
    pub metadata: serde_json::Value,
}

/// The entry `{"name": name, "configuration": configuration}`.
pub fn zarr_entry(kind: ZarrKind, name: &str, configuration: serde_json::Value) -> ZarrCodec {
    ZarrCodec { kind, metadata: serde_json::json!({"name": name, "configuration": configuration}) }
}
