//! Property lists: layouts, filters, fill values, creation order.

use std::ffi::CStr;
use std::os::raw::{c_int, c_uint, c_void};

use hdf5_metno_sys::h5d::{H5D_alloc_time_t, H5D_fill_value_t, H5D_layout_t};
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5p::*;
use hdf5_metno_sys::h5t::H5T_cset_t;
use hdf5_metno_sys::h5z::{
    H5Z_FILTER_ALL, H5Z_FLAG_OPTIONAL, H5Z_FLAG_REVERSE, H5Z_class2_t, H5Zfilter_avail, H5Zregister, H5Zunregister,
};

use crate::sys::{Datatype, Id, call, locked, made};
use knarr_array::error::{Error, Result};
use knarr_array::filter::Hdf5Filter;

/// Creation order is kept, and kept in an index.
const TRACKED: c_uint = 1;
const TRACKED_AND_INDEXED: c_uint = 3;

/// A property list.
#[derive(Debug)]
pub(crate) struct Plist(pub(in crate::sys) Id);

/// Layout of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DatasetLayout {
    Compact,
    Contiguous,
    /// Values are in other, raw files.
    External,
    Chunked(Vec<u64>),
    Virtual,
}

impl Plist {
    fn new(class: impl FnOnce() -> hid_t) -> Result<Self> {
        // SAFETY: classes are valid once the library is open, which the lock ensures.
        made("create a property list", || unsafe { H5Pcreate(class()) }).map(Self)
    }

    /// For links with names in ASCII or UTF-8.
    pub(crate) fn for_link(utf8: bool) -> Result<Self> {
        let list = Self::new(|| *H5P_CLS_LINK_CREATE)?;
        let encoding = if utf8 { H5T_cset_t::H5T_CSET_UTF8 } else { H5T_cset_t::H5T_CSET_ASCII };
        // SAFETY: the list is open.
        call("set a name's encoding", || unsafe { H5Pset_char_encoding(list.0.raw(), encoding) })?;
        Ok(list)
    }

    /// For new files.
    pub(crate) fn for_file() -> Result<Self> {
        Self::new(|| *H5P_CLS_FILE_CREATE)
    }

    /// For new groups.
    pub(crate) fn for_group() -> Result<Self> {
        Self::new(|| *H5P_CLS_GROUP_CREATE)
    }

    /// For new datasets.
    pub(crate) fn for_dataset() -> Result<Self> {
        Self::new(|| *H5P_CLS_DATASET_CREATE)
    }

    /// Length of the user block in bytes (file creation list).
    pub(crate) fn user_block(&self) -> Result<u64> {
        let mut size = 0;
        // SAFETY: the list is open and `size` a valid place for the result.
        call("read the user block", || unsafe { H5Pget_userblock(self.0.raw(), &raw mut size) })?;
        Ok(size)
    }

    /// True if the object keeps the order in which its attributes were made.
    pub(crate) fn attribute_order_tracked(&self) -> Result<bool> {
        let mut flags = 0;
        // SAFETY: as in `user_block`.
        call("read properties", || unsafe { H5Pget_attr_creation_order(self.0.raw(), &raw mut flags) })?;
        Ok(flags & TRACKED != 0)
    }

    /// True if the group keeps the order in which its links were made.
    pub(crate) fn link_order_tracked(&self) -> Result<bool> {
        let mut flags = 0;
        // SAFETY: as in `user_block`.
        call("read properties", || unsafe { H5Pget_link_creation_order(self.0.raw(), &raw mut flags) })?;
        Ok(flags & TRACKED != 0)
    }

    /// Keeps the order of links and attributes, as netCDF-4 asks for.
    pub(crate) fn track_orders(&self, links: bool) -> Result<()> {
        locked(|| {
            if links {
                // SAFETY: the list is open.
                call("set properties", || unsafe { H5Pset_link_creation_order(self.0.raw(), TRACKED_AND_INDEXED) })?;
            }
            // SAFETY: the list is open.
            call("set properties", || unsafe { H5Pset_attr_creation_order(self.0.raw(), TRACKED_AND_INDEXED) })?;
            self.forget_times()
        })
    }

    /// Times of writing would make the same input give different bytes.
    pub(crate) fn forget_times(&self) -> Result<()> {
        // SAFETY: the list is open.
        call("set properties", || unsafe { H5Pset_obj_track_times(self.0.raw(), 0) }).map(|_| ())
    }

    /// Takes over what a group's list says about links and attributes.
    pub(crate) fn copy_group_settings(&self, from: &Self) -> Result<()> {
        locked(|| {
            let (to, from) = (self.0.raw(), from.0.raw());
            let (mut a, mut b) = (0, 0);
            let what = "copy a group's properties";
            // SAFETY: both lists are open; the places for results are valid, here and below.
            call(what, || unsafe { H5Pget_link_creation_order(from, &raw mut a) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pset_link_creation_order(to, a) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pget_attr_creation_order(from, &raw mut a) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pset_attr_creation_order(to, a) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pget_link_phase_change(from, &raw mut a, &raw mut b) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pset_link_phase_change(to, a, b) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pget_attr_phase_change(from, &raw mut a, &raw mut b) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pset_attr_phase_change(to, a, b) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pget_est_link_info(from, &raw mut a, &raw mut b) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pset_est_link_info(to, a, b) })?;
            self.forget_times()
        })
    }

