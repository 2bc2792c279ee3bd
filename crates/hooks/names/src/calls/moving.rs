//! Functions that give files names.

use std::ffi::{c_char, c_int, c_uint};

use libc::AT_FDCWD;

use crate::does::Does;
use crate::hooks::{hooks, system};
use crate::uses::Use;

fn moves(from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_uint) -> Use {
    let does = match flags {
        flags if flags & libc::RENAME_EXCHANGE != 0 => Does::MovesFrom,
        flags if flags & libc::RENAME_NOREPLACE != 0 => Does::Makes,
        _ => Does::MovesTo,
    };
    Use::at(from, old, Does::MovesFrom).of_link().and(to, new, does)
}

fn links(from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_int) -> Use {
    Use::at(from, old, Does::Prepares).following(flags & libc::AT_SYMLINK_FOLLOW != 0).and(to, new, Does::Makes)
}

hooks! {
    fn rename(old: *const c_char, new: *const c_char) -> c_int = moves(AT_FDCWD, old, AT_FDCWD, new, 0),
        or system!(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, 0);
    fn renameat(from: c_int, old: *const c_char, to: c_int, new: *const c_char) -> c_int = moves(from, old, to, new, 0),
        or system!(SYS_renameat2, from, old, to, new, 0);
    fn renameat2(from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_uint) -> c_int
        = moves(from, old, to, new, flags), or system!(SYS_renameat2, from, old, to, new, flags);
    fn link(old: *const c_char, new: *const c_char) -> c_int = links(AT_FDCWD, old, AT_FDCWD, new, 0),
        or system!(SYS_linkat, AT_FDCWD, old, AT_FDCWD, new, 0);
    fn linkat(from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_int) -> c_int
        = links(from, old, to, new, flags), or system!(SYS_linkat, from, old, to, new, flags);
    fn symlink(old: *const c_char, new: *const c_char) -> c_int = Use::of(new, Does::Makes).of_link(),
        or system!(SYS_symlinkat, old, AT_FDCWD, new);
    fn symlinkat(old: *const c_char, to: c_int, new: *const c_char) -> c_int = Use::at(to, new, Does::Makes).of_link(),
        or system!(SYS_symlinkat, old, to, new);
}
