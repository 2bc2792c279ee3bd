//! Functions that remove files and directories.

use std::ffi::{c_char, c_int};

use libc::AT_FDCWD;

use crate::does::Does;
use crate::hooks::{hooks, system};
use crate::uses::Use;

fn removes(from: c_int, path: *const c_char, flags: c_int) -> Use {
    let does = if flags & libc::AT_REMOVEDIR != 0 { Does::RemovesDirectory } else { Does::Removes };
    Use::at(from, path, does).of_link()
}

hooks! {
    fn unlink(path: *const c_char) -> c_int = removes(AT_FDCWD, path, 0), or system!(SYS_unlinkat, AT_FDCWD, path, 0);
    fn unlinkat(from: c_int, path: *const c_char, flags: c_int) -> c_int = removes(from, path, flags),
        or system!(SYS_unlinkat, from, path, flags);
    fn rmdir(path: *const c_char) -> c_int = removes(AT_FDCWD, path, libc::AT_REMOVEDIR),
        or system!(SYS_unlinkat, AT_FDCWD, path, libc::AT_REMOVEDIR);
}

hooks! {
    fn remove(path: *const c_char) -> c_int = Use::of(path, Does::RemovesAny).of_link(), or nothing;
}
