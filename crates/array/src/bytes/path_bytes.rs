//! Paths as bytes in JSON, whose strings could not hold all of them: for `#[serde(with = …)]`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a path.
///
/// # Errors
/// Of the serializer.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_os_str().as_bytes().serialize(serializer)
}

/// Reads a path.
///
/// # Errors
/// Of the deserializer.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Vec::<u8>::deserialize(deserializer).map(path)
}

fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// The same for a path that may be missing.
pub mod option {
    use super::{Deserialize, Deserializer, OsStrExt, PathBuf, Serialize, Serializer, path};

    /// Writes a path, or that there is none.
    ///
    /// # Errors
    /// Of the serializer.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|path| path.as_os_str().as_bytes()).serialize(serializer)
    }

    /// Reads a path, or that there is none.
    ///
    /// # Errors
    /// Of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Vec<u8>>::deserialize(deserializer)?.map(path))
    }
}
