//! What the program asks of a dataset, and what its HDF5 tells of one.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use knarr_array::filter::Hdf5Filter;

use crate::host::{CallerHdf5, Herr, Hid};
use crate::property_lists::{Close, Owned};

/// `H5D_FILL_VALUE_USER_DEFINED`.
const FILL_USER_DEFINED: c_int = 2;
const MOST_FILTERS: usize = 32;
const MOST_WORDS: usize = 256;

/// The arguments of `H5Dwrite`.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    pub(crate) dataset: Hid,
    pub(crate) memory_type: Hid,
    pub(crate) memory: Hid,
    pub(crate) file: Hid,
    pub(crate) transfer: Hid,
    pub(crate) values: *const c_void,
}

/// The pipeline in a creation list.
pub(crate) fn filters(host: &CallerHdf5, list: Hid) -> Option<Vec<Hdf5Filter>> {
    // SAFETY: the list is open, here and below.
    let count = usize::try_from(unsafe { host.filter_count?(list) }).ok().filter(|&count| count <= MOST_FILTERS)?;
    let get = host.filter?;
    (0..c_uint::try_from(count).ok()?)
        .map(|position| {
            let mut words = vec![0; MOST_WORDS];
            let (mut flags, mut len) = (0, words.len());
            // SAFETY: `len` says how much room `words` has; neither name nor configuration are asked for.
            let id = unsafe {
                get(list, position, &raw mut flags, &raw mut len, words.as_mut_ptr(), 0, null_mut(), null_mut())
            };
            if len > words.len() {
                return None;
            }
            words.truncate(len);
            Some(Hdf5Filter { id: id.try_into().ok()?, optional: flags & 1 != 0, cd_values: words })
        })
        .collect()
}

/// Has HDF5 load the filters of a dataset that it finds as plugins. It does so itself when it reads values, but not before the
/// dataset grows, which fails then where space is filled.
pub(crate) fn load_filters(host: &CallerHdf5, dataset: Hid) {
    host.quietly(|host| {
        // SAFETY: the program's own identifier; for what is no dataset HDF5 says that it failed.
        let list = Owned::new(host, unsafe { host.creation_of?(dataset) }, Close::List)?;
        let available = host.filter_available?;
        for filter in filters(host, list.id)? {
            // SAFETY: any number may be asked about.
            c_int::try_from(filter.id).map(|id| unsafe { available(id) }).ok()?;
        }
        Some(())
    });
}

/// Bytes of the element that HDF5 fills chunks with.
pub(crate) fn fill_value(host: &CallerHdf5, list: Hid, datatype: Hid, size: usize) -> Option<Vec<u8>> {
    let mut value = vec![0u8; size];
    let mut status: c_int = 0;
    // SAFETY: the list is open and `status` a valid place for the result.
    if unsafe { host.fill_is_defined?(list, &raw mut status) } < 0 {
        return None;
    }
    if status == FILL_USER_DEFINED {
        // SAFETY: the type is open and takes as many bytes as there are.
        let done: Herr = unsafe { host.fill_value?(list, datatype, value.as_mut_ptr().cast()) };
        return (done >= 0).then_some(value);
    }
    Some(value)
}
