//! Which set of a directory a program restarts from.

use std::path::{Path, PathBuf};

use super::restart::{check_indices, indices};
use crate::disk::sets;
use crate::{Set, verify};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::engine::{Engine, Silent};

/// Path of the set in `directory` to restart from, that of `step` or the newest one, with its indices. Sets that are passed over are
/// warnings.
///
/// # Errors
/// `NotFound` if there is no set of this step; `Corrupt` or `Read` if it cannot be used.
pub(super) fn find(
    engine: &Engine,
    directory: &Path,
    (step, verify): (Option<u64>, bool),
    warnings: &mut Vec<Error>,
) -> Result<Option<(PathBuf, Vec<u8>)>> {
    if let Some(step) = step {
        let path = sets::of_step(directory, step);
        if !path.exists() {
            let all: Vec<String> =
                sets::completed(directory)?.iter().filter_map(|set| sets::step(set)).map(|s| s.to_string()).collect();
            let has = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            return Err(Error::new(ErrorKind::NotFound, format!("there is no checkpoint of step {step}"))
                .hint(format!("the directory has those of steps: {has}"))
                .at(directory.display().to_string()));
        }
        return usable_at(engine, &path, verify).map(|indices| Some((path, indices)));
    }
    for path in sets::completed(directory)?.into_iter().rev().filter(|path| sets::step(path).is_some()) {
        match usable_at(engine, &path, verify) {
            Ok(indices) => return Ok(Some((path, indices))),
            Err(error) => warnings.push(error.at("passed over")),
        }
    }
    Ok(None)
}

fn usable_at(engine: &Engine, path: &Path, is_verified: bool) -> Result<Vec<u8>> {
    usable(engine, &Set::open(path, &engine.codecs)?, is_verified)
}

/// The indices of a set, if a program can restart from it. With `is_verified` every byte of it is read and checked first.
///
/// # Errors
/// `Corrupt`, `Read`; `Unsupported` for sets that no program made of its arrays.
pub(super) fn usable(engine: &Engine, set: &Set, is_verified: bool) -> Result<Vec<u8>> {
    let indices = indices(engine, set)?;
    check_indices(set, &indices)?;
    if is_verified {
        let verified = verify(engine, set, &Silent)?;
        if let Some(damage) = verified.damage.into_iter().next() {
            return Err(damage.error.at(format!("rank {} of the set", damage.rank)));
        }
    }
    Ok(indices)
}
