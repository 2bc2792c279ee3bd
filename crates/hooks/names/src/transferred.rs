//! Names of files that come from other components, or go to some.
//!
//! Programs that open a file with HDF5, netCDF or PnetCDF get values from the memory of the other component. Those that use the
//! C library get a file: before a call that takes its name, the launcher of the other side makes one of what was closed.
//!
//! Python's packages read the beginning of a file before they have a library open it, and go on if there is none. So in Python
//! nothing is made for `open` alone: values come the short way then.

use std::ffi::{CStr, OsString};
use std::sync::OnceLock;

use knarr_captured::sessions::{Await, as_file, closed_in, leaves, removed, renamed_to};
use knarr_names::{Names, here, is_opened_by_library, is_own};

use super::does::Does;
use super::uses::Use;
use knarr_captured::guard;

/// True in a process of Python.
fn is_python() -> bool {
    static IS: OnceLock<bool> = OnceLock::new();
    *IS.get_or_init(|| {
        let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let is_named = program.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"));
        is_named || knarr_caller::has_loaded("libpython")
    })
}

/// The program is about to make a call.
pub(crate) fn before(uses: &Use) {
    if is_opened_by_library() || uses.name.is_elsewhere() {
        return;
    }
    guard((), || {
        let Some(path) = uses.name.bytes() else { return };
        match uses.does {
            Does::Looks | Does::LooksAround | Does::Resolves | Does::Opens | Does::Prepares => {
                if !(uses.gives_descriptor && is_python()) {
                    as_file(&path, if uses.follows { Await::Any } else { Await::Next });
                }
            }
            Does::OpensOrMakes | Does::Changes => {
                as_file(&path, Await::Closed);
            }
            Does::MovesFrom => {
                if !as_file(&path, Await::Closed) {
                    leaves(&path);
                }
            }
            // A function that lists by itself shows what is on the disk.
            Does::Scans | Does::Walks => {
                let found = match uses.does {
                    Does::Scans => closed_in(&path, false),
                    _ => closed_in(fixed(&path), true),
                };
                for target in found {
                    as_file(target.as_os_str().as_encoded_bytes(), Await::Closed);
                }
            }
            Does::Lists
            | Does::RemovesDirectory
            | Does::Nothing
            | Does::Makes
            | Does::Empties
            | Does::Removes
            | Does::RemovesAny
            | Does::MovesTo => {}
        }
    });
}

/// The program has made a call.
pub(crate) fn after(uses: &Use) {
    if let Some((name, _)) = uses.other {
        guard((), || name.bytes().iter().for_each(|path| renamed_to(path)));
    }
}

/// True if the program has removed what is on no disk.
pub(crate) fn is_removed(uses: &Use) -> bool {
    guard(false, || uses.name.bytes().is_some_and(|path| removed(&path)))
}

/// True if files come from other components or go to some, and the program itself makes the call.
pub(crate) fn has_any() -> bool {
    here().is_some_and(Names::has_transfers) && !is_own() && !is_opened_by_library()
}

/// Names that a listing of the directory at `path` has besides those on the disk.
pub(crate) fn listed(path: &CStr) -> Vec<OsString> {
    if !has_any() {
        return Vec::new();
    }
    let names = || {
        closed_in(path.to_bytes(), false).iter().filter_map(|path| path.file_name()).map(ToOwned::to_owned).collect()
    };
    guard(Vec::new(), names)
}

/// The directory up to which a pattern has no wildcards.
fn fixed(pattern: &[u8]) -> &[u8] {
    let wild = pattern.iter().position(|byte| b"*?[".contains(byte));
    let fixed = &pattern[..wild.unwrap_or(pattern.len())];
    match fixed.iter().rposition(|&byte| byte == b'/') {
        _ if wild.is_none() => fixed,
        Some(0) => b"/",
        Some(end) => &fixed[..end],
        None => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_begins_in_the_directory_before_its_first_wildcard() {
        for (pattern, directory) in
            [("a/b/f*.nc", "a/b"), ("/f?.nc", "/"), ("*.nc", ""), ("a/b", "a/b"), ("a/[b]/c", "a")]
        {
            assert_eq!(fixed(pattern.as_bytes()), directory.as_bytes(), "{pattern}");
        }
    }
}
