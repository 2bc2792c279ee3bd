//! What a name is: the last component of a path, and the directory that it is in, by its number. So it does not matter by
//! which path a program gets there.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};

use crate::page::filter;

/// A directory: the number of its device, and its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directory {
    pub(crate) device: u64,
    pub(crate) number: u64,
}

/// Bytes of a path that are looked at at once. The stack of a signal handler may be small.
const PIECE: usize = 1024;

impl Directory {
    /// The one at `path`, from `from` on. `None` if there is none.
    pub fn at(from: BorrowedFd<'_>, path: &CStr) -> Option<Self> {
        let found = statat(from, path, AtFlags::empty()).ok()?;
        #[allow(clippy::unnecessary_cast, reason = "the type depends on the system")]
        Some(Self { device: found.st_dev as u64, number: found.st_ino as u64 })
    }

    /// The one with the path `bytes`; of no bytes, `from` itself. `None` if there is none.
    pub fn of(from: BorrowedFd<'_>, bytes: &[u8]) -> Option<Self> {
        if bytes.len() < PIECE {
            return in_room(if bytes.is_empty() { b"." } else { bytes }, |path| Self::at(from, path)).flatten();
        }
        // The rest is in the directory that the first piece leads to.
        let end = bytes.get(..PIECE)?.iter().rposition(|&byte| byte == b'/').filter(|&end| end > 0)?;
        let (piece, rest) = bytes.split_at_checked(end)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = in_room(piece, |path| openat(from, path, flags, Mode::empty()).ok()).flatten()?;
        let begin = rest.iter().position(|&byte| byte != b'/').unwrap_or(rest.len());
        Self::of(opened.as_fd(), rest.get(begin..)?)
    }
}

/// Calls with a path and the zero behind it. `None` for one that is too long, or has a zero in it.
fn in_room<T>(bytes: &[u8], call: impl FnOnce(&CStr) -> T) -> Option<T> {
    let mut room = [0; PIECE];
    // The last byte stays zero.
    room.get_mut(..PIECE - 1)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let path = CStr::from_bytes_until_nul(&room).ok()?;
    (path.count_bytes() == bytes.len()).then(|| call(path))
}

/// The last component of a path, and the path of its directory, which ends in a slash or is empty. `None` if the path leads to
/// a directory by itself: it ends in a slash, or in `.` or `..`.
pub fn last_of(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let begin = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let (directory, last) = path.split_at_checked(begin)?;
    (!matches!(last, b"" | b"." | b"..")).then_some((last, directory))
}

/// A name.
#[derive(Debug, Clone, Copy)]
pub struct Key<'n> {
    pub(crate) last: &'n [u8],
    pub(crate) hash: u64,
    pub(crate) directory: Directory,
}

impl<'n> Key<'n> {
    /// The name `last` in a directory.
    pub fn new(last: &'n [u8], directory: Directory) -> Self {
        Self { last, hash: filter::hash(last), directory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;

    #[test]
    fn paths_have_a_last_component_or_lead_to_a_directory() {
        for (path, parts) in [
            ("a", Some(("a", ""))),
            ("/a", Some(("a", "/"))),
            ("x//y/../a.nc", Some(("a.nc", "x//y/../"))),
            ("...", Some(("...", ""))),
            ("x/", None),
            ("x/.", None),
            ("..", None),
            ("", None),
        ] {
            let parts = parts.map(|(last, directory): (&str, &str)| (last.as_bytes(), directory.as_bytes()));
            assert_eq!(last_of(path.as_bytes()), parts, "{path}");
        }
    }

    #[test]
    fn a_directory_is_the_same_by_every_path() {
        let place = std::env::temp_dir().join(format!("knarr-names-key-{}", std::process::id()));
        std::fs::create_dir_all(place.join("in")).unwrap();
        std::os::unix::fs::symlink("in", place.join("link")).unwrap();
        let of = |more: &str| Directory::of(CWD, place.join(more).as_os_str().as_encoded_bytes());
        let found = of("in/");
        assert!(found.is_some());
        for other in ["in", "link/", ".//in/../link/"] {
            assert_eq!(of(other), found, "{other}");
        }
        assert_ne!(of(""), found);
        assert_eq!(of("nowhere/../in/"), None, "as for the system");
        assert_eq!(Directory::of(CWD, b""), Directory::of(CWD, b"."));
        let long = [place.as_os_str().as_encoded_bytes(), "/in/../".repeat(600).as_bytes(), b"in/"].concat();
        assert_eq!(Directory::of(CWD, &long), found, "{} bytes", long.len());
        assert_eq!(Directory::of(CWD, &[b'x'; 5000]), None);
        std::fs::remove_dir_all(place).unwrap();
    }
}
