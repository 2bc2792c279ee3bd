//! Functions that say where a path leads.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use knarr_captured::guard;
use libc::{AT_FDCWD, size_t};

use crate::asked::asked;
use crate::does::Does;
use crate::hooks::{hooks, system};
use crate::next::{behind, errno, fail};
use crate::uses::Use;
use crate::whole;

fn reads(from: c_int, path: *const c_char) -> Use {
    Use::at(from, path, Does::Looks).of_link().reading(true)
}

hooks! {
    fn readlink(path: *const c_char, found: *mut c_char, size: size_t) -> isize = reads(AT_FDCWD, path),
        or system!(SYS_readlinkat, AT_FDCWD, path, found, size);
    fn readlinkat(from: c_int, path: *const c_char, found: *mut c_char, size: size_t) -> isize = reads(from, path),
        or system!(SYS_readlinkat, from, path, found, size);
}

hooks! {
    fn __readlink_chk(path: *const c_char, found: *mut c_char, size: size_t, room: size_t) -> isize
        = reads(AT_FDCWD, path), or nothing;
    fn __readlinkat_chk(from: c_int, path: *const c_char, found: *mut c_char, size: size_t, room: size_t) -> isize
        = reads(from, path), or nothing;
}

type Resolves = unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_void;
type ResolvesInRoom = unsafe extern "C" fn(*const c_char, *mut c_char, size_t) -> *mut c_void;
type ResolvesAnew = unsafe extern "C" fn(*const c_char) -> *mut c_void;

#[unsafe(export_name = "realpath")]
unsafe extern "C" fn resolve(path: *const c_char, found: *mut c_char) -> *mut c_void {
    let real = behind!(c"realpath", Resolves);
    // SAFETY: the program's own arguments.
    resolved(path, found, || real.map(|real| unsafe { real(path, found) }))
}

#[unsafe(export_name = "__realpath_chk")]
unsafe extern "C" fn resolve_in_room(path: *const c_char, found: *mut c_char, room: size_t) -> *mut c_void {
    let real = behind!(c"__realpath_chk", ResolvesInRoom);
    // SAFETY: the program's own arguments.
    resolved(path, found, || real.map(|real| unsafe { real(path, found, room) }))
}

#[unsafe(export_name = "canonicalize_file_name")]
unsafe extern "C" fn resolve_anew(path: *const c_char) -> *mut c_void {
    let real = behind!(c"canonicalize_file_name", ResolvesAnew);
    // SAFETY: the program's own argument.
    resolved(path, null_mut(), || real.map(|real| unsafe { real(path) }))
}

/// What `call` says, or where a file is to be that the program writes in a tier: `realpath(3)`.
fn resolved(path: *const c_char, found: *mut c_char, call: impl Fn() -> Option<*mut c_void>) -> *mut c_void {
    let uses = Use::of(path, Does::Resolves);
    let answer = asked(|| uses, || call().unwrap_or_else(|| fail(libc::ENOSYS)));
    if !answer.is_null() || errno() != libc::ENOENT {
        return answer;
    }
    let Some(place) = guard(None, || whole::place(uses.name)) else { return answer };
    // SAFETY: who gives a place gives one for the longest path; else the caller frees what is asked for here.
    unsafe {
        let bytes = place.as_bytes_with_nul();
        let found = if found.is_null() { libc::malloc(bytes.len()).cast() } else { found };
        if !found.is_null() {
            found.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        }
        found.cast()
    }
}
