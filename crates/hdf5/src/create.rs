//! Makes datasets with their new or old storage, whatever filters this build of HDF5 has.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::sys::{Dataset, DatasetLayout, Datatype, Extent, File, Group, Plist, Space, forget_filter, pretend_filter};
use super::text::filters::{SZIP, filter_label, is_built_in};
use knarr_array::error::{Error, Result};
use knarr_array::filter::Hdf5Filter;
use knarr_flow::store::{Encoding, Storage};

/// Filters that the library was told it has, so that it makes datasets that use them. Registration is a state
/// of the library, so this one is global as well; it is only touched under the library's lock.
static PRETENDED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Announces the filters that the library does not carry.
fn pretend(filters: &[Hdf5Filter]) -> Result<()> {
    let mut pretended = PRETENDED.lock().unwrap_or_else(PoisonError::into_inner);
    for filter in filters.iter().filter(|filter| !is_built_in(filter.id)) {
        if !pretended.contains(&filter.id) {
            pretend_filter(filter.id, filter_label(filter.id))?;
            pretended.insert(filter.id);
        }
    }
    Ok(())
}

/// Lets the library look for its own plugins for these filters again. A filter that an open dataset uses stays
/// announced until the next call.
pub(super) fn stop_pretending(filters: &[Hdf5Filter]) {
    let mut pretended = PRETENDED.lock().unwrap_or_else(PoisonError::into_inner);
    pretended.retain(|id| !filters.iter().any(|filter| filter.id == *id) || !forget_filter(*id));
}

/// As [`stop_pretending`], for all filters. The library writes `file` then, and tells nobody if it cannot: that is done
/// before.
///
/// # Errors
/// `Write`.
pub(super) fn stop_pretending_all(file: &File) -> Result<()> {
    let mut pretended = PRETENDED.lock().unwrap_or_else(PoisonError::into_inner);
    let written = if pretended.is_empty() { Ok(()) } else { file.flush() };
    pretended.retain(|id| !forget_filter(*id));
    written
}

/// Where a dataset is made.
pub(super) struct Site<'a> {
    pub(super) group: &'a Group,
    pub(super) name: &'a [u8],
    pub(super) lcpl: &'a Plist,
}

/// The pipeline of a storage, in this format's language.
pub(super) fn pipeline(storage: &Storage) -> Result<&[Hdf5Filter]> {
    match &storage.encoding {
        Encoding::Hdf5(filters) => Ok(filters),
        Encoding::Zarr(_) => Err(Error::internal("Zarr codecs were given to an HDF5 file")),
    }
}

/// Makes the dataset that chunks of `storage` will be written to. `dcpl` holds what is kept of the old one.
pub(super) fn create_encoded(
    site: &Site<'_>,
    datatype: &Datatype,
    space: &Space,
    dcpl: &Plist,
    storage: &Storage,
) -> Result<Dataset> {
    let filters = pipeline(storage)?;
    check_chunk(&storage.chunk, &space.extent()?)?;
    dcpl.set_chunked(&storage.chunk)?;
    dcpl.set_filters(filters)?;
    // Space taken early would be filled, and through the filters, which are not really there.
    dcpl.allocate_incrementally()?;
    dcpl.forget_times()?;
    pretend(filters)?;
    site.group.create_dataset(site.name, datatype, space, site.lcpl, dcpl)
}

/// Makes a dataset with the storage it had, without values.
pub(super) fn create_same(site: &Site<'_>, datatype: &Datatype, space: &Space, dcpl: &Plist) -> Result<Dataset> {
    let mut filters = dcpl.filters()?;
    if filters.iter().any(|filter| filter.id == SZIP) {
        // This HDF5 cannot make it. Where there are values, copying them is refused.
        filters.retain(|filter| filter.id != SZIP);
        dcpl.set_filters(&filters)?;
    }
    // Space taken early would be filled through the filters, which may not really be there.
    if matches!(dcpl.layout()?, DatasetLayout::Chunked(_)) && !filters.is_empty() && dcpl.allocates_early()? {
        dcpl.allocate_incrementally()?;
    }
    dcpl.forget_times()?;
    pretend(&filters)?;
    site.group.create_dataset(site.name, datatype, space, site.lcpl, dcpl)
}

fn check_chunk(chunk: &[u64], extent: &Extent) -> Result<()> {
    let Extent::Simple { shape, max } = extent else {
        return Err(Error::usage("only arrays can be stored in chunks"));
    };
    if chunk.len() != shape.len() {
        return Err(Error::usage(format!("chunks of shape {chunk:?} do not fit the shape {shape:?}"))
            .hint("give one extent per dimension"));
    }
    for (axis, (extent, limit)) in chunk.iter().zip(max).enumerate() {
        if *extent == 0 || limit.is_some_and(|limit| *extent > limit) {
            return Err(Error::usage(format!("chunk extent {extent} of dimension {axis} is out of range"))
                .hint("choose an extent from 1 to the length of the dimension"));
        }
    }
    Ok(())
}
