//! The buffer for `bput`. Values are copied into the spool, so the buffer is only counted.

use std::ffi::c_int;

use super::export;
use crate::codes::{ENULLABUF, ENULLBUF, EPENDINGBPUT, EPREVATTACHBUF, NOERR, Offset};
use crate::files;

export!("ncmpi_buffer_attach", (file: c_int, size: Offset), real => {
    files::with(file, |captured| match (u64::try_from(size), captured.requests.attached) {
        (Err(_) | Ok(0), _) => ENULLBUF,
        (_, Some(_)) => EPREVATTACHBUF,
        (Ok(size), None) => {
            captured.requests.attached = Some((size, 0));
            NOERR
        }
    })
    .unwrap_or_else(real)
});

export!("ncmpi_buffer_detach", (file: c_int), real => {
    files::with(file, |captured| {
        if captured.requests.attached.is_none() {
            return ENULLABUF;
        }
        if captured.requests.use_buffer() {
            return EPENDINGBPUT;
        }
        captured.requests.attached = None;
        NOERR
    })
    .unwrap_or_else(real)
});

/// Tells a number of the attached buffer of a captured file, or calls `real`.
///
/// # Safety
/// `number` is null or has room for one.
unsafe fn answer(file: c_int, number: *mut Offset, which: fn((u64, u64)) -> u64, real: &dyn Fn() -> c_int) -> c_int {
    files::with(file, |captured| {
        let Some(attached) = captured.requests.attached else { return ENULLABUF };
        // SAFETY: the caller's promise.
        if let Some(number) = unsafe { number.as_mut() } {
            *number = Offset::try_from(which(attached)).unwrap_or(Offset::MAX);
        }
        NOERR
    })
    .unwrap_or_else(real)
}

export!("ncmpi_inq_buffer_usage", (file: c_int, usage: *mut Offset), real => {
    // SAFETY: the program's own argument.
    unsafe { answer(file, usage, |(_, used)| used, &real) }
});

export!("ncmpi_inq_buffer_size", (file: c_int, size: *mut Offset), real => {
    // SAFETY: the program's own argument.
    unsafe { answer(file, size, |(size, _)| size, &real) }
});
