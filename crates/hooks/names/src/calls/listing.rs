//! Functions that list directories, or what is below them. What is pending there is listed, too.

use std::ffi::{c_char, c_int, c_void};

use libc::AT_FDCWD;

use crate::does::Does;
use crate::hooks::hooks;
use crate::uses::Use;

fn scans(from: c_int, path: *const c_char) -> Use {
    Use::at(from, path, Does::Scans)
}

/// `paths` ends in a null.
fn walks(paths: *const *const c_char) -> Use {
    // SAFETY: the program's own argument, which has one element at least.
    let first = unsafe { paths.as_ref() }.copied().unwrap_or(std::ptr::null());
    Use::of(first, Does::Walks)
}

hooks! {
    fn scandir(path: *const c_char, found: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int
        = scans(AT_FDCWD, path), or nothing;
    fn scandir64(path: *const c_char, found: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int
        = scans(AT_FDCWD, path), or nothing;
    fn scandirat(from: c_int, path: *const c_char, found: *mut c_void, filter: *const c_void, order: *const c_void)
        -> c_int = scans(from, path), or nothing;
    fn scandirat64(from: c_int, path: *const c_char, found: *mut c_void, filter: *const c_void, order: *const c_void)
        -> c_int = scans(from, path), or nothing;
    fn glob(pattern: *const c_char, flags: c_int, error: *const c_void, found: *mut c_void) -> c_int
        = Use::of(pattern, Does::Walks), or nothing;
    fn glob64(pattern: *const c_char, flags: c_int, error: *const c_void, found: *mut c_void) -> c_int
        = Use::of(pattern, Does::Walks), or nothing;
    fn ftw(path: *const c_char, visit: *const c_void, most: c_int) -> c_int = Use::of(path, Does::Walks), or nothing;
    fn ftw64(path: *const c_char, visit: *const c_void, most: c_int) -> c_int = Use::of(path, Does::Walks), or nothing;
    fn nftw(path: *const c_char, visit: *const c_void, most: c_int, flags: c_int) -> c_int
        = Use::of(path, Does::Walks), or nothing;
    fn nftw64(path: *const c_char, visit: *const c_void, most: c_int, flags: c_int) -> c_int
        = Use::of(path, Does::Walks), or nothing;
    fn fts_open(paths: *const *const c_char, options: c_int, order: *const c_void) -> *mut c_void = walks(paths),
        or nothing;
    fn fts64_open(paths: *const *const c_char, options: c_int, order: *const c_void) -> *mut c_void = walks(paths),
        or nothing;
}
