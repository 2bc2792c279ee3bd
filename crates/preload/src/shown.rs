//! What a program is told of datasets that were given filters, as long as it has their file open for writing: what it
//! made. Else it could give filters that it never chose to other datasets, which not every library knows by name, or take
//! encoded bytes for values.
//!
//! In files that are open for reading only, datasets show what is stored: who notes where chunks lie, for readers
//! without HDF5, must know their filters.

use std::ffi::{c_int, c_uint, c_void};

use knarr_codec::codec::KNARR_FILTER;

use crate::direct::Place;
use crate::given::{self, Gift};
use crate::host::{CallerHdf5, Herr, Hid, Visit};
use crate::lists::{Close, Owned, file_name};
use crate::{files, whole};
use knarr_capture::program::{Run, run};

/// Codes of HDF5's C headers.
mod code {
    pub(super) const ALL_FILTERS: i32 = 0;
    pub(super) const CONTIGUOUS: i32 = 1;
    pub(super) const ALLOCATE_LATE: i32 = 2;
}

/// What the dataset was given, if that is not shown. Knarr's own filter is always a gift: programs do not choose it.
fn hidden(host: &CallerHdf5, dataset: Hid) -> Option<Gift> {
    let has_own = run().is_some_and(Run::uses_own_filter);
    if !files::any_compressed() || !(has_own || given::any()) {
        return None;
    }
    host.quietly(|host| {
        files::compressed(&file_name(host, dataset)?)?;
        given::of(host, dataset).or_else(|| {
            // SAFETY: the dataset is the program's own; the list is closed when dropped.
            let list = Owned::new(host, unsafe { host.creation_of?(dataset) }, Close::List).filter(|_| has_own)?;
            let filters = whole::filters(host, list.id)?;
            (filters.len() == 1 && filters[0].id == KNARR_FILTER).then(|| Gift::new(1, false, 0))
        })
    })
    .flatten()
}

/// Makes the creation list `list` of a dataset the one that the program created it with.
pub(crate) fn restore(host: &CallerHdf5, dataset: Hid, list: Hid) {
    let Some(gift) = hidden(host, dataset) else { return };
    host.quietly(|host| {
        // SAFETY: the list was made for the program just now, here and below.
        let done = unsafe { host.remove_filter?(list, code::ALL_FILTERS) };
        if done >= 0 && gift.chunks {
            // SAFETY: as above.
            unsafe { host.set_layout?(list, code::CONTIGUOUS) };
            // SAFETY: as above. This is when HDF5 makes room for contiguous datasets by itself.
            unsafe { host.set_allocation_time?(list, code::ALLOCATE_LATE) };
        }
        Some(())
    });
}

/// Bytes that a stored chunk has to the program, if that is not what is stored.
///
/// # Safety
/// `offset` is null or has an extent for each axis.
pub(crate) unsafe fn chunk_bytes(host: &CallerHdf5, dataset: Hid, offset: *const u64) -> Option<u64> {
    hidden(host, dataset)?;
    // SAFETY: the caller's promise.
    host.quietly(|host| unsafe { Place::at(host, dataset, offset) }).flatten().map(|place| place.bytes)
}

/// Where a chunk is read to, as `H5Dread_chunk` takes it.
pub(crate) struct Reading {
    pub(crate) dataset: Hid,
    pub(crate) offset: *const u64,
    pub(crate) mask: *mut u32,
    pub(crate) values: *mut c_void,
    /// Room for the values, where the program says how much there is; it is told how much they take.
    pub(crate) room: *mut usize,
}

impl Reading {
    /// Reads the chunk's values. `None` if that is left to HDF5.
    ///
    /// # Safety
    /// As for `H5Dread_chunk`.
    pub(crate) unsafe fn run(&self, host: &CallerHdf5) -> Option<Herr> {
        hidden(host, self.dataset)?;
        // SAFETY: the caller's promise.
        host.quietly(|host| unsafe { self.attempt(host) }).flatten()
    }

    /// # Safety
    /// As for `H5Dread_chunk`.
    unsafe fn attempt(&self, host: &CallerHdf5) -> Option<Herr> {
        // SAFETY: the caller's promise, here and below.
        let place = unsafe { Place::at(host, self.dataset, self.offset)? };
        let mut stored = 0u64;
        // SAFETY: `stored` is a valid place for the result. Chunks that are not there are HDF5's to refuse.
        if unsafe { host.chunk_size?(self.dataset, self.offset, &raw mut stored) } < 0 || stored == 0 {
            return None;
        }
        let bytes = usize::try_from(place.bytes).ok()?;
        // SAFETY: null, or where the program says how much room there is.
        let is_enough = unsafe { self.room.as_mut() }.is_none_or(|room| std::mem::replace(room, bytes) >= bytes);
        if self.values.is_null() || !is_enough {
            return (!self.room.is_null()).then_some(0);
        }
        if !place.is_whole() {
            self.fill(host, bytes)?;
        }
        // SAFETY: there is room for the chunk.
        unsafe { place.transfer().read(host, self.dataset, self.values)? };
        // SAFETY: null, or a valid place for the result.
        if let Some(mask) = unsafe { self.mask.as_mut() } {
            *mask = 0;
        }
        Some(0)
    }

    /// Fills what of the chunk lies beyond the edge.
    fn fill(&self, host: &CallerHdf5, bytes: usize) -> Option<()> {
        // SAFETY: the dataset is the program's own; what is made is closed when dropped, here and below.
        let list = Owned::new(host, unsafe { host.creation_of?(self.dataset) }, Close::List)?;
        // SAFETY: as above.
        let datatype = Owned::new(host, unsafe { host.type_of?(self.dataset) }, Close::Reference)?;
        // SAFETY: the type is open.
        let size = unsafe { host.type_size?(datatype.id) };
        let value = whole::fill_value(host, list.id, datatype.id, size)?;
        // SAFETY: there is room for the chunk.
        let room = unsafe { std::slice::from_raw_parts_mut(self.values.cast::<u8>(), bytes) };
        room.chunks_exact_mut(size).for_each(|element| element.copy_from_slice(&value));
        Some(())
    }
}

/// A visit of the program that is told the bytes of values.
pub(crate) struct Visitor {
    visit: Visit,
    data: *mut c_void,
    bytes: u64,
}

impl Visitor {
    /// `None` if the chunks are shown as they are stored.
    pub(crate) fn new(host: &CallerHdf5, dataset: Hid, visit: Visit, data: *mut c_void) -> Option<Self> {
        hidden(host, dataset)?;
        let origin = [0u64; 32];
        // SAFETY: HDF5 allows no more axes than there are extents.
        let place = host.quietly(|host| unsafe { Place::at(host, dataset, origin.as_ptr()) }).flatten()?;
        Some(Self { visit, data, bytes: place.bytes })
    }
}

/// # Safety
/// `data` is a [`Visitor`]; the rest is as `H5Dchunk_iter` says.
pub(crate) unsafe extern "C" fn visit(
    offset: *const u64,
    _mask: c_uint,
    address: u64,
    _bytes: u64,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let visitor = unsafe { &*data.cast::<Visitor>() };
    // SAFETY: the program's own function and data.
    unsafe { (visitor.visit)(offset, 0, address, visitor.bytes, visitor.data) }
}
