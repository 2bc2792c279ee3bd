//! Values that the caller does not encode: scalars, empty and other small variables, written without a codec.

use knarr_array::array::Endian;
use knarr_array::model::Variable;
use knarr_array::region::{chunk_count, chunk_position, chunk_region};
use knarr_array::{Error, Result};
use knarr_flow::store::{EncodedChunk, Encoding, Sink, Source, Storage};
use serde_json::json;

/// Most bytes of one chunk.
const CHUNK_BYTES: u64 = 4 << 20;

/// Storage of variable `index` as plain bytes.
pub(in crate::zarr) fn storage(index: usize, variable: &Variable) -> Storage {
    let size = variable.dtype.size() as u64;
    let bytes = match (variable.dtype.size(), variable.endian) {
        (0 | 1, _) => json!({"name": "bytes"}),
        (_, Endian::Little) => json!({"name": "bytes", "configuration": {"endian": "little"}}),
        (_, Endian::Big) => json!({"name": "bytes", "configuration": {"endian": "big"}}),
    };
    let chunk = chunk(&variable.shape, size);
    Storage { variable: index, chunk, encoding: Encoding::Zarr(vec![bytes]) }
}

/// Chunks of an array with elements of about `size` bytes. They are cut along one axis only, the outermost that has to
/// be: the last chunk is then the beginning of a full one.
pub(in crate::zarr) fn chunk(shape: &[u64], size: u64) -> Vec<u64> {
    let mut chunk: Vec<u64> = shape.iter().map(|&n| n.max(1)).collect();
    for axis in 0..chunk.len() {
        let row = chunk[axis + 1..].iter().fold(size, |bytes, &n| bytes.saturating_mul(n));
        chunk[axis] = chunk[axis].min((CHUNK_BYTES / row.max(1)).max(1));
        if row <= CHUNK_BYTES {
            break;
        }
    }
    chunk
}

/// Reads all values of a variable and puts them as plain chunks.
pub(in crate::zarr) fn copy_values(
    sink: &mut dyn Sink,
    source: &dyn Source,
    variable: &Variable,
    storage: &Storage,
) -> Result<()> {
    let full = storage.chunk.iter().fold(variable.dtype.size() as u64, |bytes, &n| bytes.saturating_mul(n));
    let full = usize::try_from(full).map_err(|_| Error::internal("a plain chunk is too large"))?;
    let padding = variable.padding_bytes();
    let mut bytes = Vec::new();
    for number in 0..chunk_count(&variable.shape, &storage.chunk) {
        let position = chunk_position(&variable.shape, &storage.chunk, number);
        let region = chunk_region(&variable.shape, &storage.chunk, &position);
        if !source.is_written(storage.variable, &region) {
            continue;
        }
        source.read_region(storage.variable, &region, &mut bytes)?;
        while bytes.len() < full {
            bytes.extend_from_slice(&padding);
        }
        sink.put(EncodedChunk { variable: storage.variable, position: &position, bytes: &bytes, filter_mask: 0 })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;

    #[test]
    fn chunks_are_cut_along_one_axis() {
        let chunk = |shape: &[u64]| {
            let variable = Variable::plain("/T", DType::F32, shape.to_vec());
            storage(0, &variable).chunk
        };
        assert_eq!(chunk(&[]), [0u64; 0]);
        assert_eq!(chunk(&[0, 5]), [1, 5]);
        assert_eq!(chunk(&[3, 5]), [3, 5]);
        assert_eq!(chunk(&[100, 1 << 18]), [4, 1 << 18]);
        assert_eq!(chunk(&[100, 3, 1 << 22]), [1, 1, 1 << 20]);
        assert_eq!(chunk(&[100, 8, 1 << 18]), [1, 4, 1 << 18]);
    }
}
