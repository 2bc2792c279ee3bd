//! Chunks that a program writes as they are stored, into a file that was packed while it ran. The program made the dataset without
//! filters, and does not know of those that it has now: what it writes are values.

use std::ffi::{c_int, c_void};

use knarr_capture::is_packed;
use knarr_captured::matched;

use super::{hyperslab, select};
use crate::host::{CallerHdf5, Herr, Hid};
use crate::property_lists::{Close, Owned, extents, file_name};

/// The arguments of `H5Dwrite_chunk`.
pub(crate) struct RawChunk {
    pub(crate) dataset: Hid,
    pub(crate) mask: u32,
    pub(crate) offset: *const u64,
    pub(crate) size: usize,
    pub(crate) bytes: *const c_void,
}

const MOST_AXES: usize = 32;
const DEFAULT_LIST: Hid = 0;

impl RawChunk {
    /// Writes the values through the filters of the dataset. `None` if HDF5 is to store the bytes as they are.
    ///
    /// # Safety
    /// The arguments are those of `H5Dwrite_chunk`.
    pub(crate) unsafe fn write(&self, host: &CallerHdf5) -> Option<Herr> {
        if self.mask != 0 || self.offset.is_null() || self.bytes.is_null() || knarr_capture::program::run().is_none() {
            return None;
        }
        host.quietly(|host| {
            let wanted = matched(&file_name(host, self.dataset)?, None)?;
            if !is_packed(&wanted.spool.directory, &wanted.target) {
                return None;
            }
            // SAFETY: the dataset is the program's own, here and below; what is made is closed when dropped.
            let list = Owned::new(host, unsafe { host.creation_of?(self.dataset) }, Close::List)?;
            // SAFETY: as above.
            let datatype = Owned::new(host, unsafe { host.type_of?(self.dataset) }, Close::Reference)?;
            // SAFETY: as above.
            let space = Owned::new(host, unsafe { host.space_of?(self.dataset) }, Close::Reference)?;
            let shape = extents(host, space.id)?;
            let mut chunk = [0u64; MOST_AXES];
            let most = c_int::try_from(MOST_AXES).ok()?;
            // SAFETY: the list is ours, and there is room for as many axes as are said.
            let (filters, axes) =
                unsafe { (host.filter_count?(list.id), host.chunk?(list.id, most, chunk.as_mut_ptr())) };
            let chunk = chunk.get(..usize::try_from(axes).ok()?).filter(|chunk| chunk.len() == shape.len())?;
            // SAFETY: the type is open.
            let element = u64::try_from(unsafe { host.type_size?(datatype.id) }).ok()?;
            let values = chunk.iter().try_fold(element, |bytes, axis| bytes.checked_mul(*axis))?;
            // What its filters have made has another size.
            if filters <= 0 || u64::try_from(self.size) != Ok(values) {
                return None;
            }
            // SAFETY: an offset has a number for each axis.
            let offset = unsafe { std::slice::from_raw_parts(self.offset, shape.len()) };
            let left = shape.iter().zip(offset).map(|(extent, at)| extent.checked_sub(*at));
            let count: Option<Vec<u64>> = left.zip(chunk).map(|(left, axis)| Some(left?.min(*axis))).collect();
            let (count, zeros, ones) = (count?, vec![0; shape.len()], vec![1; shape.len()]);
            let memory = select(host, chunk, (&zeros, &ones, &count))??;
            hyperslab(host, space.id, (offset, &ones, &count))?;
            // SAFETY: there are as many values as the chunk has.
            Some(unsafe { host.write?(self.dataset, datatype.id, memory.id, space.id, DEFAULT_LIST, self.bytes) })
        })
        .flatten()
    }
}
