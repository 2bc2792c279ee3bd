//! Functions that change the length of a file, its access, its times or its attributes.

use std::ffi::{c_char, c_int, c_void};

use libc::{AT_FDCWD, gid_t, mode_t, off_t, off64_t, size_t, uid_t};

use crate::does::Does;
use crate::hooks::{hooks, system};
use crate::uses::Use;

fn changes(from: c_int, path: *const c_char, flags: c_int) -> Use {
    Use::at(from, path, Does::Changes).following(flags & libc::AT_SYMLINK_NOFOLLOW == 0)
}

hooks! {
    fn truncate(path: *const c_char, length: off_t) -> c_int = changes(AT_FDCWD, path, 0),
        or system!(SYS_truncate, path, length);
    fn truncate64(path: *const c_char, length: off64_t) -> c_int = changes(AT_FDCWD, path, 0),
        or system!(SYS_truncate, path, length);
    fn chmod(path: *const c_char, mode: mode_t) -> c_int = changes(AT_FDCWD, path, 0),
        or system!(SYS_fchmodat, AT_FDCWD, path, mode);
    fn chown(path: *const c_char, owner: uid_t, group: gid_t) -> c_int = changes(AT_FDCWD, path, 0),
        or system!(SYS_fchownat, AT_FDCWD, path, owner, group, 0);
    fn lchown(path: *const c_char, owner: uid_t, group: gid_t) -> c_int
        = changes(AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW),
        or system!(SYS_fchownat, AT_FDCWD, path, owner, group, libc::AT_SYMLINK_NOFOLLOW);
    fn fchownat(from: c_int, path: *const c_char, owner: uid_t, group: gid_t, flags: c_int) -> c_int
        = changes(from, path, flags), or system!(SYS_fchownat, from, path, owner, group, flags);
    // Of a file that is open the system is told by a path that is null: such a call concerns no name.
    fn utimensat(from: c_int, path: *const c_char, times: *const c_void, flags: c_int) -> c_int
        = changes(from, path, flags), or system!(SYS_utimensat, from, path, times, flags);
    fn setxattr(path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int
        = changes(AT_FDCWD, path, 0), or system!(SYS_setxattr, path, name, value, size, flags);
    fn lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int
        = changes(AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW), or system!(SYS_lsetxattr, path, name, value, size, flags);
    fn removexattr(path: *const c_char, name: *const c_char) -> c_int = changes(AT_FDCWD, path, 0),
        or system!(SYS_removexattr, path, name);
    fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int
        = changes(AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW), or system!(SYS_lremovexattr, path, name);
    fn getxattr(path: *const c_char, name: *const c_char, value: *mut c_void, size: size_t) -> isize
        = Use::of(path, Does::Looks).reading(true), or system!(SYS_getxattr, path, name, value, size);
    fn listxattr(path: *const c_char, names: *mut c_char, size: size_t) -> isize
        = Use::of(path, Does::Looks).reading(true), or system!(SYS_listxattr, path, names, size);
    fn lgetxattr(path: *const c_char, name: *const c_char, value: *mut c_void, size: size_t) -> isize
        = Use::of(path, Does::Looks).of_link().reading(true), or system!(SYS_lgetxattr, path, name, value, size);
    fn llistxattr(path: *const c_char, names: *mut c_char, size: size_t) -> isize
        = Use::of(path, Does::Looks).of_link().reading(true), or system!(SYS_llistxattr, path, names, size);
}

hooks! {
    fn lchmod(path: *const c_char, mode: mode_t) -> c_int = changes(AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW),
        or nothing;
    fn fchmodat(from: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int = changes(from, path, flags),
        or nothing;
    fn utime(path: *const c_char, times: *const c_void) -> c_int = changes(AT_FDCWD, path, 0), or nothing;
    fn utimes(path: *const c_char, times: *const c_void) -> c_int = changes(AT_FDCWD, path, 0), or nothing;
    fn lutimes(path: *const c_char, times: *const c_void) -> c_int
        = changes(AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW), or nothing;
    fn futimesat(from: c_int, path: *const c_char, times: *const c_void) -> c_int = changes(from, path, 0), or nothing;
}
