//! Content of files apart from how it is stored: hashes and comparison.

mod compare;
mod hash;
mod metadata;

pub use compare::{Difference, VariableComparison, Verified, compare, verify};
pub use hash::{FileHash, VariableHash, hash};
pub use metadata::{MetadataDifference, compare_metadata};

use crate::bands::Bands;
use crate::settings::{ChunkRule, chunk_shape};
use crate::store::Source;
use knarr_array::array::{DType, Endian, swap_bytes};
use knarr_array::error::{Error, Result};
use knarr_array::model::Variable;
use knarr_array::region::{Region, chunk_count};

/// Blocks of a variable: whole trailing dimensions, about 1 MiB, contiguous in row-major order, and dependent on
/// its type and shape only, never on its chunks.
fn blocks(variable: &Variable) -> Result<(Vec<u64>, u64)> {
    if variable.is_empty() {
        return Ok((variable.shape.clone(), 0));
    }
    let plain = Variable { layout: knarr_array::model::StorageLayout::Contiguous, ..variable.clone() };
    let block = chunk_shape(&ChunkRule::Auto, &plain)?;
    let count = chunk_count(&variable.shape, &block);
    Ok((block, count))
}

/// An error with variable and file, each once.
fn placed(error: Error, source: &dyn Source, variable: &Variable) -> Error {
    error.at_variable_once(variable.name()).at_once(&source.path().display().to_string())
}

/// Reads one block with its elements in little-endian order. Returns its shape.
fn read_block(bands: &Bands<'_>, number: u64, out: &mut Vec<u8>) -> Result<Vec<u64>> {
    let variable = bands.variable();
    let Region { count, .. } = bands.region(number);
    bands.read(number, out).map_err(|error| placed(error, bands.source(), variable))?;
    if variable.endian == Endian::Big && !matches!(variable.dtype, DType::Opaque(_)) {
        swap_bytes(out, variable.dtype.size());
    }
    Ok(count)
}
