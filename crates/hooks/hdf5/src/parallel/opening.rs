//! netCDF-C looks into a file before HDF5 opens it. So its own functions wait for a file that is being delivered, too, and
//! open the header of one that comes from another component. Arguments and results are those of the function, and `caller`
//! the address it returns to.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

use knarr_array::error::Result;
use knarr_caller::{Object, forget_failures};
use knarr_captured::{Ranks, await_named, lock, matched};
use knarr_names::opened_by_library;

use super::file::becoming;
use super::open_session::{Comes, HeaderGuard, comes, read_here};
use super::together::all_may_open;
use knarr_captured::guard;

/// Codes and modes of netCDF's C headers.
mod code {
    use std::ffi::c_int;

    /// `NC_EINTERNAL`, for a function that the caller does not have, which it could not have called.
    pub(super) const MISSING: c_int = -92;
    /// `NC_WRITE`: what another component writes is only read.
    pub(super) const WRITE: c_int = 1;
}

/// True if a file that is opened in this mode is not changed.
fn reads(mode: c_int) -> bool {
    mode & code::WRITE == 0
}

/// What is to be opened.
enum Opens {
    /// What the program names.
    Named,
    /// The header of a session, which is held until netCDF has opened it.
    Header(CString, Option<HeaderGuard>),
    /// Nothing: it does not come.
    Nothing,
    /// Nothing: it could not be made, and what has its name is older.
    NotMade,
}

/// Waits for the file, and for its next session if it comes from another component. `ranks` are those that open it.
///
/// # Safety
/// `path` is null or NUL-terminated.
unsafe fn ready(
    (path, mode): (*const c_char, c_int),
    ranks: impl Fn(&Path) -> Result<Ranks>,
    is_parallel: bool,
) -> Opens {
    if path.is_null() {
        return Opens::Named;
    }
    // SAFETY: the caller's promise.
    let named = unsafe { CStr::from_ptr(path) }.to_bytes();
    // SAFETY: the caller's promise.
    let mut may_open = unsafe { await_named(path, reads(mode)) };
    if let Some(wanted) = matched(named, None).filter(|_| is_parallel) {
        // Ranks that do not know each other decide alone.
        let all = ranks(&wanted.run.rules().adapters).and_then(|ranks| all_may_open(&ranks, may_open));
        may_open = all.unwrap_or(may_open);
    }
    if !may_open {
        return Opens::NotMade;
    }
    let Some(wanted) = read_here(named) else { return Opens::Named };
    if let Some(open) = becoming(&wanted.target) {
        let header = lock(&open).header.path().as_os_str().as_encoded_bytes().to_vec();
        return CString::new(header).map_or(Opens::Named, |header| Opens::Header(header, None));
    }
    match comes(&wanted, named, ranks(&wanted.run.rules().adapters), is_parallel) {
        Comes::Session(header, held) => Opens::Header(header, Some(held)),
        // PnetCDF, on which netCDF-C is built, has functions of its own here.
        Comes::File | Comes::Classic => Opens::Named,
        Comes::Nothing => Opens::Nothing,
    }
}

/// The function of this name that the code at `caller` reaches.
fn linked(name: &CStr, caller: usize) -> *mut c_void {
    let found = Object::holding(caller).linked()(name);
    forget_failures();
    found
}

/// Defines the hook of a function that opens a file by the path that is its first argument. `$ranks` are those that open it.
macro_rules! opens {
    ($hook:ident, $name:literal, $is_parallel:literal, ($($argument:ident: $type:ty),*), $ranks:expr) => {
        /// # Safety
        /// As for the function of netCDF-C.
        pub(crate) unsafe extern "C" fn $hook(
            path: *const c_char,
            mode: c_int,
            $($argument: $type,)*
            caller: usize,
        ) -> c_int {
            let ranks = $ranks;
            // SAFETY: netCDF wants a NUL-terminated path.
            let opens = guard(Opens::Named, || unsafe { ready((path, mode), ranks, $is_parallel) });
            let found = linked($name, caller);
            // SAFETY: a null pointer is `None`; any other is the function that netCDF documents under this name. Handles
            // of MPI fit registers.
            let real = unsafe {
                std::mem::transmute::<
                    *mut c_void,
                    Option<unsafe extern "C" fn(*const c_char, c_int, $($type),*) -> c_int>,
                >(found)
            };
            let Some(real) = real else { return code::MISSING };
            match opens {
                // SAFETY: the caller's own arguments.
                Opens::Named => opened_by_library(|| unsafe { real(path, mode, $($argument),*) }),
                // SAFETY: the caller's own arguments but for path and mode.
                Opens::Header(header, _held) => unsafe { real(header.as_ptr(), mode & !code::WRITE, $($argument),*) },
                Opens::Nothing => libc::ENOENT,
                Opens::NotMade => libc::EIO,
            }
        }
    };
}

fn alone(_: &Path) -> Result<Ranks> {
    Ok(Ranks::Alone(Default::default()))
}

opens!(open, c"nc_open", false, (id: *mut c_int), alone);
opens!(open_with_hint, c"nc__open", false, (chunk: *mut usize, id: *mut c_int), alone);
opens!(open_together, c"nc_open_par", true, (comm: usize, info: usize, id: *mut c_int), |adapters: &Path| {
    // SAFETY: the program's own communicator.
    unsafe { Ranks::of(comm, adapters) }
});

/// Its communicator is a number of Fortran: it calls `nc_open_par` with one of C.
///
/// # Safety
/// As for the function of netCDF-C.
pub(crate) unsafe extern "C" fn open_together_in_fortran(
    path: *const c_char,
    mode: c_int,
    comm: c_int,
    info: c_int,
    id: *mut c_int,
    caller: usize,
) -> c_int {
    type Function = unsafe extern "C" fn(*const c_char, c_int, c_int, c_int, *mut c_int) -> c_int;
    // SAFETY: netCDF wants a NUL-terminated path.
    if !guard(true, || unsafe { await_named(path, reads(mode)) }) {
        return libc::EIO;
    }
    // SAFETY: as in `opens!`.
    let real = unsafe { std::mem::transmute::<*mut c_void, Option<Function>>(linked(c"nc_open_par_fortran", caller)) };
    // SAFETY: the caller's own arguments.
    real.map_or(code::MISSING, |real| opened_by_library(|| unsafe { real(path, mode, comm, info, id) }))
}
