//! Copies the values of datasets that are not encoded anew: chunks as they are, other values unchanged.

use crate::read::chunks::ChunkTable;
use crate::read::external_files::with_external_files;
use crate::read::source::Hdf5Source;
use crate::sys::{Address, Dataset, DatasetLayout, Extent, References};
use crate::text::explain::{WITHOUT_SZIP, explain_read};
use crate::text::filters::{SZIP, filter_title};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::{Region, chunk_region};
use knarr_flow::store::Source;

/// Most bytes of values held at once.
const PIECE: u64 = 8 << 20;

/// Called with one region after another.
type EachRegion<'a> = dyn FnMut(&Region) -> Result<()> + 'a;

/// Copies all values of the dataset at `address` of `source`, where it has this path.
pub(crate) fn copy_values(
    source: &Hdf5Source,
    address: Address,
    path: &[u8],
    target: &Dataset,
    references: &dyn References,
) -> Result<()> {
    let dataset = source.file().object_at(address)?.into_dataset()?;
    let dataset = with_external_files(source.file(), source.path(), dataset, path)?;
    let extent = dataset.space()?.extent()?;
    let shape = match &extent {
        Extent::Null => return Ok(()),
        Extent::Scalar => Vec::new(),
        Extent::Simple { shape, .. } => shape.clone(),
    };
    let datatype = dataset.datatype()?;
    if let Some(variable) = source.variable_apart(address) {
        return copy_apart(source, variable, &shape, target);
    }
    let has_pointers = datatype.indirections()? != (false, false);
    let size = datatype.size()? as u64;
    let creation = dataset.0.creation()?;
    match creation.layout()? {
        // Only the mapping is stored here, and it was copied with the properties.
        DatasetLayout::Virtual => Ok(()),
        // As are the names of the files, if they were: the values are there already.
        DatasetLayout::External if target.0.creation()?.layout()? == DatasetLayout::External => Ok(()),
        DatasetLayout::Chunked(chunk) => {
            let filters = creation.filters()?;
            let table = ChunkTable::read(&dataset, &shape, &chunk, 0, source.raw_len())?;
            let edges_unfiltered = creation.edge_chunks_unfiltered()?;
            let all = u32::MAX.checked_shr(32u32.saturating_sub(u32::try_from(filters.len()).unwrap_or(32)));
            if table.len() > 0 && filters.iter().any(|filter| filter.id == SZIP) {
                let why = format!("{} is not written, and its values are only copied", filter_title(SZIP));
                return Err(Error::new(ErrorKind::MissingFilter, why).hint(WITHOUT_SZIP));
            }
            let mut bytes = Vec::new();
            for (position, stored) in table.stored() {
                let region = chunk_region(&shape, &chunk, &position);
                if has_pointers {
                    copy_pointers(&dataset, target, &region, references)
                        .map_err(|error| explain_read(error, &filters))?;
                    continue;
                }
                bytes.resize(usize::try_from(stored.size).unwrap_or(usize::MAX), 0);
                source.read_raw(stored.address, &mut bytes)?;
                let mask =
                    if edges_unfiltered && region.count != chunk { all.unwrap_or(0) } else { stored.filter_mask };
                target.write_chunk(&region.start, mask, &bytes)?;
            }
            Ok(())
        }
        DatasetLayout::Contiguous if dataset.offset().is_none() && !has_pointers => Ok(()),
        DatasetLayout::Contiguous | DatasetLayout::Compact | DatasetLayout::External => {
            if dataset.storage_size() == 0 {
                return Ok(());
            }
            each_piece(&shape, size, &mut |region| {
                if has_pointers {
                    return copy_pointers(&dataset, target, region, references);
                }
                let bytes = region.volume().unwrap_or(0).saturating_mul(size);
                let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
                dataset.read_bytes(region, &mut buffer).map_err(|error| explain_read(error, &[]))?;
                target.write_bytes(region, &buffer)
            })
        }
    }
}

/// Copies the values of a variable that come beside the file.
fn copy_apart(source: &Hdf5Source, variable: usize, shape: &[u64], target: &Dataset) -> Result<()> {
    let size = source.model().variable(variable)?.dtype.size() as u64;
    let mut values = Vec::new();
    each_piece(shape, size, &mut |region| {
        if !source.is_written(variable, region) {
            return Ok(());
        }
        source.read_region(variable, region, &mut values)?;
        target.write_bytes(region, &values)
    })
}

fn copy_pointers(from: &Dataset, to: &Dataset, region: &Region, references: &dyn References) -> Result<()> {
    let mut memory = from.read_memory(region)?;
    memory.translate(references)?;
    to.write_memory(region, &memory)
}

/// Cuts an array of this shape, with elements of `size` bytes, into regions of at most [`PIECE`] bytes, or single elements, in row-major order.
pub(crate) fn each_piece(shape: &[u64], size: u64, f: &mut EachRegion<'_>) -> Result<()> {
    if shape.contains(&0) {
        return Ok(());
    }
    // Axes before `split` are walked one by one, axes after it are taken whole.
    let mut split = shape.len();
    let mut inner = size;
    while split > 0 && inner.saturating_mul(shape[split - 1]) <= PIECE {
        inner *= shape[split - 1];
        split -= 1;
    }
    let step = if split == 0 { 1 } else { (PIECE / inner.max(1)).clamp(1, shape[split - 1]) };
    let mut region = Region::whole(shape);
    region.count[..split].fill(1);
    loop {
        if split > 0 {
            region.count[split - 1] = step.min(shape[split - 1] - region.start[split - 1]);
        }
        f(&region)?;
        let mut axis = split;
        loop {
            if axis == 0 {
                return Ok(());
            }
            axis -= 1;
            region.start[axis] += if axis + 1 == split { step } else { 1 };
            if region.start[axis] < shape[axis] {
                break;
            }
            region.start[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::region::volume;

    #[test]
    fn pieces_cover_the_array_once() {
        for shape in [&[][..], &[3], &[5, 1 << 20, 3], &[2, 3, 1 << 21]] {
            let mut elements = 0;
            each_piece(shape, 8, &mut |region| {
                let piece = region.volume().unwrap();
                assert!(piece * 8 <= PIECE);
                elements += piece;
                Ok(())
            })
            .unwrap();
            assert_eq!(elements, volume(shape).unwrap(), "{shape:?}");
        }
    }
}
