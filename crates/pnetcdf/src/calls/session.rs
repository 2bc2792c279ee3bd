//! What a program may ask of a session that it has opened, whichever library it reads with.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_double, c_int, c_longlong};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use knarr_names::own;

use crate::wanted::wanted;

/// There is a session of that name.
const FOUND: c_int = 0;
/// This process has opened none.
const NONE: c_int = 1;

/// A session, and when its writer has closed it: in milliseconds since 1970, if that is known.
type Opened = (u64, Option<u64>);

/// The session of each file that this process has opened last.
static OPENED: Mutex<BTreeMap<PathBuf, Opened>> = Mutex::new(BTreeMap::new());

/// This process has opened a session of the file `target`.
pub(crate) fn note_opened(target: &Path, session: u64, closed_ms: Option<u64>) {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).insert(target.to_owned(), (session, closed_ms));
}

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
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(&(session, closed_ms)) = opened.get(&wanted.target) else { return NONE };
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
