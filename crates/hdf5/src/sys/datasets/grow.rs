//! Datasets of a file that was not closed, made as long as their values are.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hdf5_metno_sys::h5d::H5Dset_extent;
use hdf5_metno_sys::h5f::{H5F_ACC_RDWR, H5Fopen};
use hdf5_metno_sys::h5p::{H5P_CLS_FILE_ACCESS, H5Pcreate, H5Pset_file_locking};

use crate::sys::{Address, Extent, File, Object, c_string, call, locked, made};
use knarr_array::error::Result;

/// Makes datasets of the file at `path` at least so long along each axis. Those that cannot grow stay as they are.
///
/// # Errors
/// `Read`, `Corrupt` or `Write`.
pub(crate) fn grow(path: &Path, least: &[(Address, Vec<u64>)]) -> Result<()> {
    let name = c_string(path.as_os_str().as_bytes())?;
    locked(|| {
        // SAFETY: the class identifier is valid once the library is open, which the lock ensures.
        let fapl = made("prepare the file", || unsafe { H5Pcreate(*H5P_CLS_FILE_ACCESS) })?;
        // SAFETY: `fapl` is a live file access list.
        call("prepare the file", || unsafe { H5Pset_file_locking(fapl.raw(), 0, 1) })?;
        // SAFETY: `name` is NUL-terminated and outlives the call, as does the list.
        let file = made("open the file", || unsafe { H5Fopen(name.as_ptr(), H5F_ACC_RDWR, fapl.raw()) }).map(File)?;
        for (address, least) in least {
            let dataset = file.object_at(*address).and_then(Object::into_dataset)?;
            let Extent::Simple { shape, max } = dataset.space()?.extent()? else { continue };
            let bound = |(axis, &now): (usize, &u64)| {
                let wanted = least.get(axis).copied().unwrap_or(0).max(now);
                max.get(axis).copied().flatten().map_or(wanted, |most| wanted.min(most))
            };
            let grown: Vec<u64> = shape.iter().enumerate().map(bound).collect();
            if grown != shape {
                // SAFETY: the dataset is open, and there is an extent for each axis.
                call("make a dataset longer", || unsafe { H5Dset_extent(dataset.0.0.raw(), grown.as_ptr()) })?;
            }
            dataset.close()?;
        }
        file.close()
    })
}
