//! Functions that open files.

use std::ffi::{c_char, c_int, c_void};

use knarr_captured::whole::Makes;
use libc::{AT_FDCWD, mode_t};

use crate::does::Does;
use crate::hooks::{hooks, system};
use crate::uses::Use;

/// What opening with these flags does.
fn opens(from: c_int, path: *const c_char, flags: c_int) -> Use {
    let has = |flag: c_int| flags & flag == flag;
    let is_written = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let does = match () {
        // The path is that of a directory, and the file gets no name.
        () if has(libc::O_TMPFILE) => Does::Nothing,
        () if has(libc::O_DIRECTORY) => Does::Lists,
        () if has(libc::O_CREAT | libc::O_EXCL) => Does::Makes,
        () if has(libc::O_CREAT | libc::O_TRUNC) && is_written => Does::Empties,
        // What it leads to may be made by this call.
        () if has(libc::O_CREAT) => Does::OpensOrMakes,
        () => Does::Opens,
    };
    let makes = match does {
        // What is appended to is a log, as a rule, which is to be seen where it is.
        _ if has(libc::O_APPEND) => None,
        Does::Makes if is_written => Some(Makes::New),
        Does::Empties => Some(Makes::Anew),
        Does::OpensOrMakes if is_written => Some(Makes::IfNone),
        _ => None,
    };
    let use_of = Use::at(from, path, does).following(!has(libc::O_NOFOLLOW) && does != Does::Makes).making(makes);
    use_of.reading(does == Does::Opens && !is_written).giving_descriptor()
}

/// Flags of `creat`.
const ANEW: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

/// What opening a stream with this mode does.
fn streams(path: *const c_char, mode: *const c_char) -> Use {
    // SAFETY: the program's own argument: a mode that ends in a zero.
    let mode = if mode.is_null() { &[] } else { unsafe { std::ffi::CStr::from_ptr(mode) }.to_bytes() };
    let is_new = mode.iter().take_while(|&&byte| byte != b',').any(|&byte| byte == b'x');
    let does = match mode.first() {
        Some(b'w') if is_new => Does::Makes,
        Some(b'w') => Does::Empties,
        Some(b'a') => Does::OpensOrMakes,
        _ => Does::Opens,
    };
    let is_changed = mode.iter().take_while(|&&byte| byte != b',').any(|&byte| byte == b'+');
    let makes = match does {
        Does::Makes => Some(Makes::New),
        Does::Empties => Some(Makes::Anew),
        _ => None,
    };
    Use::of(path, does).making(makes).reading(does == Does::Opens && !is_changed)
}

hooks! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = opens(AT_FDCWD, path, flags),
        or system!(SYS_openat, AT_FDCWD, path, flags, mode);
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = opens(AT_FDCWD, path, flags),
        or system!(SYS_openat, AT_FDCWD, path, flags | libc::O_LARGEFILE, mode);
    fn __open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = opens(AT_FDCWD, path, flags),
        or system!(SYS_openat, AT_FDCWD, path, flags, mode);
    fn __open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = opens(AT_FDCWD, path, flags),
        or system!(SYS_openat, AT_FDCWD, path, flags | libc::O_LARGEFILE, mode);
    fn __open_2(path: *const c_char, flags: c_int) -> c_int = opens(AT_FDCWD, path, flags),
        or system!(SYS_openat, AT_FDCWD, path, flags, 0);
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int = opens(AT_FDCWD, path, flags),
        or system!(SYS_openat, AT_FDCWD, path, flags | libc::O_LARGEFILE, 0);
    fn openat(from: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = opens(from, path, flags),
        or system!(SYS_openat, from, path, flags, mode);
    fn openat64(from: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = opens(from, path, flags),
        or system!(SYS_openat, from, path, flags | libc::O_LARGEFILE, mode);
    fn __openat_2(from: c_int, path: *const c_char, flags: c_int) -> c_int = opens(from, path, flags),
        or system!(SYS_openat, from, path, flags, 0);
    fn __openat64_2(from: c_int, path: *const c_char, flags: c_int) -> c_int = opens(from, path, flags),
        or system!(SYS_openat, from, path, flags | libc::O_LARGEFILE, 0);
    fn creat(path: *const c_char, mode: mode_t) -> c_int = opens(AT_FDCWD, path, ANEW),
        or system!(SYS_openat, AT_FDCWD, path, ANEW, mode);
    fn creat64(path: *const c_char, mode: mode_t) -> c_int = opens(AT_FDCWD, path, ANEW),
        or system!(SYS_openat, AT_FDCWD, path, ANEW | libc::O_LARGEFILE, mode);
}

hooks! {
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut c_void = streams(path, mode), or nothing;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut c_void = streams(path, mode), or nothing;
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void = streams(path, mode),
        or nothing;
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void = streams(path, mode),
        or nothing;
}

// The file is opened in the child, by the C library itself: so what is pending by now is waited for here.
hooks! {
    fn posix_spawn_file_actions_addopen(actions: *mut c_void, descriptor: c_int, path: *const c_char, flags: c_int,
        mode: mode_t) -> c_int = Use::of(path, Does::Prepares), or nothing;
}
