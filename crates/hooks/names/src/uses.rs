//! What a call of the C library does, and with which names.

use std::ffi::{c_char, c_int};

use knarr_captured::whole::Makes;

use super::does::Does;
use super::path::Name;

/// What a call does with which name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    pub(crate) name: Name,
    pub(crate) does: Does,
    /// A symbolic link stands for what it leads to.
    pub(crate) follows: bool,
    /// The other name, of calls that take two.
    pub(crate) other: Option<(Name, Does)>,
    /// The call returns a descriptor, as libraries for files of data use it.
    pub(crate) gives_descriptor: bool,
    /// The call changes nothing.
    pub(crate) only_reads: bool,
    /// What waits in a tier serves it as well as the file in its place.
    pub(crate) reads: bool,
    /// This thread has locked what the program writes in tiers.
    pub(crate) is_locked: bool,
    /// It makes a file of data, which it opens.
    pub(crate) makes: Option<Makes>,
}

impl Use {
    pub(crate) fn of(path: *const c_char, does: Does) -> Self {
        Self::at(libc::AT_FDCWD, path, does)
    }

    pub(crate) fn at(from: c_int, path: *const c_char, does: Does) -> Self {
        Self {
            name: Name { from, path },
            does,
            follows: true,
            other: None,
            gives_descriptor: false,
            only_reads: false,
            reads: false,
            is_locked: false,
            makes: None,
        }
    }

    pub(crate) fn reading(self, reads: bool) -> Self {
        Self { only_reads: reads, reads, ..self }
    }

    pub(crate) fn making(self, makes: Option<Makes>) -> Self {
        Self { makes, ..self }
    }

    pub(crate) fn giving_descriptor(self) -> Self {
        Self { gives_descriptor: true, ..self }
    }

    /// A symbolic link stands for itself.
    pub(crate) fn of_link(self) -> Self {
        self.following(false)
    }

    pub(crate) fn following(self, follows: bool) -> Self {
        Self { follows, ..self }
    }

    pub(crate) fn and(self, from: c_int, path: *const c_char, does: Does) -> Self {
        Self { other: Some((Name { from, path }, does)), ..self }
    }
}
