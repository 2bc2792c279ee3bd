//! Where the values of a file's variables lie in its bytes, whatever format it has: what checkpoints are made from.

use std::path::Path;

use crate::open::find_layout;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_checkpoint::layout::{Extent, FileLayout, StoredVariable};
use knarr_checkpoint::library;
use knarr_input::format::Probe;

/// Pieces shorter than [`SMALL`] bytes cost more to keep apart than they gain; a variable may have this many of them.
const MANY: u64 = 1 << 16;
const SMALL: u64 = 64;

/// The layout of the file at `path`, which satisfies [`FileLayout::check`]. The file is only read, and neither locked nor
/// refused because a program has it open.
///
/// A file of another format than HDF5, netCDF-4, classic netCDF and the array files of checkpoints has no variables.
///
/// # Errors
/// `NotFound` or `Read` if it cannot be read; `Corrupt` or `Unsupported` for a damaged one.
pub fn read(path: &Path) -> Result<FileLayout> {
    let probe = Probe::new(path)?;
    let Some(length) = probe.length() else {
        return Err(Error::new(ErrorKind::Read, "it is a directory").hint("name files").at(path.display().to_string()));
    };
    let found = match library::layout(path).transpose() {
        Some(found) => found,
        None => match find_layout(&probe)? {
            Some(layout) => layout(path),
            None => return Ok(FileLayout::opaque(length)),
        },
    };
    found.and_then(ordered).map_err(|error| error.at_once(&path.display().to_string()))
}

fn ordered(mut layout: FileLayout) -> Result<FileLayout> {
    layout.variables.retain(|variable| !is_scattered(variable));
    layout.variables.sort_by_key(|variable| variable.extents.iter().map(|extent| extent.offset).min());
    layout.check()?;
    Ok(layout)
}

fn is_scattered(variable: &StoredVariable) -> bool {
    let pieces = variable.extents.len() as u64;
    let bytes = variable.extents.iter().map(|extent: &Extent| extent.length).fold(0, u64::saturating_add);
    pieces > MANY && bytes / pieces < SMALL
}
