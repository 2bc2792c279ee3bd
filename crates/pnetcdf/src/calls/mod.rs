//! The names that programs find here instead of in PnetCDF. Each calls PnetCDF itself unless the file is captured.
//!
//! `tests/e2e/test_pnetcdf_calls.py` compares the names with those of the installed library.

mod blocking;
mod buffers;
mod dtf;
mod files;
mod inquiries;
mod many;
mod nonblocking;

/// Exports a function under `$name`. `$real` calls the one of PnetCDF with the same arguments.
macro_rules! export {
    ($name:expr, ($($argument:ident: $type:ty),* $(,)?), $real:ident => $body:expr) => {
        const _: () = {
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn exported($($argument: $type),*) -> std::ffi::c_int {
                let $real = || {
                    // SAFETY: the program's own arguments.
                    unsafe { $crate::real::real!(@ concat!($name, "\0"), ($($type),*))($($argument),*) }
                };
                $body
            }
        };
    };
}
pub(crate) use export;

/// Calls `$mac!` for the functions of each type of memory: the last part of their names, and the type. PnetCDF has them for
/// twelve types of C.
macro_rules! each_type {
    ($mac:ident) => {
        $mac!("_text", Text);
        $mac!("_schar", I8);
        $mac!("_uchar", U8);
        $mac!("_short", I16);
        $mac!("_ushort", U16);
        $mac!("_int", I32);
        $mac!("_uint", U32);
        // On all systems that Knarr runs on.
        $mac!("_long", I64);
        $mac!("_float", F32);
        $mac!("_double", F64);
        $mac!("_longlong", I64);
        $mac!("_ulonglong", U64);
    };
}
pub(crate) use each_type;

/// The arguments that say which elements are meant, and what they are as a [`Shape`](crate::access::Shape): calls
/// `$mac!` with the name of each family, the arguments, the shape, and whatever else it was given.
macro_rules! each_shape {
    ($mac:ident $(, $more:tt)*) => {
        $mac!("var", (), Shape::Whole $(, $more)*);
        $mac!("var1", (start: *const Offset), Shape::One(start) $(, $more)*);
        $mac!("vara", (start: *const Offset, count: *const Offset),
            Shape::Part { start, count, stride: std::ptr::null(), imap: std::ptr::null() } $(, $more)*);
        $mac!("vars", (start: *const Offset, count: *const Offset, stride: *const Offset),
            Shape::Part { start, count, stride, imap: std::ptr::null() } $(, $more)*);
        $mac!("varm", (start: *const Offset, count: *const Offset, stride: *const Offset, imap: *const Offset),
            Shape::Part { start, count, stride, imap } $(, $more)*);
        $mac!("varn", (number: std::ffi::c_int, starts: *const *const Offset, counts: *const *const Offset),
            Shape::Several { number, starts, counts } $(, $more)*);
    };
}
pub(crate) use each_shape;
