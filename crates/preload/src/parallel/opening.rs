//! netCDF-C looks into a file before HDF5 opens it. So its own functions wait for a file that is being delivered, too.
//! Arguments and results are those of the function, and `caller` the address it returns to.

use std::ffi::{CStr, c_char, c_int, c_void};

use knarr_caller::{Object, forget_failures};

use super::begin_end::await_named;
use crate::guard::guard;

/// `NC_EINTERNAL`, for a function that the caller does not have, which it could not have called.
const MISSING: c_int = -92;

/// Finds the function `name` that the code at `caller` reaches, and waits for the file.
///
/// # Safety
/// `path` is null or NUL-terminated.
unsafe fn ready(name: &CStr, path: *const c_char, caller: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    guard((), || unsafe { await_named(path) });
    let found = Object::holding(caller).linked()(name);
    forget_failures();
    found
}

/// Defines the hook of a function that opens a file by the path that is its first argument.
macro_rules! opens {
    ($hook:ident, $name:literal, ($($argument:ident: $type:ty),*)) => {
        /// # Safety
        /// As for the function of netCDF-C.
        pub(crate) unsafe extern "C" fn $hook(path: *const c_char, $($argument: $type,)* caller: usize) -> c_int {
            // SAFETY: netCDF wants a NUL-terminated path.
            let found = unsafe { ready($name, path, caller) };
            // SAFETY: a null pointer is `None`; any other is the function that netCDF documents under this name. Handles
            // of MPI fit registers.
            let real = unsafe {
                std::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn(*const c_char, $($type),*) -> c_int>>(found)
            };
            // SAFETY: the caller's own arguments.
            real.map_or(MISSING, |real| unsafe { real(path, $($argument),*) })
        }
    };
}

opens!(open, c"nc_open", (mode: c_int, id: *mut c_int));
opens!(open_with_hint, c"nc__open", (mode: c_int, chunk: *mut usize, id: *mut c_int));
opens!(open_together, c"nc_open_par", (mode: c_int, comm: usize, info: usize, id: *mut c_int));
opens!(open_together_in_fortran, c"nc_open_par_fortran", (mode: c_int, comm: c_int, info: c_int, id: *mut c_int));
