//! Nonblocking puts and gets: {iput, iget, bput} × {var, var1, vara, vars, varm, varn} × {twelve types, flexible}, and what
//! waits for them.

use std::ffi::{c_int, c_void};

use super::{each_shape, each_type, export};
use crate::codes::{EINVAL, GET_REQ_ALL, NOERR, Offset, PUT_REQ_ALL, REQ_ALL, REQ_NULL};
use crate::file::Captured;
use crate::files;
use crate::requests::Wanted;
use crate::values::access::{Access, Kind, Memory, Shape};
use crate::values::element::Element;

/// What kind of request a function makes.
#[derive(Clone, Copy)]
enum Later {
    Iput,
    Iget,
    Bput,
}

/// Makes a request of a captured file, or calls `real`.
///
/// # Safety
/// The access is as the function says that the program called; `request` is null or has room for a number.
unsafe fn later(file: c_int, access: Access, later: Later, request: *mut c_int, real: &dyn Fn() -> c_int) -> c_int {
    let make = |captured: &mut Captured| {
        // SAFETY: the caller's promise.
        let mut request = unsafe { request.as_mut() };
        // What fails leaves a request that stands for nothing.
        if let Some(request) = &mut request {
            **request = REQ_NULL;
        }
        // SAFETY: the caller's promise.
        unsafe {
            match later {
                Later::Iput => captured.put_later(&access, request, false),
                Later::Bput => captured.put_later(&access, request, true),
                Later::Iget => captured.get_later(&access, request),
            }
        }
    };
    files::with(file, make).unwrap_or_else(real)
}

macro_rules! typed {
    ($family:expr, ($($argument:ident: $type:ty),*), $shape:expr, $suffix:expr, $element:ident) => {
        typed!(@ "ncmpi_iput_", $family, ($($argument: $type),*), $shape, $suffix, $element, Iput);
        typed!(@ "ncmpi_iget_", $family, ($($argument: $type),*), $shape, $suffix, $element, Iget);
        typed!(@ "ncmpi_bput_", $family, ($($argument: $type),*), $shape, $suffix, $element, Bput);
    };
    (@ $verb:expr, $family:expr, ($($argument:ident: $type:ty),*), $shape:expr, $suffix:expr, $element:ident,
        $later:ident) => {
        export!(concat!($verb, $family, $suffix),
            (file: c_int, variable: c_int, $($argument: $type,)* buffer: *mut c_void, request: *mut c_int), real => {
                let memory = Memory { buffer, kind: Kind::Typed(Element::$element) };
                // SAFETY: the program's own arguments.
                unsafe { later(file, Access { variable, shape: $shape, memory }, Later::$later, request, &real) }
            });
    };
}

macro_rules! of_type {
    ($suffix:expr, $element:ident) => {
        each_shape!(typed, $suffix, $element);
    };
}

each_type!(of_type);

macro_rules! flexible {
    ($family:expr, ($($argument:ident: $type:ty),*), $shape:expr) => {
        flexible!(@ "ncmpi_iput_", $family, ($($argument: $type),*), $shape, Iput);
        flexible!(@ "ncmpi_iget_", $family, ($($argument: $type),*), $shape, Iget);
        flexible!(@ "ncmpi_bput_", $family, ($($argument: $type),*), $shape, Bput);
    };
    (@ $verb:expr, $family:expr, ($($argument:ident: $type:ty),*), $shape:expr, $later:ident) => {
        export!(concat!($verb, $family),
            (file: c_int, variable: c_int, $($argument: $type,)* buffer: *mut c_void, count: Offset, datatype: usize,
                request: *mut c_int),
            real => {
                let memory = Memory { buffer, kind: Kind::Flexible { count, datatype } };
                // SAFETY: the program's own arguments.
                unsafe { later(file, Access { variable, shape: $shape, memory }, Later::$later, request, &real) }
            });
    };
}

each_shape!(flexible);

/// Which requests the program means.
///
/// # Safety
/// `requests` leads to as many numbers as `count` says, if it is not negative.
unsafe fn wanted(count: c_int, requests: *const c_int) -> Result<Wanted, c_int> {
    match count {
        REQ_ALL => Ok(Wanted::All),
        GET_REQ_ALL => Ok(Wanted::Gets),
        PUT_REQ_ALL => Ok(Wanted::Puts),
        0 => Ok(Wanted::Numbers(Vec::new())),
        1.. if !requests.is_null() => {
            let count = usize::try_from(count).unwrap_or(0);
            // SAFETY: the caller's promise.
            Ok(Wanted::Numbers(unsafe { std::slice::from_raw_parts(requests, count) }.to_vec()))
        }
        _ => Err(EINVAL),
    }
}

/// Waits for requests, or cancels them, and tells of each of them.
///
/// # Safety
/// As for [`wanted`]; `statuses` is null or has as many places.
unsafe fn settle(
    captured: &mut Captured,
    (count, requests, statuses): (c_int, *mut c_int, *mut c_int),
    settle: impl FnOnce(&mut Captured, &Wanted) -> (Vec<c_int>, c_int),
) -> c_int {
    // SAFETY: the caller's promise.
    let wanted = match unsafe { wanted(count, requests) } {
        Ok(wanted) => wanted,
        Err(code) => return code,
    };
    let (codes, first) = settle(captured, &wanted);
    let Wanted::Numbers(_) = wanted else { return first };
    for (at, code) in codes.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            if code == NOERR {
                requests.add(at).write(REQ_NULL);
            }
            if !statuses.is_null() {
                statuses.add(at).write(code);
            }
        }
    }
    first
}

macro_rules! settles {
    ($name:expr, $call:expr) => {
        export!($name, (file: c_int, count: c_int, requests: *mut c_int, statuses: *mut c_int), real => {
            files::with(file, |captured| {
                // SAFETY: the program's own arguments.
                unsafe { settle(captured, (count, requests, statuses), $call) }
            })
            .unwrap_or_else(real)
        });
    };
}

settles!("ncmpi_wait", |captured, wanted| captured.wait(wanted, false));
settles!("ncmpi_wait_all", |captured, wanted| captured.wait(wanted, true));
settles!("ncmpi_cancel", Captured::cancel);
