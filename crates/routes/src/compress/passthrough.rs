//! Whether an input can be copied byte for byte, for files that would grow if they were encoded again.

use knarr_array::coordinates::Coordinates;
use knarr_array::model::{StorageLayout, Variable};
use knarr_codec::codec::ReaderLevel;
use knarr_flow::settings::{ChunkRule, Settings, chunk_shape};
use knarr_flow::store::Source;

/// True if the bytes of `source`, which are such a file as the output will be, would serve as the output: nothing was asked that
/// they lack, and readers that are allowed can read them.
pub(crate) fn may_copy(source: &dyn Source, settings: &Settings, allowed: ReaderLevel) -> bool {
    let variables = &source.model().variables;
    let filters = variables.iter().flat_map(|variable| &variable.filters);
    // What lies in other files is not among the bytes of this one.
    let is_all_here = !variables.iter().any(|v| matches!(v.layout, StorageLayout::Elsewhere));
    let coordinates = Coordinates::of(source.model());
    is_all_here
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
