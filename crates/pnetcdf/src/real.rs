//! The program's own PnetCDF.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::codes::ENOTSUPPORT;

/// `ncmpi_open`.
pub(crate) type Open = unsafe extern "C" fn(usize, *const c_char, c_int, usize, *mut c_int) -> c_int;

/// The function of PnetCDF with this name and these arguments. The program calls it, so it is there.
macro_rules! real {
    ($name:ident($($argument:ty),* $(,)?)) => {
        $crate::real::real!(@ concat!(stringify!($name), "\0"), ($($argument),*))
    };
    (@ $name:expr, ($($argument:ty),* $(,)?)) => {{
        static PLACE: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let found = $crate::real::find(&PLACE, $name);
        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) -> std::ffi::c_int>(found)
    }};
}
pub(crate) use real;

/// The function called `name`, which ends in a zero, as the libraries behind this one have it. `place` keeps it. A function
/// that they lack, which no program could have called, is one that returns `NC_ENOTSUPPORT`.
pub(crate) fn find(place: &AtomicPtr<c_void>, name: &'static str) -> *mut c_void {
    let known = place.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let found = CStr::from_bytes_with_nul(name.as_bytes()).map_or(std::ptr::null_mut(), |name| {
        // SAFETY: a name that ends in a zero.
        unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
    });
    let found = if found.is_null() { missing as *mut c_void } else { found };
    place.store(found, Ordering::Relaxed);
    found
}

/// Whatever the arguments are: those who call clean up behind them.
extern "C" fn missing() -> c_int {
    ENOTSUPPORT
}
