//! Where values lie in array files, the files of what a program handed over (`knarr_handover`).

use std::path::Path;
use std::sync::Arc;

use crate::files::layout::{Extent, FileLayout, StoredVariable};
use knarr_array::error::{Error, Result};
use knarr_handover::Index;

/// Name of the format in layouts.
pub const FORMAT: &str = "Knarr arrays";

/// Where the arrays lie in the file, which has `length` bytes. Arrays of one name are one variable.
pub fn layout_of(index: &Index, length: u64) -> FileLayout {
    let mut variables: Vec<StoredVariable> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for entry in &index.entries {
        let place = *known.entry(entry.request.variable.as_str()).or_insert(variables.len());
        if place == variables.len() {
            variables.push(StoredVariable {
                path: format!("/{}", entry.request.variable),
                dtype: entry.request.dtype,
                endian: entry.request.endian,
                shape: entry.request.share.count().to_vec(),
                extents: Vec::new(),
            });
        }
        let extent = Extent {
            offset: entry.offset,
            length: entry.request.byte_len(),
            shape: entry.request.share.count().into(),
            filters: Arc::default(),
        };
        if let Some(variable) = variables.get_mut(place).filter(|_| extent.length > 0) {
            variable.extents.push(extent);
        }
    }
    variables.retain(|variable| !variable.extents.is_empty());
    FileLayout { format: FORMAT.to_owned(), length, variables }
}

/// The layout of the array file at `path`; `None` if it is a file of another format.
///
/// # Errors
/// `NotFound` or `Read` if it cannot be read; `Corrupt` or `Unsupported` for one that is damaged or of a later version.
pub fn layout(path: &Path) -> Result<Option<FileLayout>> {
    Ok(knarr_handover::open(path)?.map(|(index, length)| layout_of(&index, length)))
}

/// The layout of the file at `path` for programs that know no other format: of an array file, or else one without
/// variables, which is carried as bytes.
///
/// # Errors
/// As for [`layout`].
pub fn find(path: &Path) -> Result<FileLayout> {
    match layout(path)? {
        Some(layout) => Ok(layout),
        None => {
            let length = std::fs::metadata(path).map_err(|error| Error::read(path, &error))?.len();
            Ok(FileLayout::opaque(length))
        }
    }
}
