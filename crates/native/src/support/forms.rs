//! Options and file forms that several codecs share.

use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::{Error, Result};
use knarr_codec::codec::{Hdf5Form, OptionDoc, OptionKind, Options, ZarrCodec, ZarrKind, zarr_entry};
use serde_json::Value;

/// The usual first option of a compressor.
pub(crate) const fn level_option(min: i64, max: i64, default: i64, doc: &'static str) -> OptionDoc {
    OptionDoc { name: "level", kind: OptionKind::Int { min, max, default: Some(default) }, doc }
}

/// Value of the option `level`, whose range was checked against its documentation.
pub(crate) fn level(options: &Options) -> Result<i32> {
    i32::try_from(options.int("level")?).map_err(|_| Error::internal("option 'level' is out of range"))
}

/// An HDF5 filter that must not be skipped silently when a chunk is written.
pub(crate) fn filter(id: FilterId, cd_values: Vec<u32>) -> Hdf5Form {
    Hdf5Form::Filter(Hdf5Filter { id, optional: false, cd_values })
}

/// The level that an HDF5 filter was given, moved into `min..=max`. Decoders do not need it; the range only keeps
/// the options valid.
pub(crate) fn cd_level(filter: &Hdf5Filter, default: u32, min: i64, max: i64) -> Options {
    let written = filter.cd_values.first().copied().unwrap_or(default);
    Options::default().with_int("level", i64::from(written).clamp(min, max))
}

/// A Zarr v3 `bytes -> bytes` codec.
pub(crate) fn bytes_to_bytes(name: &str, configuration: Value) -> ZarrCodec {
    zarr_entry(ZarrKind::BytesToBytes, name, configuration)
}
