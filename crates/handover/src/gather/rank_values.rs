//! The values and the log of one rank, on this node or another.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};

use crate::log::packed_parts::PackedParts;
use crate::log::records::BEGIN;
use crate::log::spill::name_of_more;
use crate::remote::remote_values::{RemoteRank, RemoteValues};

/// Where the values and the log of a rank are.
pub enum RankValues {
    /// In files of this node.
    Here {
        /// The values.
        values: PathBuf,
        /// The log.
        log: PathBuf,
    },
    /// On another node.
    There(RemoteRank),
}

/// The bytes of a log that may be written meanwhile. Its beginning says where values lie: one that has changed is for records
/// that came later, so all is read again.
fn read_log(log: &Path) -> io::Result<Vec<u8>> {
    loop {
        let bytes = fs::read(log)?;
        let mut begin = [0; BEGIN];
        let begin = begin.get_mut(..bytes.len().min(BEGIN)).unwrap_or_default();
        File::open(log)?.read_exact_at(begin, 0)?;
        if bytes.starts_with(begin) {
            return Ok(bytes);
        }
    }
}

/// Where the values of a rank are whose log was read.
pub(crate) enum Found {
    Here(PathBuf),
    /// The first file of values, and the second if there is one.
    There(RemoteValues, Option<RemoteValues>),
}

impl RankValues {
    /// What errors call it.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Here { log, .. } => log.display().to_string(),
            Self::There(remote) => remote.place(),
        }
    }

    /// Bytes of the log, if it is on this node.
    pub fn logged(&self) -> Option<u64> {
        match self {
            Self::Here { log, .. } => fs::metadata(log).ok().map(|found| found.len()),
            Self::There(_) => None,
        }
    }

    /// The bytes of the log, and where the values are.
    pub(crate) fn read(&self) -> Result<(Vec<u8>, Found)> {
        match self {
            Self::Here { values, log } => {
                let bytes = read_log(log).map_err(|error| Error::read(log, &error))?;
                Ok((bytes, Found::Here(values.clone())))
            }
            Self::There(remote) => remote.read().map(|(log, values, more)| (log, Found::There(values, more))),
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
    /// Opens the values of a rank, of which so many bytes lie in the first file. The two files have to have as many bytes as
    /// `ends` says.
    ///
    /// # Errors
    /// `NotFound` or `Read`; `Corrupt` if they are shorter.
    pub(crate) fn open(found: Found, first: u64, ends: [u64; 2]) -> Result<Self> {
        let rank = match found {
            Found::Here(path) => {
                let more = Values::spilled(&path)?;
                Self { values: Values::open(&path)?, first, more }
            }
            Found::There(values, more) => Self { values: Values::there(values), first, more: more.map(Values::there) },
        };
        let has = [rank.values.length, rank.more.as_ref().map_or(0, |more| more.length)];
        let is_there = ends.iter().zip(has).all(|(end, has)| *end <= has);
        if is_there { Ok(rank) } else { Err(Error::corrupt("a put whose values are not all there")) }
    }

    /// True if the values are on another node.
    pub(crate) fn is_remote(&self) -> bool {
        self.values.remote().is_some()
    }

    /// Where the values lie that begin at an offset: in the first file or the second (0 or 1), and at which byte.
    pub(crate) fn place(&self, offset: u64) -> (usize, u64) {
        offset.checked_sub(self.first).map_or((0, offset), |behind| (1, behind))
    }

    /// The first file of values or the second.
    pub(crate) fn values(&self, file: usize) -> Option<&Values> {
        if file == 0 { Some(&self.values) } else { self.more.as_ref() }
    }
}

/// A file of values.
pub(crate) struct Values {
    file: Stored,
    /// Bytes that it had when it was opened.
    pub(crate) length: u64,
}

enum Stored {
    Here(File),
    /// Some parts of it are packed.
    Packed(File, PackedParts),
    There(RemoteValues),
}

impl fmt::Debug for Values {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Values").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Values {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let (file, length) = open(path)?;
        Ok(Self { file: Stored::Here(file), length })
    }

    /// The second file beside the first one at `values`, if there is one.
    pub(crate) fn spilled(values: &Path) -> Result<Option<Self>> {
        let more = name_of_more(values);
        if !more.exists() {
            return Ok(None);
        }
        // Parts are in the list when a log says anything of their values, and they lie in the file that is open then.
        let (parts, (file, length)) = (PackedParts::read(values)?, open(&more)?);
        Ok(Some(Self { file: Stored::Packed(file, parts), length }))
    }

    fn there(values: RemoteValues) -> Self {
        Self { length: values.length, file: Stored::There(values) }
    }

    /// What to ask, if it is on another node.
    pub(crate) fn remote(&self) -> Option<&RemoteValues> {
        match &self.file {
            Stored::Here(_) | Stored::Packed(..) => None,
            Stored::There(values) => Some(values),
        }
    }

    /// Fills `out` with the bytes from `at` on, which are on this node.
    pub(crate) fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        match &self.file {
            Stored::Here(file) => file.read_exact_at(out, at),
            Stored::Packed(file, parts) => parts.read_exact_at(file, out, at),
            Stored::There(_) => Err(io::Error::other("values on another node")),
        }
    }
}

fn open(path: &Path) -> Result<(File, u64)> {
    let file = File::open(path).map_err(|error| Error::read(path, &error))?;
    let length = file.metadata().map_err(|error| Error::read(path, &error))?.len();
    Ok((file, length))
}

/// The error of a read, which keeps the words of the other side.
pub(crate) fn read_error(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::corrupt("the file became shorter while it was read"),
        io::ErrorKind::InvalidData => Error::corrupt(error.to_string()),
        _ => Error::new(ErrorKind::Read, error.to_string()),
    }
}