    /// Layout of the dataset.
    pub(crate) fn layout(&self) -> Result<DatasetLayout> {
        locked(|| {
            // SAFETY: the list is open.
            match unsafe { H5Pget_layout(self.0.raw()) } {
                H5D_layout_t::H5D_COMPACT => Ok(DatasetLayout::Compact),
                H5D_layout_t::H5D_CONTIGUOUS => {
                    // SAFETY: the list is open.
                    let external = call("read a layout", || unsafe { H5Pget_external_count(self.0.raw()) })?;
                    Ok(if external > 0 { DatasetLayout::External } else { DatasetLayout::Contiguous })
                }
                H5D_layout_t::H5D_CHUNKED => {
                    let mut shape = [0u64; 33];
                    // SAFETY: the array has room for the 33 dimensions HDF5 may store.
                    let rank = call("read a layout", || unsafe { H5Pget_chunk(self.0.raw(), 33, shape.as_mut_ptr()) })?;
                    let shape = shape.get(..usize::try_from(rank).unwrap_or(0)).unwrap_or_default();
                    Ok(DatasetLayout::Chunked(shape.to_vec()))
                }
                H5D_layout_t::H5D_VIRTUAL => Ok(DatasetLayout::Virtual),
                _ => Err(Error::corrupt("a dataset has no layout")),
            }
        })
    }

    /// True if chunks that reach over the edge are stored without filters.
    pub(crate) fn edge_chunks_unfiltered(&self) -> Result<bool> {
        let mut options = 0;
        // SAFETY: the list is open and `options` a valid place for the result.
        call("read a layout", || unsafe { H5Pget_chunk_opts(self.0.raw(), &raw mut options) })?;
        Ok(options & hdf5_metno_sys::h5d::H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS != 0)
    }

    /// Filters exactly as stored.
    pub(crate) fn filters(&self) -> Result<Vec<Hdf5Filter>> {
        locked(|| {
            // SAFETY: the list is open.
            let count = call("read filters", || unsafe { H5Pget_nfilters(self.0.raw()) })?;
            (0..u32::try_from(count).unwrap_or(0)).map(|n| self.filter(n)).collect()
        })
    }

    fn filter(&self, n: u32) -> Result<Hdf5Filter> {
        let mut values = vec![0u32; 64];
        loop {
            let (mut flags, mut length, mut config) = (0, values.len(), 0);
            // SAFETY: `length` says how much room `values` has; no name is asked for.
            let id = call("read a filter", || unsafe {
                H5Pget_filter2(
                    self.0.raw(),
                    n,
                    &raw mut flags,
                    &raw mut length,
                    values.as_mut_ptr(),
                    0,
                    std::ptr::null_mut(),
                    &raw mut config,
                )
            })?;
            if length > values.len() {
                values.resize(length.min(1 << 20), 0);
                if values.len() < length {
                    return Err(Error::corrupt("a filter has too many values"));
                }
                continue;
            }
            values.truncate(length);
            let id = u32::try_from(id).map_err(|_| Error::corrupt("a filter has a negative number"))?;
            return Ok(Hdf5Filter { id, optional: flags & H5Z_FLAG_OPTIONAL != 0, cd_values: values });
        }
    }

    /// Replaces the whole pipeline.
    pub(crate) fn set_filters(&self, filters: &[Hdf5Filter]) -> Result<()> {
        locked(|| {
            // SAFETY: the list is open.
            if call("read filters", || unsafe { H5Pget_nfilters(self.0.raw()) })? > 0 {
                // SAFETY: as above.
                call("remove filters", || unsafe { H5Premove_filter(self.0.raw(), H5Z_FILTER_ALL) })?;
            }
            for filter in filters {
                let id = c_int::try_from(filter.id).map_err(|_| Error::usage("a filter number is too large"))?;
                let flags = if filter.optional { H5Z_FLAG_OPTIONAL } else { 0 };
                let values = &filter.cd_values;
                // SAFETY: `values` holds as many numbers as the call is told.
                call("set a filter", || unsafe {
                    H5Pset_filter(self.0.raw(), id, flags, values.len(), values.as_ptr())
                })?;
            }
            Ok(())
        })
    }

    /// Chunked layout with chunks of this shape, all of them filtered.
    pub(crate) fn set_chunked(&self, chunk: &[u64]) -> Result<()> {
        let rank = c_int::try_from(chunk.len()).map_err(|_| Error::usage("too many dimensions"))?;
        // SAFETY: the list is open and `chunk` holds `rank` extents.
        call("set the chunk shape", || unsafe { H5Pset_chunk(self.0.raw(), rank, chunk.as_ptr()) }).map(|_| ())
    }

