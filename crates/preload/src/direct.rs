//! Chunks that a program writes itself, to datasets whose filters it does not know of.
//!
//! The program believes that they need no encoding. HDF5 encodes those that it can be given as values; others are
//! stored as skipping the filters that the program does not know of. A dataset may have come by such filters in other
//! ways than by its creation here: as a copy of one that was given them, in another process, or when its file was packed.
//! There the chunk itself tells: bytes of the chunk's own size that its filters do not decode are values.

use std::ffi::c_void;

use knarr_array::region::{Placed, Region};
use knarr_flow::online::Block;

use crate::given::{self, Gift};
use crate::host::{CallerHdf5, Hid};
use crate::library::library;
use crate::lists::{Close, Owned, chunk_shape, element, extents};
use crate::transfer::Transfer;
use crate::whole::filters;

/// Arguments of `H5Dwrite_chunk`.
pub(crate) struct Chunk {
    pub(crate) dataset: Hid,
    pub(crate) mask: u32,
    pub(crate) offset: *const u64,
    pub(crate) size: usize,
    pub(crate) bytes: *const c_void,
}

/// A chunk of a dataset.
pub(crate) struct Place {
    /// Shape of the chunk.
    chunk: Vec<u64>,
    /// What of it lies in the dataset.
    pub(crate) region: Region,
    /// Where it begins in itself.
    origin: Vec<u64>,
    /// Its size.
    pub(crate) bytes: u64,
}

impl Place {
    /// The chunk at `offset`; `None` if there is none. To be asked quietly.
    ///
    /// # Safety
    /// `offset` has an extent for each axis.
    pub(crate) unsafe fn at(host: &CallerHdf5, dataset: Hid, offset: *const u64) -> Option<Self> {
        if offset.is_null() {
            return None;
        }
        // SAFETY: the dataset is the program's own, here and below; what is made is closed when dropped.
        let space = Owned::new(host, unsafe { host.space_of?(dataset) }, Close::Reference)?;
        // SAFETY: as above.
        let list = Owned::new(host, unsafe { host.creation_of?(dataset) }, Close::List)?;
        // SAFETY: as above.
        let datatype = Owned::new(host, unsafe { host.type_of?(dataset) }, Close::Reference)?;
        let (shape, _) = extents(host, space.id).ok()?;
        let chunk = chunk_shape(host, list.id, shape.len())?;
        // SAFETY: the type is open.
        let size = u64::try_from(unsafe { host.type_size?(datatype.id) }).ok()?;
        let bytes = chunk.iter().try_fold(size, |bytes, &extent| bytes.checked_mul(extent))?;
        // SAFETY: the caller's promise.
        let offset = unsafe { std::slice::from_raw_parts(offset, shape.len()) }.to_vec();
        if offset.iter().zip(&chunk).any(|(at, extent)| at % extent != 0) {
            return None;
        }
        let left = shape.iter().zip(&offset).map(|(extent, at)| extent.checked_sub(*at).filter(|&left| left > 0));
        let count: Vec<u64> = left.zip(&chunk).map(|(left, extent)| Some(left?.min(*extent))).collect::<Option<_>>()?;
        let origin = vec![0; chunk.len()];
        Some(Self { chunk, region: Region { start: offset, count }, origin, bytes })
    }

    /// What of it lies in the dataset, in memory at the beginning of a whole chunk.
    pub(crate) fn transfer(&self) -> Transfer<'_> {
        Transfer { region: &self.region, memory: Placed { shape: &self.chunk, start: &self.origin } }
    }

    /// True if none of it lies beyond the edge of the dataset.
    pub(crate) fn is_whole(&self) -> bool {
        self.region.count == self.chunk
    }
}

impl Chunk {
    /// The mask that skips filters which the program does not know of; `None` if there are none.
    pub(crate) fn unknown_filters(&self, host: &CallerHdf5) -> Option<u32> {
        host.quietly(|host| {
            if given::any()
                && let Some(gift) = given::of(host, self.dataset)
            {
                return Some(gift.mask());
            }
            self.undecodable(host)
        })
        .flatten()
    }

    /// As above, where the chunk itself must tell.
    fn undecodable(&self, host: &CallerHdf5) -> Option<u32> {
        if self.mask != 0 || self.bytes.is_null() {
            return None;
        }
        // SAFETY: the dataset is the program's own; the list is closed when dropped.
        let list = Owned::new(host, unsafe { host.creation_of?(self.dataset) }, Close::List)?;
        let filters = filters(host, list.id).filter(|filters| !filters.is_empty())?;
        // SAFETY: HDF5 wants an extent for each axis.
        let place = unsafe { Place::at(host, self.dataset, self.offset)? };
        if u64::try_from(self.size) != Ok(place.bytes) {
            return None;
        }
        // SAFETY: as above; the type is closed when dropped.
        let datatype = Owned::new(host, unsafe { host.type_of?(self.dataset) }, Close::Reference)?;
        let (dtype, endian) = element(host, datatype.id).ok()?;
        let gift = Gift::new(filters.len(), false, 0);
        let (chunk, region) = (place.chunk.clone(), Region::new(place.region.start, place.chunk));
        let block = Block { dtype, endian, filters, chunk, region, padding: Vec::new(), threads: 1 };
        // SAFETY: the program says that there are so many.
        let bytes = unsafe { std::slice::from_raw_parts(self.bytes.cast::<u8>(), self.size) };
        let is_encoded = library().ok()?.is_encoded(&block, bytes)?;
        (!is_encoded).then(|| gift.mask())
    }

    /// Writes the chunk's values. `false` if it is no chunk of values, and nothing was written.
    pub(crate) fn run(&self, host: &CallerHdf5) -> bool {
        !self.bytes.is_null() && host.quietly(|host| self.attempt(host)).flatten().is_some()
    }

    fn attempt(&self, host: &CallerHdf5) -> Option<()> {
        // SAFETY: HDF5 wants an extent for each axis.
        let place = unsafe { Place::at(host, self.dataset, self.offset)? };
        if u64::try_from(self.size) != Ok(place.bytes) {
            return None;
        }
        // SAFETY: there are as many bytes as the chunk has.
        unsafe { place.transfer().write(host, self.dataset, self.bytes) }
    }
}
