//! How Zarr stores are told from other inputs, and opened.

use std::path::Path;
use std::sync::Arc;

use knarr_array::{Error, Result};
use knarr_flow::read_store::ReadStore;
use knarr_zip::{ZipObjects, is_zip};

use super::metadata::hierarchy;
use super::read::source::ZarrSource;
use knarr_input::format::Format;
use knarr_input::partial::Input;

/// A store in a directory.
pub(crate) const FORMAT: Format = Format {
    name: "Zarr v2 and v3",
    sniff: |probe| Ok(probe.length().is_none() && sniff(probe.path)),
    open: |probe, codecs, _| Ok(Box::new(ZarrSource::open(probe.path, codecs)?)),
    layout: None,
};

/// A store in one ZIP file.
pub(crate) const ZIPPED: Format = Format {
    name: "the same in a ZIP file",
    sniff: |probe| Ok(is_zip(probe.head()) && is_store(&members(probe.path)?)?),
    open: |probe, codecs, _| Ok(Box::new(ZarrSource::open_in(Arc::new(members(probe.path)?), probe.path, codecs)?)),
    layout: None,
};

/// The members of the ZIP file at `path`.
fn members(path: &Path) -> Result<ZipObjects<Input>> {
    let read_error = |error: std::io::Error| Error::read(path, &error);
    let file = Input::open(path).map_err(read_error)?;
    let length = file.metadata().map_err(read_error)?.len();
    ZipObjects::open(file, length, path)
}

/// True if directory `path` is a Zarr group or array.
pub fn sniff(path: &Path) -> bool {
    hierarchy::is_node_at(path)
}

/// True if `store` is a Zarr group or array.
///
/// # Errors
/// `Read`, and what else keeps the store from telling.
pub fn is_store(store: &dyn ReadStore) -> Result<bool> {
    hierarchy::is_node(store, "")
}
