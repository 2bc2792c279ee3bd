//! Where the values of each dataset lie in the bytes of the file, for checkpoints.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::model::scan::{check_chunk, element, is_marked_netcdf};
use crate::model::walk::{Visitor, shown_path, walk};
use crate::read::chunks::{ChunkTable, StoredChunk};
use crate::sys::{Address, Class, Dataset, DatasetLayout, Datatype, Extent as Space, File, Group, locked};
use crate::text::element::text;
use knarr_array::array::{DType, Endian};
use knarr_array::error::{Error, Result};
use knarr_array::filter::Hdf5Filter;
use knarr_array::region::{chunk_region, volume};
use knarr_checkpoint::layout::{Extent, FileLayout, StoredVariable};

/// The layout of the HDF5 or netCDF-4 file at `path`. HDF5's lock is not taken: a program may open the file for writing
/// meanwhile, so who uses the layout checks afterwards that the file has not changed.
///
/// Left to the skeleton are datasets without bytes of their own (compact, external, virtual, never written), those that
/// are damaged, and those that hold no values but references into a heap.
///
/// # Errors
/// `Read` or `NotFound` if it cannot be read; what HDF5 reports if it is damaged.
pub(crate) fn layout(path: &Path) -> Result<FileLayout> {
    let length = std::fs::metadata(path).map_err(|error| Error::read(path, &error))?.len();
    locked(|| {
        let file = File::open(path, false)?;
        let mut finder = Finder { length, variables: Vec::new(), known: HashMap::new(), is_netcdf: false };
        walk(&file, &mut finder)?;
        let format = if finder.is_netcdf { "netCDF-4" } else { "HDF5" };
        Ok(FileLayout { format: format.to_owned(), length, variables: with_own_paths(finder.variables) })
    })
}

/// A netCDF variable and the dimension beside it may be shown under one name: both keep that which is stored.
fn with_own_paths(mut variables: Vec<(Vec<u8>, StoredVariable)>) -> Vec<StoredVariable> {
    let mut uses: HashMap<String, usize> = HashMap::new();
    variables.iter().for_each(|(_, variable)| *uses.entry(variable.path.clone()).or_default() += 1);
    for (stored, variable) in &mut variables {
        if uses.get(&variable.path).is_some_and(|&uses| uses > 1) {
            variable.path = text(stored);
        }
    }
    variables.into_iter().map(|(_, variable)| variable).collect()
}

struct Finder {
    length: u64,
    /// With their paths as stored.
    variables: Vec<(Vec<u8>, StoredVariable)>,
    /// Places of datasets in `variables`.
    known: HashMap<Address, usize>,
    is_netcdf: bool,
}

impl Visitor for Finder {
    fn group(&mut self, path: &[u8], group: &Group) -> Result<()> {
        self.is_netcdf |= path == b"/" && is_marked_netcdf(group)?;
        Ok(())
    }

    fn dataset(&mut self, _group: usize, path: &[u8], address: Address, dataset: &Dataset) -> Result<()> {
        self.is_netcdf = self.is_netcdf || dataset.0.attribute(b"_Netcdf4Dimid")?.is_some();
        // The skeleton carries what cannot be told apart.
        if let Ok(Some(variable)) = stored_variable(path, dataset, self.length) {
            self.known.insert(address, self.variables.len());
            self.variables.push((path.to_vec(), variable));
        }
        Ok(())
    }

    /// Of several names the first in the alphabet counts, whichever was linked first: it is the same for all ranks.
    fn again(&mut self, path: &[u8], address: Address, _first: &[u8]) {
        let variable = self.known.get(&address).and_then(|&index| self.variables.get_mut(index));
        if let Some((stored, variable)) = variable {
            let name = shown_path(path);
            if name < variable.path {
                variable.path = name;
                *stored = path.to_vec();
            }
        }
    }
}

/// What is known of a dataset before its pieces are.
struct Kind {
    dtype: DType,
    endian: Endian,
    /// Axes of the dataset.
    shape: Vec<u64>,
    /// Axes inside its elements: complex numbers, vectors and matrices are numbers to codecs.
    inner: Vec<u64>,
    file_len: u64,
}

