//! Documents by which processes of a run tell each other something in a directory: JSON.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use knarr_array::error::{Error, Result};

use crate::settled::settled;

/// Where a document is written for which room was set aside.
const RESERVED: &str = "reserved";

/// Writes a document that appears in one step.
///
/// # Errors
/// `Write`.
pub(crate) fn put(directory: &Path, name: &str, content: &impl Serialize) -> Result<()> {
    write(directory, directory.join(format!("{name}.new")), name, content)
}

/// As [`put`], with the room that was [set aside](reserve).
///
/// # Errors
/// `Write`.
pub(crate) fn put_reserved(directory: &Path, name: &str, content: &impl Serialize) -> Result<()> {
    write(directory, directory.join(RESERVED), name, content)
}

fn write(directory: &Path, beside: PathBuf, name: &str, content: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(content).map_err(|error| Error::internal(error.to_string()))?;
    let write = |beside: &Path| {
        // Room that was set aside is not given up before it is written.
        let file = File::options().write(true).create(true).truncate(false).open(beside)?;
        file.write_all_at(&text, 0)?;
        file.set_len(text.len() as u64)?;
        fs::rename(beside, directory.join(name))
    };
    // Another rank may write the same at this moment, and give its name to what this one has begun. Nobody else has this name.
    let alone = || {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        write(&directory.join(format!("{name}.{}-{number}.new", std::process::id())))
    };
    let again = |error: io::Error| if error.kind() == io::ErrorKind::NotFound { alone() } else { Err(error) };
    settled(|| write(&beside).or_else(again)).map_err(|error| Error::write(directory, &error))
}

/// Sets room aside for a document of so many bytes that is written later, when there may be none left.
///
/// # Errors
/// `Write`.
pub(crate) fn reserve(directory: &Path, bytes: usize) -> Result<()> {
    fs::write(directory.join(RESERVED), vec![0; bytes]).map_err(|error| Error::write(directory, &error))
}

/// Reads a document; `None` if it is not there.
///
/// # Errors
/// `Read`, `Corrupt`.
pub(crate) fn get<T: for<'de> Deserialize<'de>>(directory: &Path, name: &str) -> Result<Option<T>> {
    let path = directory.join(name);
    match settled(|| fs::read(&path)) {
        Ok(text) => {
            let read = serde_json::from_slice(&text);
            read.map(Some).map_err(|error| Error::corrupt(error.to_string()).at(path.display().to_string()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::read(&path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_may_write_the_same_at_the_same_moment() {
        let directory = std::env::temp_dir().join(format!("knarr-document-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| put(&directory, "note", &"the same").unwrap()));
            }
        });
        assert_eq!(get::<String>(&directory, "note").unwrap().as_deref(), Some("the same"));
        fs::remove_dir_all(&directory).unwrap();
        assert!(put(&directory, "note", &"the same").is_err());
    }
}
