//! Keeps what Knarr does apart from the program.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what is Knarr's own: no panic of it reaches the program, the program's `errno` stays, and no name that it uses is
/// waited for.
pub fn guard<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    // SAFETY: the location is valid for the calling thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let errno = unsafe { *place };
    let result = catch_unwind(AssertUnwindSafe(|| knarr_names::own(work))).unwrap_or(otherwise);
    // SAFETY: as above.
    unsafe { *place = errno };
    result
}
