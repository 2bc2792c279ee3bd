//! Functions that make what is no file of data: directories, pipes, devices. Where a file is pending they have to fail.

use std::ffi::{c_char, c_int, c_void};

use libc::{AT_FDCWD, dev_t, mode_t};

use crate::does::Does;
use crate::hooks::{hooks, system};
use crate::uses::Use;

fn makes(from: c_int, path: *const c_char) -> Use {
    Use::at(from, path, Does::Makes).of_link()
}

hooks! {
    fn mkdir(path: *const c_char, mode: mode_t) -> c_int = makes(AT_FDCWD, path),
        or system!(SYS_mkdirat, AT_FDCWD, path, mode);
    fn mkdirat(from: c_int, path: *const c_char, mode: mode_t) -> c_int = makes(from, path),
        or system!(SYS_mkdirat, from, path, mode);
    fn mknod(path: *const c_char, mode: mode_t, device: dev_t) -> c_int = makes(AT_FDCWD, path),
        or system!(SYS_mknodat, AT_FDCWD, path, mode, device);
    fn mknodat(from: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int = makes(from, path),
        or system!(SYS_mknodat, from, path, mode, device);
    fn mkfifo(path: *const c_char, mode: mode_t) -> c_int = makes(AT_FDCWD, path),
        or system!(SYS_mknodat, AT_FDCWD, path, mode | libc::S_IFIFO, 0);
    fn mkfifoat(from: c_int, path: *const c_char, mode: mode_t) -> c_int = makes(from, path),
        or system!(SYS_mknodat, from, path, mode | libc::S_IFIFO, 0);
}

hooks! {
    fn __xmknod(version: c_int, path: *const c_char, mode: mode_t, device: *mut c_void) -> c_int
        = makes(AT_FDCWD, path), or nothing;
    fn __xmknodat(version: c_int, from: c_int, path: *const c_char, mode: mode_t, device: *mut c_void) -> c_int
        = makes(from, path), or nothing;
}
