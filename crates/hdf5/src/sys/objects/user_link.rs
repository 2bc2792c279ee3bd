//! Links of classes that programs define: kept as the bytes they are.
//!
//! The library says what is in such a link only if somebody registered its class, and creates one only then. What is
//! registered here hands out the bytes and follows no link, as HDF5 without the class does.

use std::ffi::c_int;
use std::os::raw::{c_char, c_void};

use hdf5_metno_sys::h5::herr_t;
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5l::{H5L_info2_t, H5Lget_info2, H5Lget_val};
use hdf5_metno_sys::h5p::H5P_DEFAULT;

use crate::sys::{Group, Plist, c_string, call, locked};
use knarr_array::error::{Error, Result};

/// Numbers that the format leaves to programs: 64 is the external link of the library itself.
const NUMBERS: std::ops::RangeInclusive<i32> = 65..=255;

type Follow = unsafe extern "C" fn(*const c_char, hid_t, *const c_void, usize, hid_t, hid_t) -> hid_t;
type Query = unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void, usize) -> isize;

/// `H5L_class_t` with the number of the class as a number: the bindings have an enumeration of the library's own there.
#[repr(C)]
struct Class {
    version: c_int,
    id: c_int,
    comment: *const c_char,
    create: *const c_void,
    rename: *const c_void,
    copy: *const c_void,
    follow: Follow,
    delete: *const c_void,
    query: Query,
}

unsafe extern "C" {
    fn H5Lregister(class: *const Class) -> herr_t;
    fn H5Lis_registered(id: c_int) -> c_int;
    fn H5Lcreate_ud(
        group: hid_t,
        name: *const c_char,
        id: c_int,
        value: *const c_void,
        size: usize,
        lcpl: hid_t,
        lapl: hid_t,
    ) -> herr_t;
}

/// Where it leads only the program knows.
unsafe extern "C" fn follow(_: *const c_char, _: hid_t, _: *const c_void, _: usize, _: hid_t, _: hid_t) -> hid_t {
    -1
}

unsafe extern "C" fn query(
    _: *const c_char,
    value: *const c_void,
    size: usize,
    out: *mut c_void,
    room: usize,
) -> isize {
    if !out.is_null() && !value.is_null() {
        // SAFETY: the library passes `size` bytes of a link and room for `room`.
        unsafe { std::ptr::copy_nonoverlapping(value.cast::<u8>(), out.cast::<u8>(), size.min(room)) };
    }
    isize::try_from(size).unwrap_or(-1)
}

/// Makes the library hand out and take links of this class.
fn register(class: i32) -> Result<()> {
    if !NUMBERS.contains(&class) {
        return Err(Error::corrupt(format!("a link is of class {class}, which there is not")));
    }
    // SAFETY: no pointers are involved.
    if call("look for a class of links", || unsafe { H5Lis_registered(class) })? > 0 {
        return Ok(());
    }
    let class = Class {
        version: 1,
        id: class,
        comment: c"kept by knarr".as_ptr(),
        create: std::ptr::null(),
        rename: std::ptr::null(),
        copy: std::ptr::null(),
        follow,
        delete: std::ptr::null(),
        query,
    };
    // SAFETY: the library copies the class; its text and functions are static.
    call("announce a class of links", || unsafe { H5Lregister(&raw const class) }).map(|_| ())
}

impl Group {
    /// The bytes of a link of a class that a program defined.
    pub(in crate::sys) fn user_link(&self, name: &[u8], class: i32) -> Result<Vec<u8>> {
        let name = c_string(name)?;
        locked(|| {
            register(class)?;
            let mut info = std::mem::MaybeUninit::<H5L_info2_t>::uninit();
            // SAFETY: the group is open, the name NUL-terminated, `info` a place for the result.
            call("read a link", || unsafe {
                H5Lget_info2(self.0.0.raw(), name.as_ptr(), info.as_mut_ptr(), H5P_DEFAULT)
            })?;
            // SAFETY: the call filled the union, which holds a size for links that are not hard.
            let size = unsafe { *(&raw const (*info.as_ptr()).u).cast::<usize>() };
            let mut value = vec![0u8; size];
            // SAFETY: the buffer has the size that the link info gave.
            call("read a link", || unsafe {
                H5Lget_val(self.0.0.raw(), name.as_ptr(), value.as_mut_ptr().cast(), value.len(), H5P_DEFAULT)
            })?;
            Ok(value)
        })
    }

    /// Creates a link of a class that a program defined.
    pub(crate) fn link_user(&self, name: &[u8], class: i32, value: &[u8], lcpl: &Plist) -> Result<()> {
        let name = c_string(name)?;
        locked(|| {
            register(class)?;
            // SAFETY: the group is open; name, value and list outlive the call.
            call("create a link", || unsafe {
                H5Lcreate_ud(
                    self.0.0.raw(),
                    name.as_ptr(),
                    class,
                    value.as_ptr().cast(),
                    value.len(),
                    lcpl.0.raw(),
                    H5P_DEFAULT,
                )
            })
            .map(|_| ())
        })
    }
}
