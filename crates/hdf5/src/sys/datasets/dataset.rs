//! Datasets: regions, raw chunks, where they lie.

use std::os::raw::{c_int, c_uint, c_void};

use hdf5_metno_sys::h5::{HADDR_UNDEF, haddr_t, hsize_t};
use hdf5_metno_sys::h5d::{
    H5Dchunk_iter, H5Dcreate2, H5Dget_chunk_index_type, H5Dget_offset, H5Dget_space, H5Dget_storage_size, H5Dget_type,
    H5Dread, H5Dwrite, H5Dwrite_chunk,
};
use hdf5_metno_sys::h5p::H5P_DEFAULT;

use crate::sys::datasets::extensible::Correction;
use crate::sys::drivers::reserving::left_out;
use crate::sys::{DatasetLayout, Datatype, Extent, Group, Memory, Object, Plist, Space, c_string, call, locked, made};
use knarr_array::error::{Error, Result};
use knarr_array::region::Region;

/// An open dataset.
#[derive(Debug)]
pub(crate) struct Dataset(pub(crate) Object);

/// Where a stored chunk lies.
#[derive(Debug)]
pub(crate) struct ChunkRecord<'a> {
    /// Element offset of its first element.
    pub(crate) offset: &'a [u64],
    pub(crate) filter_mask: u32,
    /// As the library reports it.
    pub(crate) address: u64,
    pub(crate) size: u64,
}

/// `H5D_CHUNK_IDX_EARRAY` of `H5Dpublic.h`.
const EXTENSIBLE_ARRAY: c_uint = 4;

struct Visitor<'a> {
    rank: usize,
    correction: Option<Correction>,
    f: &'a mut dyn FnMut(ChunkRecord<'_>) -> Result<()>,
    outcome: Result<()>,
}

unsafe extern "C" fn visit(
    offset: *const hsize_t,
    filter_mask: c_uint,
    address: haddr_t,
    size: hsize_t,
    data: *mut c_void,
) -> c_int {
    // SAFETY: `data` is the visitor that `Dataset::chunks` lends; `offset` holds one number per dimension.
    let (visitor, offset) = unsafe {
        let visitor = &mut *data.cast::<Visitor<'_>>();
        let offset = std::slice::from_raw_parts(offset, visitor.rank);
        (visitor, offset)
    };
    let place = match &mut visitor.correction {
        Some(correction) => correction.apply(offset),
        None => Some(offset),
    };
    visitor.outcome = match place {
        Some(offset) => (visitor.f)(ChunkRecord { offset, filter_mask, address, size }),
        None => Err(Error::corrupt("a chunk lies beyond all dimensions")),
    };
    c_int::from(visitor.outcome.is_err())
}

impl Group {
    /// Creates a dataset here.
    pub(crate) fn create_dataset(
        &self,
        name: &[u8],
        datatype: &Datatype,
        space: &Space,
        lcpl: &Plist,
        dcpl: &Plist,
    ) -> Result<Dataset> {
        let name = c_string(name)?;
        // SAFETY: all handles are open and outlive the call, as does the name.
        made("create a dataset", || unsafe {
            H5Dcreate2(
                self.0.0.raw(),
                name.as_ptr(),
                datatype.0.raw(),
                space.0.raw(),
                lcpl.0.raw(),
                dcpl.0.raw(),
                H5P_DEFAULT,
            )
        })
        .map(|id| Dataset(Object(id)))
        .map_err(|error| match error.message().contains("version out of bounds") {
            true => {
                Error::unsupported(format!("a newer release of HDF5 than is allowed is needed ({})", error.message()))
                    .hint("allow a newer one with high, or leave it out")
            }
            false => error,
        })
    }
}

impl Dataset {
    /// Type of an element.
    pub(crate) fn datatype(&self) -> Result<Datatype> {
        // SAFETY: the dataset is open.
        made("read a dataset's type", || unsafe { H5Dget_type(self.0.0.raw()) }).map(Datatype)
    }

    /// Shape.
    pub(crate) fn space(&self) -> Result<Space> {
        // SAFETY: the dataset is open.
        made("read a dataset's shape", || unsafe { H5Dget_space(self.0.0.raw()) }).map(Space)
    }

    /// Bytes that the values take in the file.
    pub(crate) fn storage_size(&self) -> u64 {
        // SAFETY: the dataset is open.
        locked(|| unsafe { H5Dget_storage_size(self.0.0.raw()) })
    }

    /// Where a contiguous dataset starts in the file; `None` if nothing was written.
    pub(crate) fn offset(&self) -> Option<u64> {
        // SAFETY: the dataset is open.
        let offset = locked(|| unsafe { H5Dget_offset(self.0.0.raw()) });
        // With a user block, the library adds its length even to the address that means 'nowhere'.
        (offset != HADDR_UNDEF && self.storage_size() > 0).then_some(offset)
    }

