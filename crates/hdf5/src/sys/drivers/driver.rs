//! File drivers that are HDF5's own but for one thing.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use hdf5_metno_sys::h5::{haddr_t, herr_t};
use hdf5_metno_sys::h5f::H5F_ACC_RDONLY;
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5p::{H5Pset_driver, H5Pset_fapl_sec2};

use crate::sys::{Id, call};
use knarr_array::error::{Error, Result};

/// `H5FD_class_t` of HDF5 1.14 and 2.x, as far as it matters here: `H5FDdevelop.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::sys) struct Class {
    version: c_uint,
    /// A number that no other driver has.
    pub(in crate::sys) value: c_int,
    /// NUL-terminated.
    pub(in crate::sys) name: *const c_char,
    maxaddr: haddr_t,
    fc_degree: c_int,
    /// `terminate` to `get_eof`.
    before_handle: [*const c_void; 21],
    pub(in crate::sys) get_handle: Option<Handle>,
    pub(in crate::sys) read: Option<Read>,
    pub(in crate::sys) write: Option<Write>,
    /// `read_vector` to `ctl`.
    after_write: [*const c_void; 10],
    fl_map: [c_int; 7],
}

type Handle = unsafe extern "C" fn(*mut Opened, hid_t, *mut *mut c_void) -> herr_t;
type Read = unsafe extern "C" fn(*mut Opened, c_int, hid_t, haddr_t, usize, *mut c_void) -> herr_t;
type Write = unsafe extern "C" fn(*mut Opened, c_int, hid_t, haddr_t, usize, *const c_void) -> herr_t;

// SAFETY: it is never changed, and what it points to is the library's for ever.
unsafe impl Send for Class {}
// SAFETY: as above.
unsafe impl Sync for Class {}

/// The beginning of `H5FD_t`.
#[repr(C)]
pub(in crate::sys) struct Opened {
    driver_id: hid_t,
    class: *const Class,
    fileno: std::ffi::c_ulong,
    access_flags: c_uint,
    feature_flags: std::ffi::c_ulong,
    maxaddr: haddr_t,
    /// Where the superblock lies.
    pub(in crate::sys) base_addr: haddr_t,
}

unsafe extern "C" {
    fn H5FDopen(name: *const c_char, flags: c_uint, fapl: hid_t, maxaddr: haddr_t) -> *mut Opened;
    fn H5FDclose(file: *mut Opened) -> herr_t;
    fn H5FDregister(class: *const Class) -> hid_t;
}

/// HDF5's own driver.
static PLAIN: OnceLock<Class> = OnceLock::new();

/// HDF5's own driver, once [`set`] was called.
pub(in crate::sys) fn plain() -> Option<&'static Class> {
    PLAIN.get()
}

/// Lets the file `name`, which is there, be opened with a driver that `change` makes of HDF5's own, by another number, once for all; to be called
/// under the lock.
///
/// # Errors
/// As for opening the file.
pub(in crate::sys) fn set(
    fapl: &Id,
    name: &CStr,
    made: &OnceLock<hid_t>,
    change: impl FnOnce(&mut Class),
) -> Result<()> {
    // SAFETY: `fapl` is a live file access list.
    call("prepare the file", || unsafe { H5Pset_fapl_sec2(fapl.raw()) })?;
    let driver = match made.get() {
        Some(driver) => *driver,
        None => {
            let mut class = *find(fapl, name)?;
            change(&mut class);
            // SAFETY: the class is complete, and copied.
            let driver = call("prepare the file", || unsafe { H5FDregister(&raw const class) })?;
            *made.get_or_init(|| driver)
        }
    };
    // SAFETY: as above; the driver is registered, and has no settings.
    call("prepare the file", || unsafe { H5Pset_driver(fapl.raw(), driver, std::ptr::null()) }).map(|_| ())
}

/// HDF5's own driver: an open file leads to it.
fn find(fapl: &Id, name: &CStr) -> Result<&'static Class> {
    const ANY: haddr_t = haddr_t::MAX;
    if let Some(plain) = PLAIN.get() {
        return Ok(plain);
    }
    let mut plain = None;
    call("open the file", || {
        // SAFETY: `name` is NUL-terminated, and the list is live.
        let file = unsafe { H5FDopen(name.as_ptr(), H5F_ACC_RDONLY, fapl.raw(), ANY) };
        if file.is_null() {
            return -1;
        }
        // SAFETY: an open file begins so, and its class is complete: `version` stands first in all versions of it.
        plain = Some(unsafe { *(*file).class });
        // SAFETY: it is open, and closed once.
        unsafe { H5FDclose(file) }
    })?;
    let other = || Error::internal("HDF5 has another driver of files than it was built with");
    let plain = plain.ok_or_else(other)?;
    // SAFETY: names of drivers are NUL-terminated.
    if plain.version != 1 || unsafe { CStr::from_ptr(plain.name) } != c"sec2" {
        return Err(other());
    }
    Ok(PLAIN.get_or_init(|| plain))
}
