//! How an HDF5 output is made.

use knarr_array::libver::LibverBounds;

/// How an output is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct SinkOptions {
    /// Replace an existing output.
    pub force: bool,
    /// The output will take the place of the input: values in external raw files stay there.
    pub in_place: bool,
    /// Releases of HDF5 whose file format may be used.
    pub libver: LibverBounds,
    /// Variables that get attributes after their chunks.
    pub annotated: usize,
}
