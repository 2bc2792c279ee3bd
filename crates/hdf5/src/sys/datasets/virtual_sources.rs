//! Virtual datasets: the files that their values lie in.

use hdf5_metno_sys::h5p::{H5Pget_virtual_count, H5Pget_virtual_filename};

use crate::sys::{Plist, call};
use knarr_array::error::Result;

impl Plist {
    /// Names of the files that a virtual dataset with these creation properties is mapped to.
    pub(crate) fn virtual_sources(&self) -> Result<Vec<Vec<u8>>> {
        let what = "read what a virtual dataset is mapped to";
        let list = self.0.raw();
        let mut count = 0;
        // SAFETY: the list is open and the place for the result valid.
        call(what, || unsafe { H5Pget_virtual_count(list, &raw mut count) })?;
        let one = |number: usize| {
            // SAFETY: the list is open and has so many mappings; without a place the length alone is returned.
            let length = call(what, || unsafe { H5Pget_virtual_filename(list, number, std::ptr::null_mut(), 0) })?;
            let mut name = vec![0u8; usize::try_from(length).unwrap_or(0) + 1];
            // SAFETY: as above; `name` has room for as many bytes as are announced.
            call(what, || unsafe { H5Pget_virtual_filename(list, number, name.as_mut_ptr().cast(), name.len()) })?;
            name.pop();
            Ok(name)
        };
        (0..count).map(one).collect()
    }
}
