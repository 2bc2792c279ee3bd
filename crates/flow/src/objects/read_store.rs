//! Where the bytes of an input lie that consists of many objects.

use std::fmt::Debug;
use std::path::PathBuf;

use knarr_array::error::Result;

/// What is wanted of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it, if it has at most this many bytes.
    Whole {
        /// Bytes.
        most: u64,
    },
    /// So many bytes from an offset on.
    At {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// So many bytes at its end.
    Last {
        /// Bytes.
        length: u64,
    },
}

impl Part {
    /// Offset and length of the part in an object of `held` bytes; `None` if the object does not have it.
    pub fn within(self, held: u64) -> Option<(u64, u64)> {
        match self {
            Self::Whole { most } => (held <= most).then_some((0, held)),
            Self::At { offset, length } => {
                offset.checked_add(length).filter(|&end| end <= held).map(|_| (offset, length))
            }
            Self::Last { length } => held.checked_sub(length).map(|offset| (offset, length)),
        }
    }
}

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Last part of the key.
    pub name: String,
    /// Other keys begin with it.
    pub is_folder: bool,
    /// It is a symbolic link to a folder or to an object.
    pub is_link: bool,
    /// Bytes of an object.
    pub length: u64,
}

/// Objects that are there, under names.
///
/// Keys are relative paths with `/` between their parts; a folder is what keys begin with, and `""` is the store itself.
/// Objects are read from many threads at once.
pub trait ReadStore: Send + Sync + Debug {
    /// Where the store is, for messages.
    fn place(&self) -> String;

    /// Replaces the contents of `out` by a part of an object, and returns the length of the whole one; `None` if there is
    /// no such object. If the object does not have the part, `out` is left empty.
    ///
    /// # Errors
    /// `Read`.
    fn get(&self, key: &str, part: Part, out: &mut Vec<u8>) -> Result<Option<u64>>;

    /// True if there is such an object.
    ///
    /// # Errors
    /// `Read`.
    fn has(&self, key: &str) -> Result<bool>;

    /// What is in a folder, ordered by name; `None` if the store cannot tell.
    ///
    /// # Errors
    /// `Read`.
    fn list(&self, folder: &str) -> Result<Option<Vec<Entry>>>;

    /// True if what is asked for crosses a network.
    fn is_remote(&self) -> bool {
        false
    }

    /// The file that an object is, if it is one of this machine.
    fn file(&self, _key: &str) -> Option<PathBuf> {
        None
    }
}

/// What is in a folder of a store whose objects have these keys, in order, and lengths. Keys with an empty part, which
/// stores of objects allow, are in no folder: a folder without a name would lie in itself.
pub fn entries_of<'a>(objects: impl IntoIterator<Item = (&'a str, u64)>, folder: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for (key, length) in objects {
        let below = match folder {
            "" => Some(key),
            _ => key.strip_prefix(folder).and_then(|below| below.strip_prefix('/')),
        };
        let Some(below) = below else { continue };
        let (name, is_folder) = below.split_once('/').map_or((below, false), |(name, _)| (name, true));
        if name.is_empty() {
            continue;
        }
        if entries.last().is_some_and(|last| last.name == name && last.is_folder == is_folder) {
            continue;
        }
        let length = if is_folder { 0 } else { length };
        entries.push(Entry { name: name.to_owned(), is_folder, is_link: false, length });
    }
    // Keys are ordered with the rest of them: `a-b` comes before `a/b`.
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    entries
}
