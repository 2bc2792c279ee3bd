//! What the header cannot tell of a captured file: its name, its records, what waits, what is filled.

use std::ffi::{c_char, c_int, c_void};

use super::export;
use crate::codes::{NOERR, Offset};
use crate::file::Mode;
use crate::files;
use crate::transcoded;

/// Puts the number of records in the place of the length that the header has for the unlimited dimension.
///
/// # Safety
/// `length` is null or has room for a number.
unsafe fn correct(file: c_int, dimension: c_int, length: *mut Offset, real: &dyn Fn() -> c_int) -> c_int {
    let code = real();
    if code != NOERR || length.is_null() {
        return code;
    }
    files::with(file, |captured| {
        if captured.mode == Mode::Define && captured.records == 0 || captured.unlimited() != dimension {
            return NOERR;
        }
        if let Err(code) = captured.know_all_records() {
            return code;
        }
        // SAFETY: the caller's promise.
        unsafe { length.write(Offset::try_from(captured.records).unwrap_or(Offset::MAX)) };
        NOERR
    })
    .unwrap_or(code)
}

export!("ncmpi_inq_dimlen", (file: c_int, dimension: c_int, length: *mut Offset), real => {
    // SAFETY: the program's own argument.
    unsafe { correct(file, dimension, length, &real) }
});

export!("ncmpi_inq_dim", (file: c_int, dimension: c_int, name: *mut c_char, length: *mut Offset), real => {
    // SAFETY: the program's own argument.
    unsafe { correct(file, dimension, length, &real) }
});

export!("ncmpi_inq_path", (file: c_int, length: *mut c_int, path: *mut c_char), real => {
    let Some(named) = files::with(file, |captured| captured.common.named.clone()).or_else(|| transcoded::with(file, |file| file.named.clone())) else {
        return real();
    };
    // SAFETY: the program's own arguments: null, or room for what they are for; a name with its zero.
    unsafe {
        if !length.is_null() {
            length.write(c_int::try_from(named.len()).unwrap_or(c_int::MAX));
        }
        if !path.is_null() {
            std::ptr::copy_nonoverlapping(named.as_ptr().cast(), path, named.len());
            path.add(named.len()).write(0);
        }
    }
    NOERR
});

export!("ncmpi_inq_put_size", (file: c_int, size: *mut Offset), real => {
    files::with(file, |captured| {
        let code = real();
        // SAFETY: the program's own argument. PnetCDF counts its header there.
        if let (NOERR, Some(size)) = (code, unsafe { size.as_mut() }) {
            *size += Offset::try_from(captured.put_bytes).unwrap_or(0);
        }
        code
    })
    .unwrap_or_else(real)
});

export!("ncmpi_inq_nreqs", (file: c_int, count: *mut c_int), real => {
    files::with(file, |captured| {
        // SAFETY: the program's own argument.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = c_int::try_from(captured.requests.len()).unwrap_or(c_int::MAX);
        }
        NOERR
    })
    .unwrap_or_else(real)
});

export!("ncmpi_inq_var_fill", (file: c_int, variable: c_int, no_fill: *mut c_int, value: *mut c_void), real => {
    files::with(file, |captured| {
        let code = real();
        let asked = captured.fills.get(&variable).copied().unwrap_or(captured.fills_all);
        // SAFETY: the program's own argument.
        if let (NOERR, Some(no_fill)) = (code, unsafe { no_fill.as_mut() }) {
            *no_fill = c_int::from(!asked);
        }
        code
    })
    .unwrap_or_else(real)
});
