//! Virtual datasets: the files that their values lie in.

use std::os::raw::c_char;

use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5p::*;
use hdf5_metno_sys::h5s::{H5S_sel_type, H5Sget_select_npoints, H5Sget_select_type};

use super::{Plist, Space, c_string, call, locked, made};
use knarr_core::error::Result;

/// Part of a virtual dataset that a dataset of some file holds.
struct Mapping {
    /// The part.
    part: Space,
    /// What of the other dataset it is.
    source: Space,
    file: Vec<u8>,
    dataset: Vec<u8>,
}

impl Mapping {
    /// A selection in place of all of a dataset: its shape is not kept, and the library wants to be told as many elements
    /// as the part has.
    fn whole_source(&self) -> Result<Option<Space>> {
        // SAFETY: the space is open.
        let kind = locked(|| unsafe { H5Sget_select_type(self.source.0.raw()) });
        if kind != H5S_sel_type::H5S_SEL_ALL {
            return Ok(None);
        }
        // SAFETY: the space is open.
        let elements = call("read a selection", || unsafe { H5Sget_select_npoints(self.part.0.raw()) })?;
        Space::simple(&[u64::try_from(elements).unwrap_or(0)], &[]).map(Some)
    }
}

/// A function that reads the name of a mapping.
type ReadName = unsafe extern "C" fn(hid_t, usize, *mut c_char, usize) -> isize;

impl Plist {
    /// Sets in `to`, which has no mappings yet, those of these properties, with the names of files that `renamed` gives.
    /// False, and nothing is set, if it gives none.
    ///
    /// # Errors
    /// `Internal` if the library cannot set a mapping again.
    pub(super) fn copy_mappings(&self, to: &Self, renamed: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Result<bool> {
        let mappings = self.mappings()?;
        if !mappings.iter().any(|mapping| renamed(&mapping.file).is_some()) {
            return Ok(false);
        }
        for mapping in mappings {
            let file = c_string(renamed(&mapping.file).as_ref().unwrap_or(&mapping.file))?;
            let dataset = c_string(&mapping.dataset)?;
            let whole = mapping.whole_source()?;
            let source = whole.as_ref().unwrap_or(&mapping.source);
            // SAFETY: the list and both spaces are open, the names outlive the call.
            call("map a virtual dataset", || unsafe {
                H5Pset_virtual(to.0.raw(), mapping.part.0.raw(), file.as_ptr(), dataset.as_ptr(), source.0.raw())
            })?;
        }
        Ok(true)
    }

    fn mappings(&self) -> Result<Vec<Mapping>> {
        let what = "read what a virtual dataset is mapped to";
        let list = self.0.raw();
        let mut count = 0;
        // SAFETY: the list is open and the place for the result valid.
        call(what, || unsafe { H5Pget_virtual_count(list, &raw mut count) })?;
        let one = |number: usize| {
            Ok(Mapping {
                // SAFETY: the list is open and has so many mappings.
                part: made(what, || unsafe { H5Pget_virtual_vspace(list, number) }).map(Space)?,
                // SAFETY: as above.
                source: made(what, || unsafe { H5Pget_virtual_srcspace(list, number) }).map(Space)?,
                file: self.name_of_mapping(H5Pget_virtual_filename, number)?,
                dataset: self.name_of_mapping(H5Pget_virtual_dsetname, number)?,
            })
        };
        (0..count).map(one).collect()
    }

    fn name_of_mapping(&self, read: ReadName, number: usize) -> Result<Vec<u8>> {
        let what = "read a name of a virtual dataset";
        // SAFETY: the list is open and has the mapping; without a place the length alone is returned.
        let length = call(what, || unsafe { read(self.0.raw(), number, std::ptr::null_mut(), 0) })?;
        let mut name = vec![0u8; usize::try_from(length).unwrap_or(0) + 1];
        // SAFETY: the list is open and has the mapping; `name` has room for as many bytes as are announced.
        call(what, || unsafe { read(self.0.raw(), number, name.as_mut_ptr().cast(), name.len()) })?;
        name.pop();
        Ok(name)
    }
}
