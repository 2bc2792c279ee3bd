//! Functions that ask about files.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::AT_FDCWD;

use crate::does::Does;
use crate::hooks::{hooks, system};
use crate::uses::Use;

fn looks(from: c_int, path: *const c_char, flags: c_int) -> Use {
    Use::at(from, path, Does::Looks).following(flags & libc::AT_SYMLINK_NOFOLLOW == 0).reading(true)
}

fn looks_around(path: *const c_char) -> Use {
    Use::of(path, Does::LooksAround)
}

/// What functions of the C library before 2.33 are told of the layout that they fill. On 64-bit systems there is one.
type Version = c_int;

hooks! {
    fn stat(path: *const c_char, found: *mut c_void) -> c_int = looks(AT_FDCWD, path, 0),
        or system!(SYS_newfstatat, AT_FDCWD, path, found, 0);
    fn stat64(path: *const c_char, found: *mut c_void) -> c_int = looks(AT_FDCWD, path, 0),
        or system!(SYS_newfstatat, AT_FDCWD, path, found, 0);
    fn lstat(path: *const c_char, found: *mut c_void) -> c_int = looks(AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW),
        or system!(SYS_newfstatat, AT_FDCWD, path, found, libc::AT_SYMLINK_NOFOLLOW);
    fn lstat64(path: *const c_char, found: *mut c_void) -> c_int = looks(AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW),
        or system!(SYS_newfstatat, AT_FDCWD, path, found, libc::AT_SYMLINK_NOFOLLOW);
    fn fstatat(from: c_int, path: *const c_char, found: *mut c_void, flags: c_int) -> c_int = looks(from, path, flags),
        or system!(SYS_newfstatat, from, path, found, flags);
    fn fstatat64(from: c_int, path: *const c_char, found: *mut c_void, flags: c_int) -> c_int = looks(from, path, flags),
        or system!(SYS_newfstatat, from, path, found, flags);
    fn __xstat(_version: Version, path: *const c_char, found: *mut c_void) -> c_int = looks(AT_FDCWD, path, 0),
        or system!(SYS_newfstatat, AT_FDCWD, path, found, 0);
    fn __xstat64(_version: Version, path: *const c_char, found: *mut c_void) -> c_int = looks(AT_FDCWD, path, 0),
        or system!(SYS_newfstatat, AT_FDCWD, path, found, 0);
    fn __lxstat(_version: Version, path: *const c_char, found: *mut c_void) -> c_int
        = looks(AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW),
        or system!(SYS_newfstatat, AT_FDCWD, path, found, libc::AT_SYMLINK_NOFOLLOW);
    fn __lxstat64(_version: Version, path: *const c_char, found: *mut c_void) -> c_int
        = looks(AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW),
        or system!(SYS_newfstatat, AT_FDCWD, path, found, libc::AT_SYMLINK_NOFOLLOW);
    fn __fxstatat(_version: Version, from: c_int, path: *const c_char, found: *mut c_void, flags: c_int) -> c_int
        = looks(from, path, flags), or system!(SYS_newfstatat, from, path, found, flags);
    fn __fxstatat64(_version: Version, from: c_int, path: *const c_char, found: *mut c_void, flags: c_int) -> c_int
        = looks(from, path, flags), or system!(SYS_newfstatat, from, path, found, flags);
    fn statx(from: c_int, path: *const c_char, flags: c_int, mask: c_uint, found: *mut c_void) -> c_int
        = looks(from, path, flags), or system!(SYS_statx, from, path, flags, mask, found);
    fn access(path: *const c_char, mode: c_int) -> c_int = looks(AT_FDCWD, path, 0),
        or system!(SYS_faccessat, AT_FDCWD, path, mode);
    fn statfs(path: *const c_char, found: *mut c_void) -> c_int = looks_around(path),
        or system!(SYS_statfs, path, found);
    fn statfs64(path: *const c_char, found: *mut c_void) -> c_int = looks_around(path),
        or system!(SYS_statfs, path, found);
}

hooks! {
    fn faccessat(from: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int = looks(from, path, flags),
        or nothing;
    fn eaccess(path: *const c_char, mode: c_int) -> c_int = looks(AT_FDCWD, path, 0), or nothing;
    fn euidaccess(path: *const c_char, mode: c_int) -> c_int = looks(AT_FDCWD, path, 0), or nothing;
    fn pathconf(path: *const c_char, which: c_int) -> isize = looks_around(path), or nothing;
    fn statvfs(path: *const c_char, found: *mut c_void) -> c_int = looks_around(path), or nothing;
    fn statvfs64(path: *const c_char, found: *mut c_void) -> c_int = looks_around(path), or nothing;
}
