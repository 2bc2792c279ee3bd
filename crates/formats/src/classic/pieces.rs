//! Where the values of each variable lie in the bytes of the file, for checkpoints.

use std::path::Path;
use std::sync::Arc;

use super::ClassicSource;
use knarr_array::array::Endian;
use knarr_array::error::{Error, Result};
use knarr_array::model::Variable;
use knarr_array::region::volume;
use knarr_checkpoint::layout::{Extent, FileLayout, StoredVariable};
use knarr_flow::store::Source;
use knarr_flow::strided::StridedLayout;

/// The layout of the classic netCDF file at `path`. What a file that ends early does not hold is left out.
///
/// # Errors
/// As for [`ClassicSource::open`].
pub(crate) fn layout(path: &Path) -> Result<FileLayout> {
    let source = ClassicSource::open(path)?;
    let mut variables = Vec::new();
    for (variable, place) in source.model.variables.iter().zip(&source.places) {
        let extents = extents(variable, place, source.file_len).map_err(|error| error.at_variable(variable.name()))?;
        if !extents.is_empty() {
            variables.push(StoredVariable {
                path: variable.path.clone(),
                dtype: variable.dtype,
                endian: Endian::Big,
                shape: variable.shape.clone(),
                extents,
            });
        }
    }
    Ok(FileLayout { format: source.format().to_owned(), length: source.file_len, variables })
}

/// One piece for all values that follow each other, or one for each record.
fn extents(variable: &Variable, place: &StridedLayout, file_len: u64) -> Result<Vec<Extent>> {
    let size = variable.dtype.size() as u64;
    let bytes = |shape: &[u64]| {
        volume(shape)
            .and_then(|len| len.checked_mul(size))
            .ok_or_else(|| Error::corrupt(format!("the shape {shape:?} is larger than any file")))
    };
    let is_record = variable.max_shape.first() == Some(&None);
    let (pieces, stride, shape) = match (variable.shape.as_slice(), place.strides.as_slice()) {
        ([records, rest @ ..], [stride, ..]) if is_record && *stride != bytes(rest)? => {
            (*records, *stride, [&[1], rest].concat())
        }
        (whole, _) => (1, 0, whole.to_vec()),
    };
    let length = bytes(&shape)?;
    if length == 0 {
        return Ok(Vec::new());
    }
    let shape: Arc<[u64]> = shape.into();
    Ok((0..pieces)
        .map_while(|number| {
            let offset = number.checked_mul(stride)?.checked_add(place.begin)?;
            offset.checked_add(length).filter(|&end| end <= file_len)?;
            Some(Extent { offset, length, shape: Arc::clone(&shape), filters: Arc::default() })
        })
        .collect())
}
