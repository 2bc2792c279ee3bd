//! What a call of the C library does, and with which names.

use std::ffi::{c_char, c_int};

use super::does::Does;
use super::path::Name;

/// What a call does with which name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    pub(super) name: Name,
    pub(super) does: Does,
    /// A symbolic link stands for what it leads to.
    pub(super) follows: bool,
    /// The other name, of calls that take two.
    pub(super) other: Option<(Name, Does)>,
    /// The call returns a descriptor, as libraries for files of data use it.
    pub(super) gives_descriptor: bool,
}

impl Use {
    pub(super) fn of(path: *const c_char, does: Does) -> Self {
        Self::at(libc::AT_FDCWD, path, does)
    }

    pub(super) fn at(from: c_int, path: *const c_char, does: Does) -> Self {
        Self { name: Name { from, path }, does, follows: true, other: None, gives_descriptor: false }
    }

    pub(super) fn giving_descriptor(self) -> Self {
        Self { gives_descriptor: true, ..self }
    }

    /// A symbolic link stands for itself.
    pub(super) fn of_link(self) -> Self {
        self.following(false)
    }

    pub(super) fn following(self, follows: bool) -> Self {
        Self { follows, ..self }
    }

    pub(super) fn and(self, from: c_int, path: *const c_char, does: Does) -> Self {
        Self { other: Some((Name { from, path }, does)), ..self }
    }
}