/// `None` if the dataset has no bytes of its own.
fn stored_variable(path: &[u8], dataset: &Dataset, file_len: u64) -> Result<Option<StoredVariable>> {
    let shape = match dataset.space()?.extent()? {
        Space::Simple { shape, .. } => shape,
        Space::Scalar => Vec::new(),
        Space::Null => return Ok(None),
    };
    let datatype = dataset.datatype()?;
    let (dtype, endian, pointers) = element(&datatype)?;
    if pointers.is_some() {
        // Nor is more asked of them: from a damaged heap the library does not come back.
        return Ok(None);
    }
    let mut kind = Kind { dtype, endian, shape, inner: Vec::new(), file_len };
    if let Some((dtype, endian, count)) = numbers(&datatype)? {
        (kind.dtype, kind.endian) = (dtype, endian);
        kind.inner.extend(Some(count).filter(|&count| count > 1));
    }
    // Its properties take the library longer than everything else about a small dataset, and only chunks need them.
    let extents = match dataset.offset() {
        Some(offset) => run(offset, dataset.storage_size(), &kind),
        None => chunks(dataset, &kind)?,
    };
    if extents.is_empty() {
        return Ok(None);
    }
    let dtype = kind.dtype;
    let elements = |extent: &Extent| volume(&extent.shape).and_then(|len| len.checked_mul(dtype.size() as u64));
    if extents.iter().any(|extent| extent.filters.is_empty() && elements(extent) != Some(extent.length)) {
        return Err(Error::corrupt("its bytes do not have the length of its elements"));
    }
    let shape = [kind.shape, kind.inner].concat();
    Ok(Some(StoredVariable { path: shown_path(path), dtype, endian: kind.endian, shape, extents }))
}

/// The numbers that an element consists of, and how many, if all are of one type and nothing lies between them.
fn numbers(datatype: &Datatype) -> Result<Option<(DType, Endian, u64)>> {
    let size = datatype.size()? as u64;
    let number = match datatype.class()? {
        Class::Integer | Class::Float => datatype.number()?,
        Class::Enum => datatype.base()?.number()?,
        Class::Array | Class::Complex => numbers(&datatype.base()?)?.map(|(dtype, endian, _)| (dtype, endian)),
        Class::Compound => {
            let (mut common, mut end) = (None, 0);
            for (offset, member) in datatype.members()? {
                let Some((dtype, endian, count)) = numbers(&member)? else { return Ok(None) };
                if offset as u64 != end || common.is_some_and(|known| known != (dtype, endian)) {
                    return Ok(None);
                }
                common = Some((dtype, endian));
                end += count * dtype.size() as u64;
            }
            common.filter(|_| end == size)
        }
        _ => None,
    };
    Ok(number.map(|(dtype, endian)| (dtype, endian, size / dtype.size() as u64)))
}

/// The one piece of a contiguous dataset; none if it ends outside the file.
fn run(offset: u64, length: u64, kind: &Kind) -> Vec<Extent> {
    let is_inside = offset.checked_add(length).is_some_and(|end| end <= kind.file_len);
    let shape = [kind.shape.as_slice(), &kind.inner].concat().into();
    is_inside.then_some(Extent { offset, length, shape, filters: Arc::default() }).into_iter().collect()
}

/// The stored chunks, in the order of their first elements; none if it has no chunks.
fn chunks(dataset: &Dataset, kind: &Kind) -> Result<Vec<Extent>> {
    let creation = dataset.0.creation()?;
    let DatasetLayout::Chunked(chunk) = creation.layout()? else { return Ok(Vec::new()) };
    let chunk = chunk.as_slice();
    check_chunk(chunk, &kind.shape)?;
    let filters = creation.filters()?;
    let edges_unfiltered = creation.edge_chunks_unfiltered()?;
    let table = ChunkTable::read(dataset, &kind.shape, chunk, 0, kind.file_len)?;
    let chunk_shape: Arc<[u64]> = [chunk, &kind.inner].concat().into();
    let mut pipelines: HashMap<u32, Arc<[Hdf5Filter]>> = HashMap::new();
    let mut extent = |position: &[u64], StoredChunk { address, size, filter_mask }: StoredChunk| {
        let is_bare = edges_unfiltered && chunk_region(&kind.shape, chunk, position).count != chunk;
        let left_out = if is_bare { u32::MAX } else { filter_mask };
        let applied = pipelines.entry(left_out).or_insert_with(|| {
            let bit = |number: usize| u32::try_from(number).ok().and_then(|number| 1u32.checked_shl(number));
            let applied = filters.iter().enumerate().filter(|(number, _)| left_out & bit(*number).unwrap_or(0) == 0);
            applied.map(|(_, filter)| filter.clone()).collect()
        });
        Extent { offset: address, length: size, shape: Arc::clone(&chunk_shape), filters: Arc::clone(applied) }
    };
    let stored = table.stored().filter(|(_, stored)| stored.size > 0);
    Ok(stored.map(|(position, stored)| extent(&position, stored)).collect())
}
