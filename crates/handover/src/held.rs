//! The values and the log of one rank, wherever they are.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::strided::ReadAt;

use crate::far::{Far, FarValues};
use crate::put::Put;
use crate::puts::{name_of_more, read_puts};

/// Bytes of another node that come at once, with what lies between those that are wanted.
const AT_ONCE: u64 = 1 << 26;

/// Where the values and the log of a rank are.
pub enum Held {
    /// In files of this node.
    Here {
        /// The values.
        values: PathBuf,
        /// The log.
        log: PathBuf,
    },
    /// On another node.
    There(Far),
}

impl Held {
    /// What errors call it.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Here { log, .. } => log.display().to_string(),
            Self::There(far) => far.place(),
        }
    }
}

/// The values of one rank.
#[derive(Debug)]
pub(crate) struct Rank {
    values: Values,
    /// Bytes of values in the first file, and what lies behind.
    first: u64,
    more: Option<Values>,
}

impl Rank {
    /// The puts of a rank, and its values.
    pub(crate) fn open(held: &Held) -> Result<(Vec<Put>, Self)> {
        match held {
            Held::Here { values, log } => {
                let found = read_puts(log)?;
                let more = name_of_more(values);
                let more = if more.exists() { Some(Values::open(&more)?) } else { None };
                Ok((found.puts, Self { values: Values::open(values)?, first: found.first, more }))
            }
            Held::There(far) => {
                let (found, values, more) = far.puts()?;
                let (values, more) = (Values::there(values), more.map(Values::there));
                Ok((found.puts, Self { values, first: found.first, more }))
            }
        }
    }

    /// The file with the values of a put, and where they begin in it.
    pub(crate) fn place(&self, put: &Put) -> Option<(&Values, u64)> {
        if put.byte_len() == 0 {
            return Some((&self.values, 0));
        }
        let (values, offset) = match put.offset.checked_sub(self.first) {
            Some(behind) => (self.more.as_ref()?, behind),
            None => (&self.values, put.offset),
        };
        (offset.saturating_add(put.byte_len()) <= values.length).then_some((values, offset))
    }
}

/// A file of values.
pub(crate) struct Values {
    file: Stored,
    /// Its bytes.
    pub(crate) length: u64,
}

enum Stored {
    Here(File),
    There(FarValues),
}

impl fmt::Debug for Values {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Values").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Values {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::read(path, &error))?;
        let length = file.metadata().map_err(|error| Error::read(path, &error))?.len();
        Ok(Self { file: Stored::Here(file), length })
    }

    fn there(values: FarValues) -> Self {
        Self { length: values.length, file: Stored::There(values) }
    }

    /// Calls `read` with what gives the bytes from `begin` to `end`, or some of them: from another node they come at once.
    pub(crate) fn with<T>(&self, begin: u64, end: u64, read: impl FnOnce(&dyn ReadAt) -> Result<T>) -> Result<T> {
        match &self.file {
            Stored::Here(file) => read(file),
            Stored::There(values) if end.saturating_sub(begin) <= AT_ONCE => read(&values.ahead(begin, end)?),
            Stored::There(values) => read(values),
        }
    }
}

/// The error of a read, which keeps the words of the other side.
pub(crate) fn read_error(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::corrupt("the file became shorter while it was read"),
        _ => Error::new(ErrorKind::Read, error.to_string()),
    }
}
