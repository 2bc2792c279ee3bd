//! Whether the bytes of an input would serve as the output: for files that would grow if they were written anew.

use std::collections::BTreeSet;

use knarr_array::coordinates::Coordinates;
use knarr_array::model::{StorageLayout, Variable};
use knarr_choose::choose::FormatLimits;
use knarr_codec::codec::ReaderLevel;
use knarr_flow::settings::{ChunkRule, Settings, chunk_shape};
use knarr_flow::store::Source;

use knarr_formats::hdf5::Hdf5Source;

/// True if the bytes of `source` would serve as the output: they are of the same format, nothing was asked that they
/// lack, and who may read the output can read them. `other_files` are those that hold some of its values.
pub(crate) fn may_copy(
    source: &dyn Source,
    settings: &Settings,
    target: FormatLimits,
    other_files: &BTreeSet<String>,
) -> bool {
    let FormatLimits::Hdf5(allowed) = target else { return false };
    let variables = &source.model().variables;
    let filters = variables.iter().flat_map(|variable| &variable.filters);
    // What lies in other files is not among the bytes of this one.
    let is_all_here = other_files.is_empty() && !variables.iter().any(|v| matches!(v.layout, StorageLayout::Elsewhere));
    let coordinates = Coordinates::of(source.model());
    source.as_any().downcast_ref::<Hdf5Source>().is_some_and(|file| !file.is_header())
        && is_all_here
        && settings.leave_all_open()
        && variables.iter().all(|variable| has_asked_chunks(variable, &coordinates))
        && ReaderLevel::of_filters(filters.map(|filter| filter.id)) <= allowed
}

/// True unless a convention that the file follows asks for other chunks than it has.
fn has_asked_chunks(variable: &Variable, coordinates: &Coordinates) -> bool {
    let (StorageLayout::Chunked(chunk), Some(least)) = (&variable.layout, coordinates.least_chunk(variable)) else {
        return true;
    };
    chunk_shape(&ChunkRule::AtLeast(least), variable).is_ok_and(|asked| asked == *chunk)
}
