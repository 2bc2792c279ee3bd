//! Transfers of regions of a dataset between file and memory, which HDF5 itself is to encode or decode.
//!
//! That is so for chunks which Knarr would otherwise store as skipping filters.
//!
//! HDF5 remembers the chunk that it looked up last. `H5Dwrite_chunk` renews what it remembers with the filter mask that
//! the chunk had *before*, and keeps the old mask in the file, too, if chunk and predecessor have the same size (1.14
//! and 2.0). What reads or changes that chunk next then decodes bytes that were never encoded. `H5Dwrite` does neither.

use std::ffi::{c_int, c_void};
use std::ptr::null;

use knarr_array::region::{Placed, Region};

use crate::host::{CallerHdf5, Herr, Hid};
use crate::lists::{Close, Owned};

/// `H5S_SELECT_SET`.
const SET: c_int = 0;
/// `H5P_DEFAULT`: values of the dataset's own type are not transformed.
const DEFAULT_LIST: Hid = 0;

/// A region of a dataset, and where its values lie in an array of the dataset's type. Both have the same rank.
pub(crate) struct Transfer<'a> {
    /// What of the dataset it is.
    pub(crate) region: &'a Region,
    /// The array in memory, and where in it the region begins.
    pub(crate) memory: Placed<'a>,
}

impl Transfer<'_> {
    /// Writes the region. `None` if HDF5 did not. To be called quietly.
    ///
    /// # Safety
    /// `values` are as many elements of the dataset's type as the array in memory has.
    pub(crate) unsafe fn write(&self, host: &CallerHdf5, dataset: Hid, values: *const c_void) -> Option<()> {
        let write = host.write?;
        self.select(host, dataset, |datatype, memory, space| {
            // SAFETY: the caller's promise: what is selected in memory lies within the values.
            unsafe { write(dataset, datatype, memory, space, DEFAULT_LIST, values) }
        })
    }

    /// Reads the region, and leaves what `values` hold beside it. `None` if HDF5 did not. To be called quietly.
    ///
    /// # Safety
    /// There is room for as many elements of the dataset's type as the array in memory has.
    pub(crate) unsafe fn read(&self, host: &CallerHdf5, dataset: Hid, values: *mut c_void) -> Option<()> {
        let read = host.read?;
        self.select(host, dataset, |datatype, memory, space| {
            // SAFETY: the caller's promise: what is selected in memory lies within the room.
            unsafe { read(dataset, datatype, memory, space, DEFAULT_LIST, values) }
        })
    }

    /// Makes `call` with the dataset's type, and the region in memory and in the dataset.
    fn select(&self, host: &CallerHdf5, dataset: Hid, call: impl FnOnce(Hid, Hid, Hid) -> Herr) -> Option<()> {
        let Region { start, count } = self.region;
        let Placed { shape, start: place } = self.memory;
        let rank = start.len();
        if [count, shape, place].iter().any(|axes| axes.len() != rank) {
            return None;
        }
        // SAFETY: the dataset is the program's own; all that is made here is closed when dropped; the shape has as many
        // extents as are said.
        let (space, memory, datatype) = unsafe {
            (
                Owned::new(host, host.space_of?(dataset), Close::Reference)?,
                Owned::new(
                    host,
                    host.new_space?(c_int::try_from(rank).ok()?, shape.as_ptr(), null()),
                    Close::Reference,
                )?,
                Owned::new(host, host.type_of?(dataset), Close::Reference)?,
            )
        };
        for (id, start) in [(space.id, start.as_slice()), (memory.id, place)] {
            // SAFETY: start and count have an extent for each axis; without strides and blocks these are 1.
            let done = unsafe { host.select_hyperslab?(id, SET, start.as_ptr(), null(), count.as_ptr(), null()) };
            if done < 0 {
                return None;
            }
        }
        (call(datatype.id, memory.id, space.id) >= 0).then_some(())
    }
}
