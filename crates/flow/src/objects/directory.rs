//! A directory as a store that is read.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};

use crate::objects::read_store::{Entry, Part, ReadStore};

/// A directory of this machine, whose files are objects.
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
}

impl Directory {
    /// The directory at `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn path(&self, key: &str) -> PathBuf {
        if key.is_empty() { self.root.clone() } else { self.root.join(key) }
    }
}

/// The file, if there is one. A link that leads nowhere is no absent object: its contents are elsewhere.
fn open(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(_) if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) && !path.exists() => {
            Err(Error::new(ErrorKind::Read, "is a symbolic link that leads nowhere")
                .hint("fetch the contents it stands for (git annex get, datalad get)")
                .at(path.display().to_string()))
        }
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Error::read(path, &error)),
    }
}

impl ReadStore for Directory {
    fn place(&self) -> String {
        self.root.display().to_string()
    }

    fn get(&self, key: &str, part: Part, out: &mut Vec<u8>) -> Result<Option<u64>> {
        let path = self.path(key);
        let Some(file) = open(&path)? else { return Ok(None) };
        let read_error = |error: std::io::Error| Error::read(&path, &error);
        let held = file.metadata().map_err(read_error)?.len();
        out.clear();
        match (part, part.within(held)) {
            (_, None) => {}
            (Part::Whole { .. }, Some((_, length))) => {
                (&file).take(length).read_to_end(out).map_err(read_error)?;
            }
            (_, Some((offset, length))) => {
                out.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
                file.read_exact_at(out, offset).map_err(read_error)?;
            }
        }
        Ok(Some(held))
    }

    fn has(&self, key: &str) -> Result<bool> {
        Ok(self.path(key).symlink_metadata().is_ok_and(|found| !found.is_dir()))
    }

    fn list(&self, folder: &str) -> Result<Option<Vec<Entry>>> {
        let dir = self.path(folder);
        let read_error = |error: std::io::Error| Error::read(&dir, &error);
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&dir).map_err(read_error)? {
            let entry = entry.map_err(read_error)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = entry.file_type().map_err(read_error)?;
            let is_link = kind.is_symlink();
            let is_folder = if is_link { entry.path().is_dir() } else { kind.is_dir() };
            let length = if is_folder || is_link { 0 } else { entry.metadata().map_or(0, |found| found.len()) };
            entries.push(Entry { name, is_folder, is_link, length });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Some(entries))
    }

    fn file(&self, key: &str) -> Option<PathBuf> {
        Some(self.path(key))
    }
}
