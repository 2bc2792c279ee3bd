//! Functions that say where a path leads.

use std::ffi::{c_char, c_int, c_void};

use libc::{AT_FDCWD, size_t};

use super::does::Does;
use super::hooks::{hooks, system};
use super::uses::Use;

fn reads(from: c_int, path: *const c_char) -> Use {
    Use::at(from, path, Does::Looks).of_link()
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
    fn realpath(path: *const c_char, found: *mut c_char) -> *mut c_void = Use::of(path, Does::Looks), or nothing;
    fn __realpath_chk(path: *const c_char, found: *mut c_char, room: size_t) -> *mut c_void
        = Use::of(path, Does::Looks), or nothing;
    fn canonicalize_file_name(path: *const c_char) -> *mut c_void = Use::of(path, Does::Looks), or nothing;
}
