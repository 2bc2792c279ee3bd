//! Calls of HDF5 that need the values in the file, or that Knarr does not know: a captured file is handed back before them.

use std::ffi::{c_int, c_void};

use super::{handed_back, handed_back_if_can_be};
use crate::host::{CallerHdf5, Hid};
use crate::needing::FUNCTIONS;
use crate::parallel::file::any;
use knarr_captured::guard;

/// How many arguments are in registers on all processors.
const ARGUMENTS: usize = 6;

/// Called before the function of this number, with its arguments. Returns what is to be called then.
pub(crate) unsafe extern "C" fn needs_file(
    arguments: *const [usize; ARGUMENTS],
    number: u32,
    caller: usize,
) -> *mut c_void {
    let host = CallerHdf5::of(caller);
    let Some(function) = FUNCTIONS.get(number as usize) else { return refuse as *mut c_void };
    let Some(real) = host.needing.0.get(number as usize).copied().filter(|real| !real.is_null()) else {
        return refuse as *mut c_void;
    };
    if !any() {
        return real;
    }
    // SAFETY: the trampoline has stored them there.
    let arguments = unsafe { *arguments };
    let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
    // SAFETY: an argument that is a list has the objects of the caller, one at least if it is not null.
    let listed = |at: usize| unsafe { (argument(at) as *const Hid).as_ref() }.copied();
    let object = |at: usize| Some(argument(at).cast_signed() as Hid);
    let may_be = guard(false, || {
        let objects = function.objects.iter().filter_map(|&at| function.list.map_or_else(|| object(at), listed));
        objects.fold(true, |all, object| {
            if function.is_refused {
                all & handed_back(host, object, function.why)
            } else {
                handed_back_if_can_be(host, object, function.why);
                all
            }
        })
    });
    if may_be { real } else { refuse as *mut c_void }
}

/// Called in place of a function that cannot be.
extern "C" fn refuse() -> c_int {
    -1
}
