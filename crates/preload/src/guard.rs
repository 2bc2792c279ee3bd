//! Keeps what Knarr does apart from the program.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what is Knarr's own: no panic of it reaches the program, and the program's `errno` stays.
pub(crate) fn guard<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    // SAFETY: the location is valid for the calling thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let errno = unsafe { *place };
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise);
    // SAFETY: as above.
    unsafe { *place = errno };
    result
}
