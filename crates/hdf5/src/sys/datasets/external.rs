//! Datasets whose values lie in external raw files.

use std::os::raw::c_char;

use hdf5_metno_sys::h5::hsize_t;
use hdf5_metno_sys::h5d::H5Dopen2;
use hdf5_metno_sys::h5p::{
    H5P_CLS_DATASET_ACCESS, H5Pcreate, H5Pget_external, H5Pget_external_count, H5Pset_efile_prefix,
};

use crate::sys::{Dataset, File, Object, Plist, c_string, call, locked, made};
use knarr_array::error::{Error, Result};

/// Longest name of a file that is looked for.
const LONGEST: usize = 4096;

impl Plist {
    /// Names of the external files of a dataset with these creation properties.
    pub(crate) fn external_names(&self) -> Result<Vec<Vec<u8>>> {
        let what = "read the names of external files";
        locked(|| {
            // SAFETY: the list is open.
            let count = call(what, || unsafe { H5Pget_external_count(self.0.raw()) })?;
            let one = |number: u32| {
                let mut name = vec![0u8; LONGEST];
                let (mut offset, mut size) = (0, 0 as hsize_t);
                let place = name.as_mut_ptr().cast::<c_char>();
                // SAFETY: the list is open and has so many files; `name` has room for as many bytes as are announced.
                call(what, || unsafe {
                    H5Pget_external(self.0.raw(), number, LONGEST, place, &raw mut offset, &raw mut size)
                })?;
                let len = name.iter().position(|&byte| byte == 0);
                name.truncate(len.ok_or_else(|| Error::unsupported("the name of an external file is too long"))?);
                Ok(name)
            };
            (0..u32::try_from(count).unwrap_or(0)).map(one).collect()
        })
    }
}

impl File {
    /// The dataset at an absolute path, whose external files are looked for in the directory of this file.
    pub(crate) fn dataset_with_files_beside(&self, path: &[u8]) -> Result<Dataset> {
        let name = c_string(path)?;
        locked(|| {
            // SAFETY: the class identifier is valid once the library is open, which the lock ensures.
            let dapl = made("prepare a dataset", || unsafe { H5Pcreate(*H5P_CLS_DATASET_ACCESS) })?;
            // SAFETY: the list is open; the library copies the text.
            call("prepare a dataset", || unsafe { H5Pset_efile_prefix(dapl.raw(), c"${ORIGIN}".as_ptr()) })?;
            // SAFETY: the file is open; name and list outlive the call.
            made("open a dataset", || unsafe { H5Dopen2(self.0.raw(), name.as_ptr(), dapl.raw()) })
        })
        .map(|id| Dataset(Object(id)))
    }
}
