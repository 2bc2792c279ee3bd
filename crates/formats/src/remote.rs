//! Inputs that lie elsewhere, under a URL: Zarr stores are read in place, files through a copy of their
//! parts.

use std::path::Path;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_codec::codec::CodecList;
use knarr_flow::store::Source;
use knarr_flow::urls::StoreResolver;

use crate::fetched;
use crate::zarr::{self, ZarrSource};
use knarr_input::partial::Partial;

/// Opens what is at `url`, which `path` is: a Zarr store there, or what `open_file` makes of a copy of the file and the name
/// of the object.
///
/// # Errors
/// `Unsupported` if this program reads no URLs, or not this one; `NotFound` if nothing is there; those of the formats.
pub(crate) fn open(
    (path, url): (&Path, &str),
    codecs: &CodecList,
    stores: Option<&dyn StoreResolver>,
    open_file: impl FnOnce(&Path, &Path) -> Result<Box<dyn Source>>,
) -> Result<Box<dyn Source>> {
    let place = |error: Error| error.at_once(url);
    let stores = stores.ok_or_else(|| {
        place(Error::unsupported("only files and directories of this machine are read here").hint("copy it here first"))
    })?;
    let store = stores.read(url).map_err(place)?;
    if zarr::is_store(store.as_ref()).map_err(place)? {
        return Ok(Box::new(ZarrSource::open_in(store, path, codecs)?));
    }
    let nothing = || {
        place(
            Error::new(ErrorKind::NotFound, "neither a Zarr store nor a file is there")
                .hint("check the name, and that the end of the URL is not missing"),
        )
    };
    let (folder, key) = stores.object(url).map_err(place)?.ok_or_else(nothing)?;
    let copy = Partial::of(folder, key.clone()).map_err(place)?.ok_or_else(nothing)?;
    fetched::open(copy, path, |copy| open_file(copy, Path::new(&key)))
}