    /// Calls `f` for each stored chunk.
    pub(crate) fn chunks(&self, rank: usize, f: &mut dyn FnMut(ChunkRecord<'_>) -> Result<()>) -> Result<()> {
        let mut visitor = Visitor { rank, correction: self.correction()?, f, outcome: Ok(()) };
        // SAFETY: the callback only touches `visitor`, which outlives the call.
        call("read the chunk index", || unsafe {
            H5Dchunk_iter(self.0.0.raw(), H5P_DEFAULT, Some(visit), std::ptr::from_mut(&mut visitor).cast())
        })?;
        visitor.outcome
    }

    fn correction(&self) -> Result<Option<Correction>> {
        let mut index: c_uint = 0;
        // SAFETY: the dataset is open, and `index` outlives the call.
        call("read the kind of a chunk index", || unsafe { H5Dget_chunk_index_type(self.0.0.raw(), &raw mut index) })?;
        if index != EXTENSIBLE_ARRAY {
            return Ok(None);
        }
        let (DatasetLayout::Chunked(chunk), Extent::Simple { max, .. }) =
            (self.0.creation()?.layout()?, self.space()?.extent()?)
        else {
            return Ok(None);
        };
        Ok(Correction::of(&chunk, &max))
    }

    /// Reads a region in stored form into `out`, which must have its exact length.
    pub(crate) fn read_bytes(&self, region: &Region, out: &mut [u8]) -> Result<()> {
        locked(|| {
            let datatype = self.datatype()?;
            if datatype.indirections()? != (false, false) {
                return Err(Error::internal("values with pointers were asked for as bytes"));
            }
            let size = datatype.size()? as u64;
            let len = region.volume().and_then(|elements| elements.checked_mul(size));
            if len != Some(out.len() as u64) {
                return Err(Error::internal("a region does not fit its buffer"));
            }
            if out.is_empty() {
                return Ok(());
            }
            let (memory, file) = self.selections(region)?;
            // SAFETY: `out` holds exactly the selected elements of a type without pointers, checked above.
            call("read values", || unsafe {
                H5Dread(
                    self.0.0.raw(),
                    datatype.0.raw(),
                    memory.0.raw(),
                    file.0.raw(),
                    H5P_DEFAULT,
                    out.as_mut_ptr().cast(),
                )
            })
            .map(|_| ())
        })
    }

    /// Writes a region in stored form.
    pub(crate) fn write_bytes(&self, region: &Region, bytes: &[u8]) -> Result<()> {
        locked(|| {
            let datatype = self.datatype()?;
            if datatype.indirections()? != (false, false) {
                return Err(Error::internal("values with pointers were given as bytes"));
            }
            let size = datatype.size()? as u64;
            let len = region.volume().and_then(|elements| elements.checked_mul(size));
            if len != Some(bytes.len() as u64) {
                return Err(Error::internal("a region does not fit its buffer"));
            }
            if bytes.is_empty() {
                return Ok(());
            }
            let (memory, file) = self.selections(region)?;
            // SAFETY: `bytes` holds exactly the selected elements of a type without pointers, checked above.
            call("write values", || unsafe {
                H5Dwrite(
                    self.0.0.raw(),
                    datatype.0.raw(),
                    memory.0.raw(),
                    file.0.raw(),
                    H5P_DEFAULT,
                    bytes.as_ptr().cast(),
                )
            })
            .map(|_| ())
        })
    }

    /// A space in memory of the region's shape, and the region in the dataset's.
    fn selections(&self, region: &Region) -> Result<(Space, Space)> {
        let count = &region.count;
        let memory = if count.is_empty() { Space::scalar()? } else { Space::simple(count, &[])? };
        Ok((memory, self.space()?.select(region)?))
    }

    /// Reads a region of values that may hold pointers.
    pub(crate) fn read_memory(&self, region: &Region) -> Result<Memory> {
        locked(|| {
            let (space, file) = self.selections(region)?;
            let mut memory = Memory::new(self.datatype()?, space)?;
            if memory.bytes().is_empty() {
                return Ok(memory);
            }
            // SAFETY: the buffer holds exactly the selected elements in the given memory type.
            call("read values", || unsafe {
                H5Dread(
                    self.0.0.raw(),
                    memory.datatype().0.raw(),
                    memory.space().0.raw(),
                    file.0.raw(),
                    H5P_DEFAULT,
                    memory.as_mut_ptr(),
                )
            })?;
            memory.filled();
            Ok(memory)
        })
    }

    /// Writes a region of values that may hold pointers.
    pub(crate) fn write_memory(&self, region: &Region, memory: &Memory) -> Result<()> {
        if memory.bytes().is_empty() {
            return Ok(());
        }
        locked(|| {
            let file = self.space()?.select(region)?;
            // SAFETY: the buffer holds the elements of its own space, which has the shape of the region.
            call("write values", || unsafe {
                H5Dwrite(
                    self.0.0.raw(),
                    memory.datatype().0.raw(),
                    memory.space().0.raw(),
                    file.0.raw(),
                    H5P_DEFAULT,
                    memory.bytes().as_ptr().cast(),
                )
            })
            .map(|_| ())
        })
    }

    /// Writes one chunk as it is.
    pub(crate) fn write_chunk(&self, offset: &[u64], filter_mask: u32, bytes: &[u8]) -> Result<()> {
        // SAFETY: the library reads one offset per dimension, which callers pass, and `bytes.len()` bytes.
        call("write a chunk", || unsafe {
            H5Dwrite_chunk(
                self.0.0.raw(),
                H5P_DEFAULT,
                filter_mask,
                offset.as_ptr(),
                bytes.len(),
                bytes.as_ptr().cast(),
            )
        })
        .map(|_| ())
    }

    /// Gives one chunk its place as [`Dataset::write_chunk`] does, and leaves its bytes out. Returns the byte of the file at which
    /// they belong. The file is one of [`File::create`](crate::sys::File::create).
    pub(crate) fn allot_chunk(&self, offset: &[u64], filter_mask: u32, length: u64) -> Result<u64> {
        let length = usize::try_from(length).map_err(|_| Error::internal("a chunk that is too long"))?;
        // What is left out is not looked at.
        let bytes = vec![0; length];
        locked(|| left_out(&bytes, |bytes| self.write_chunk(offset, filter_mask, bytes)))
    }

    /// Closes and reports what dropping cannot.
    pub(crate) fn close(self) -> Result<()> {
        self.0.0.close("close a dataset")
    }
}
