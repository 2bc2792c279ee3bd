//! A path in memory of its own size: calls that need one may not allocate.

use std::ffi::{CStr, c_char};

use rustix::fs::{CWD, readlinkat_raw};

/// Bytes of the longest path that the system takes, with the zero at its end.
const LONGEST: usize = 4096;

/// A path that ends in a zero.
pub struct Path([u8; LONGEST]);

impl Path {
    /// These parts, one behind the other; `None` if they are too long.
    pub fn of(parts: &[&[u8]]) -> Option<Self> {
        let (mut path, mut end) = ([0; LONGEST], 0);
        for part in parts {
            let next = end + part.len();
            path.get_mut(end..next).filter(|_| next < LONGEST)?.copy_from_slice(part);
            end = next;
        }
        Some(Self(path))
    }

    /// What a link leads to; `None` if there is no such link.
    pub(crate) fn read_link(link: &Self) -> Option<Self> {
        let mut path = [0; LONGEST];
        let read = readlinkat_raw(CWD, link.as_c_str(), path.split_last_mut()?.1).ok()?;
        // A longer one may have been cut.
        (read < LONGEST - 1).then_some(Self(path))
    }

    /// The path as the C library takes it.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }

    /// Without the zero.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.as_c_str().to_bytes()
    }

    /// Its address.
    pub fn as_ptr(&self) -> *const c_char {
        self.as_c_str().as_ptr()
    }
}
