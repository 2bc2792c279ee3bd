//! Processes that do one thing together: what is needed of MPI, and no more.
//!
//! [`Comm`] is small so that any MPI can be behind it, a Python one too. What else is needed is made of its two operations
//! here. All of them are *collective*: every rank calls them, in the same order.

mod threads;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};

pub use threads::Threads;

/// The rank that collects what all have and publishes results.
pub const ROOT: usize = 0;

/// Ranks of one job and messages between them. Only the thread that owns it calls it, as MPI_THREAD_FUNNELED asks.
pub trait Comm {
    /// Number of this process, below [`Comm::size`].
    fn rank(&self) -> usize;

    /// Number of processes, at least 1.
    fn size(&self) -> usize;

    /// The lowest rank on the same node: ranks with equal ones share memory and local disks.
    fn node(&self) -> usize;

    /// Brings the bytes of all ranks to `root`, in the order of ranks; the others get `None`. Lengths may differ.
    ///
    /// # Errors
    /// `Interrupted` if a rank that has to take part is gone, `Internal` for what the library behind it reports, `Usage` if
    /// there is no rank `root`. After an error nothing else can be done together.
    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>>;

    /// Brings `bytes` of `root` to all ranks; those of the others do not matter.
    ///
    /// # Errors
    /// As for [`Comm::gather`].
    fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>>;
}

impl<C: Comm + ?Sized> Comm for Box<C> {
    fn rank(&self) -> usize {
        (**self).rank()
    }

    fn size(&self) -> usize {
        (**self).size()
    }

    fn node(&self) -> usize {
        (**self).node()
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        (**self).gather(root, bytes)
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
        (**self).broadcast(root, bytes)
    }
}

/// One process alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Solo;

impl Comm for Solo {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn node(&self) -> usize {
        0
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        check_root(self, root)?;
        Ok(Some(vec![bytes.to_vec()]))
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
        check_root(self, root)?;
        Ok(bytes)
    }
}

/// Brings the bytes of all ranks to all ranks, in the order of ranks.
///
/// # Errors
/// As for [`Comm::gather`].
pub fn all_gather(comm: &dyn Comm, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let gathered = comm.gather(ROOT, bytes)?;
    let all = comm.broadcast(ROOT, gathered.as_deref().map(joined).unwrap_or_default())?;
    split(&all)
}

/// Returns when all ranks have called it.
///
/// # Errors
/// As for [`Comm::gather`].
pub fn barrier(comm: &dyn Comm) -> Result<()> {
    comm.gather(ROOT, &[])?;
    comm.broadcast(ROOT, Vec::new()).map(drop)
}

/// Brings a value of [`ROOT`] to all ranks; those of the others do not matter.
///
/// # Errors
/// As for [`Comm::gather`].
pub fn share<T: Serialize + DeserializeOwned>(comm: &dyn Comm, value: &T) -> Result<T> {
    read(&comm.broadcast(ROOT, written(value)?)?)
}

/// Brings a value of each rank to [`ROOT`], in the order of ranks; the others get `None`.
///
/// # Errors
/// As for [`Comm::gather`].
pub fn collect<T: Serialize + DeserializeOwned>(comm: &dyn Comm, value: &T) -> Result<Option<Vec<T>>> {
    let gathered = comm.gather(ROOT, &written(value)?)?;
    gathered.map(|parts| parts.iter().map(|bytes| read(bytes)).collect()).transpose()
}

/// The node of each rank, as [`Comm::node`] has it.
///
/// # Errors
/// As for [`Comm::gather`].
pub fn nodes(comm: &dyn Comm) -> Result<Vec<usize>> {
    all_gather(comm, &written(&comm.node())?)?.iter().map(|bytes| read(bytes)).collect()
}

/// Makes the error of one rank that of all, so that nobody goes on alone: every rank gets its own value back if all have
/// one, else the error of the lowest rank that failed, with that rank.
///
/// # Errors
/// That of a rank; as for [`Comm::gather`].
pub fn agree<T>(comm: &dyn Comm, result: Result<T>) -> Result<T> {
    if comm.size() == 1 {
        return result;
    }
    let errors = collect(comm, &result.as_ref().err().cloned())?.unwrap_or_default();
    let first = errors.into_iter().enumerate().find_map(|(rank, error)| Some((rank, error?)));
    match share(comm, &first)? {
        Some((rank, error)) => Err(error.at(format!("rank {rank} of {}", comm.size()))),
        None => result,
    }
}

/// A value as the bytes of a message.
///
/// # Errors
/// `Internal` if it has no such form.
pub fn written(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::internal(error.to_string()))
}

/// The value that the bytes of a message stand for.
///
/// # Errors
/// `Internal` for those of another version.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        Error::internal(format!("a message of another rank makes no sense: {error}"))
            .hint("run the same version of Knarr on all ranks")
    })
}

fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::wire::put_number(&mut out, parts.len() as u64);
    parts.iter().for_each(|part| crate::wire::put_bytes(&mut out, part));
    out
}

fn split(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut reader = crate::wire::Reader::new("message", bytes);
    (0..reader.number()?).map(|_| Ok(reader.bytes()?.to_vec())).collect()
}

/// What implementations check of `root`.
///
/// # Errors
/// `Usage` if there is no such rank.
pub fn check_root(comm: &dyn Comm, root: usize) -> Result<()> {
    match root < comm.size() {
        true => Ok(()),
        false => Err(Error::usage(format!("there is no rank {root}, only {} ranks", comm.size()))),
    }
}

/// The error for a rank that does not answer any more.
pub fn gone(rank: usize, size: usize) -> Error {
    Error::new(ErrorKind::Interrupted, format!("rank {rank} of {size} is gone"))
        .hint("its own message says why; nothing was published")
}
