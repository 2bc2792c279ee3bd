//! What a program may ask of a session that it has opened, whichever library it reads with.

use std::ffi::{CStr, c_char, c_double, c_int, c_longlong};

use knarr_captured::sessions::opened;
use knarr_captured::wanted;
use knarr_names::own;

/// There is a session of that name.
const FOUND: c_int = 0;
/// This process has opened none.
const NONE: c_int = 1;

/// The number of the session of the file `path` that this process has opened last, and when its writer has closed it, in seconds since
/// 1970; 0 if it had not then. Returns 0, or 1 if there is none.
///
/// # Safety
/// `path` is null or NUL-terminated; the other two are null or lead to room for a number.
#[unsafe(no_mangle)]
unsafe extern "C" fn knarr_session(path: *const c_char, number: *mut c_longlong, closed: *mut c_double) -> c_int {
    if path.is_null() {
        return NONE;
    }
    // SAFETY: the caller's promise.
    let named = unsafe { CStr::from_ptr(path) }.to_bytes();
    let Some(wanted) = own(|| wanted(named)) else { return NONE };
    let Some((session, closed_ms)) = opened(&wanted.target) else { return NONE };
    if !number.is_null() {
        // SAFETY: the caller's promise.
        unsafe { number.write(c_longlong::try_from(session).unwrap_or(c_longlong::MAX)) };
    }
    if !closed.is_null() {
        // SAFETY: the caller's promise.
        unsafe { closed.write(closed_ms.unwrap_or(0) as c_double / 1000.0) };
    }
    FOUND
}
