//! Documents by which processes of a run tell each other something in a directory: JSON.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use knarr_array::error::{Error, Result};

/// Writes a document that appears in one step.
///
/// # Errors
/// `Write`.
pub(crate) fn put(directory: &Path, name: &str, content: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(content).map_err(|error| Error::internal(error.to_string()))?;
    let beside = directory.join(format!("{name}.new"));
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, directory.join(name)));
    written.map_err(|error| Error::write(directory, &error))
}

/// Reads a document; `None` if it is not there.
///
/// # Errors
/// `Read`, `Corrupt`.
pub(crate) fn get<T: for<'de> Deserialize<'de>>(directory: &Path, name: &str) -> Result<Option<T>> {
    let path = directory.join(name);
    match fs::read(&path) {
        Ok(text) => {
            let read = serde_json::from_slice(&text);
            read.map(Some).map_err(|error| Error::corrupt(error.to_string()).at(path.display().to_string()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::read(&path, &error)),
    }
}
