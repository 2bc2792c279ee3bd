//! How an HDF5 output is made.

use crate::write::as_made::AsMade;
use knarr_array::libver::LibverBounds;
use knarr_flow::output::Replaces;

/// How an output is made.
#[derive(Debug, Clone, Default)]
pub struct SinkOptions {
    /// What the output may take the place of.
    pub replaces: Replaces,
    /// The output will take the place of the input: values in external raw files stay there.
    pub in_place: bool,
    /// Releases of HDF5 whose file format may be used.
    pub libver: LibverBounds,
    /// Datasets of the input that are stored in another way.
    pub as_made: AsMade,
    /// Variables that get attributes after their chunks.
    pub annotated: usize,
}
