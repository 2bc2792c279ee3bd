//! Chunks that a program writes itself, to datasets that were given filters.
//!
//! The program believes that they need no encoding. HDF5 encodes those that it can be given as values; others are
//! stored as skipping the filters that the program does not know of.

use std::ffi::c_void;

use crate::given;
use crate::host::{Hid, Host};
use crate::lists::{Close, Owned, chunk_shape, extents};
use crate::region::Region;

/// Arguments of `H5Dwrite_chunk`.
pub(crate) struct Chunk {
    pub(crate) dataset: Hid,
    pub(crate) offset: *const u64,
    pub(crate) size: usize,
    pub(crate) bytes: *const c_void,
}

impl Chunk {
    /// The mask that skips filters which the program does not know of; `None` if the dataset was given none.
    pub(crate) fn given(&self, host: &Host) -> Option<u32> {
        let filters = host.quietly(|host| given::of(host, self.dataset)).flatten()?;
        Some(1u32.checked_shl(filters).map_or(u32::MAX, |bit| bit - 1))
    }

    /// Writes the chunk's values. `false` if it is no chunk of values, and nothing was written.
    pub(crate) fn run(&self, host: &Host) -> bool {
        !self.offset.is_null() && !self.bytes.is_null() && host.quietly(|host| self.attempt(host)).flatten().is_some()
    }

    fn attempt(&self, host: &Host) -> Option<()> {
        // SAFETY: the dataset is the program's own, here and below; what is made is closed when dropped.
        let space = Owned::new(host, unsafe { host.space_of?(self.dataset) }, Close::Reference)?;
        // SAFETY: as above.
        let list = Owned::new(host, unsafe { host.creation_of?(self.dataset) }, Close::List)?;
        // SAFETY: as above.
        let datatype = Owned::new(host, unsafe { host.type_of?(self.dataset) }, Close::Reference)?;
        let (shape, _) = extents(host, space.id).ok()?;
        let chunk = chunk_shape(host, list.id, shape.len())?;
        // SAFETY: the type is open.
        let size = u64::try_from(unsafe { host.type_size?(datatype.id) }).ok()?;
        let bytes = chunk.iter().try_fold(size, |bytes, &extent| bytes.checked_mul(extent))?;
        // SAFETY: HDF5 wants an extent for each axis.
        let offset = unsafe { std::slice::from_raw_parts(self.offset, shape.len()) };
        if u64::try_from(self.size) != Ok(bytes) || offset.iter().zip(&chunk).any(|(at, extent)| at % extent != 0) {
            return None;
        }
        let left = shape.iter().zip(offset).map(|(extent, at)| extent.checked_sub(*at).filter(|&left| left > 0));
        let count: Vec<u64> = left.zip(&chunk).map(|(left, extent)| Some(left?.min(*extent))).collect::<Option<_>>()?;
        let region = Region { start: offset, count: &count, shape: &chunk, place: &vec![0; chunk.len()] };
        // SAFETY: there are as many bytes as the chunk has.
        unsafe { region.write(host, self.dataset, self.bytes) }
    }
}
