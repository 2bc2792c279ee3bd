//! Blocking puts and gets: {put, get} × {var, var1, vara, vars, varm, varn} × {twelve types, flexible} × {independent,
//! collective}, and the flexible ones with a datatype for the file (`vard`).

use std::ffi::{c_int, c_void};

use super::{each_shape, each_type, export};
use crate::codes::Offset;
use crate::file::How;
use crate::files;
use crate::values::access::{Access, Kind, Memory, Shape};
use crate::values::element::Element;
use crate::values::filetype::ByFiletype;

/// Puts into a captured file, or calls `real`.
///
/// # Safety
/// The access is as the function says that the program called.
unsafe fn put(file: c_int, access: Access, how: How, real: &dyn Fn() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    files::with(file, |captured| unsafe { captured.put(&access, how) }).unwrap_or_else(real)
}

/// Gets from a captured file, or calls `real`.
///
/// # Safety
/// As for [`put`].
unsafe fn get(file: c_int, access: Access, how: How, real: &dyn Fn() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    files::with(file, |captured| unsafe { captured.get(&access, how) }).unwrap_or_else(real)
}

macro_rules! typed {
    ($family:expr, ($($argument:ident: $type:ty),*), $shape:expr, $suffix:expr, $element:ident) => {
        typed!(@ "ncmpi_put_", $family, ($($argument: $type),*), $shape, $suffix, "", $element, put, Independent);
        typed!(@ "ncmpi_put_", $family, ($($argument: $type),*), $shape, $suffix, "_all", $element, put, Collective);
        typed!(@ "ncmpi_get_", $family, ($($argument: $type),*), $shape, $suffix, "", $element, get, Independent);
        typed!(@ "ncmpi_get_", $family, ($($argument: $type),*), $shape, $suffix, "_all", $element, get, Collective);
    };
    (@ $verb:expr, $family:expr, ($($argument:ident: $type:ty),*), $shape:expr, $suffix:expr, $all:expr,
        $element:ident, $call:ident, $how:ident) => {
        export!(concat!($verb, $family, $suffix, $all),
            (file: c_int, variable: c_int, $($argument: $type,)* buffer: *mut c_void), real => {
                let memory = Memory { buffer, kind: Kind::Typed(Element::$element) };
                // SAFETY: the program's own arguments.
                unsafe { $call(file, Access { variable, shape: $shape, memory }, How::$how, &real) }
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
        flexible!(@ "ncmpi_put_", $family, ($($argument: $type),*), $shape, "", put, Independent);
        flexible!(@ "ncmpi_put_", $family, ($($argument: $type),*), $shape, "_all", put, Collective);
        flexible!(@ "ncmpi_get_", $family, ($($argument: $type),*), $shape, "", get, Independent);
        flexible!(@ "ncmpi_get_", $family, ($($argument: $type),*), $shape, "_all", get, Collective);
    };
    (@ $verb:expr, $family:expr, ($($argument:ident: $type:ty),*), $shape:expr, $all:expr, $call:ident, $how:ident) => {
        export!(concat!($verb, $family, $all),
            (file: c_int, variable: c_int, $($argument: $type,)* buffer: *mut c_void, count: Offset, datatype: usize),
            real => {
                let memory = Memory { buffer, kind: Kind::Flexible { count, datatype } };
                // SAFETY: the program's own arguments.
                unsafe { $call(file, Access { variable, shape: $shape, memory }, How::$how, &real) }
            });
    };
}

each_shape!(flexible);

macro_rules! by_filetype {
    ($name:expr, $puts:expr, $collective:expr) => {
        export!($name, (file: c_int, variable: c_int, filetype: usize, buffer: *mut c_void, count: Offset, datatype: usize),
            real => {
                let call = ByFiletype { variable, filetype, buffer, count, datatype };
                // SAFETY: the program's own arguments.
                files::with(file, |captured| unsafe { captured.by_filetype(&call, $puts, $collective) })
                    .unwrap_or_else(real)
            });
    };
}

by_filetype!("ncmpi_put_vard", true, false);
by_filetype!("ncmpi_put_vard_all", true, true);
by_filetype!("ncmpi_get_vard", false, false);
by_filetype!("ncmpi_get_vard_all", false, true);