    /// Values in one run, without filters.
    pub(crate) fn set_contiguous(&self) -> Result<()> {
        locked(|| {
            self.set_filters(&[])?;
            // SAFETY: the list is open.
            call("set a layout", || unsafe { H5Pset_layout(self.0.raw(), H5D_layout_t::H5D_CONTIGUOUS) })?;
            if self.allocates_early()? {
                return Ok(());
            }
            // SAFETY: as above.
            call("set properties", || unsafe { H5Pset_alloc_time(self.0.raw(), H5D_alloc_time_t::H5D_ALLOC_TIME_LATE) })
                .map(|_| ())
        })
    }

    /// Space is taken when chunks are written.
    pub(crate) fn allocate_incrementally(&self) -> Result<()> {
        // SAFETY: the list is open.
        call("set properties", || unsafe { H5Pset_alloc_time(self.0.raw(), H5D_alloc_time_t::H5D_ALLOC_TIME_INCR) })
            .map(|_| ())
    }

    /// True if space is taken when the dataset is made.
    pub(crate) fn allocates_early(&self) -> Result<bool> {
        let mut time = H5D_alloc_time_t::H5D_ALLOC_TIME_DEFAULT;
        // SAFETY: the list is open and `time` a valid place for the result.
        call("read properties", || unsafe { H5Pget_alloc_time(self.0.raw(), &raw mut time) })?;
        Ok(time == H5D_alloc_time_t::H5D_ALLOC_TIME_EARLY)
    }

    /// The fill value in the form of `datatype`, if the writer chose one.
    pub(crate) fn fill_value(&self, datatype: &Datatype) -> Result<Option<Vec<u8>>> {
        locked(|| {
            let mut status = H5D_fill_value_t::H5D_FILL_VALUE_UNDEFINED;
            // SAFETY: the list is open and `status` a valid place for the result.
            call("read a fill value", || unsafe { H5Pfill_value_defined(self.0.raw(), &raw mut status) })?;
            if status != H5D_fill_value_t::H5D_FILL_VALUE_USER_DEFINED {
                return Ok(None);
            }
            let mut value = vec![0u8; datatype.size()?];
            // SAFETY: `value` has the size of one element of `datatype`, which holds no pointers.
            call("read a fill value", || unsafe {
                H5Pget_fill_value(self.0.raw(), datatype.0.raw(), value.as_mut_ptr().cast())
            })?;
            Ok(Some(value))
        })
    }

    /// Sets the fill value.
    pub(crate) fn set_fill_value(&self, datatype: &Datatype, value: &[u8]) -> Result<()> {
        locked(|| {
            if datatype.size()? != value.len() {
                return Err(Error::internal("a fill value has another size than its type"));
            }
            // SAFETY: `value` has the size of one element, checked above.
            call("set a fill value", || unsafe {
                H5Pset_fill_value(self.0.raw(), datatype.0.raw(), value.as_ptr().cast())
            })
            .map(|_| ())
        })
    }
}

/// Chunks are encoded by Knarr and written as they are, so the library must never run the filter.
unsafe extern "C" fn refuse(
    flags: c_uint,
    _: usize,
    _: *const c_uint,
    length: usize,
    _: *mut usize,
    _: *mut *mut c_void,
) -> usize {
    if flags & H5Z_FLAG_REVERSE == 0 { length } else { 0 }
}

/// Makes the library believe that it has the filter `id`: it refuses to create a dataset with a mandatory
/// filter that is missing, and lets filters that it has change their own settings.
///
/// The name is stored in files.
pub(crate) fn pretend_filter(id: u32, filter_name: &'static CStr) -> Result<()> {
    let id = c_int::try_from(id).map_err(|_| Error::usage("a filter number is too large"))?;
    let class = H5Z_class2_t {
        version: 1,
        id,
        encoder_present: 1,
        decoder_present: 1,
        name: filter_name.as_ptr(),
        can_apply: None,
        set_local: None,
        filter: Some(refuse),
    };
    // SAFETY: the library copies the class; its name and function are static.
    call("announce a filter", || unsafe { H5Zregister(std::ptr::from_ref(&class).cast()) }).map(|_| ())
}

/// True if the library can decode with this filter, by itself or by a plugin that it finds.
pub(crate) fn has_filter(id: u32) -> bool {
    let Ok(id) = c_int::try_from(id) else { return false };
    // SAFETY: no pointers are involved.
    locked(|| unsafe { H5Zfilter_avail(id) } > 0)
}

/// Undoes [`pretend_filter`]. False if open datasets still use the filter.
pub(crate) fn forget_filter(id: u32) -> bool {
    let Ok(id) = c_int::try_from(id) else { return true };
    // SAFETY: no pointers are involved; the library refuses while the filter is in use.
    call("forget a filter", || unsafe { H5Zunregister(id) }).is_ok()
}
