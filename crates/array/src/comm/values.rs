//! Values that ranks tell each other, and whether all of them can go on.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Comm, ROOT, all_gather, broadcast, gather};
use crate::error::{Error, Result};

/// Brings a value of [`ROOT`] to all ranks; those of the others do not matter.
///
/// # Errors
/// As for [`broadcast`]; `Internal` for messages of another version of Knarr.
pub fn share<T: Serialize + DeserializeOwned>(comm: &dyn Comm, value: &T) -> Result<T> {
    read(&broadcast(comm, ROOT, written(value)?)?)
}

/// Brings a value of each rank to [`ROOT`], in the order of ranks; the others get `None`.
///
/// # Errors
/// As for [`gather`]; `Internal` for messages of another version of Knarr.
pub fn collect<T: Serialize + DeserializeOwned>(comm: &dyn Comm, value: &T) -> Result<Option<Vec<T>>> {
    let gathered = gather(comm, ROOT, &written(value)?)?;
    gathered.map(|parts| parts.iter().map(|bytes| read(bytes)).collect()).transpose()
}

/// The node of each rank, as [`Comm::node`] has it.
///
/// # Errors
/// As for [`collect`].
pub fn nodes(comm: &dyn Comm) -> Result<Vec<usize>> {
    all_gather(comm, &written(&comm.node())?)?.iter().map(|bytes| read(bytes)).collect()
}

/// Makes the error of one rank that of all, so that nobody goes on alone: every rank gets its own value back if all have
/// one, else the error of the lowest rank that failed, with that rank.
///
/// # Errors
/// That of a rank; as for [`collect`].
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
