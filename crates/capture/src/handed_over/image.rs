//! A file as it is to be, whole and synced in a tier: what is left to do is to copy it to its place. Then the values are of no use
//! any more.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::HandedOver;
use crate::document::{get, put};
use knarr_array::error::{Error, Result};
use knarr_handover::CHUNKS;
use knarr_names::STAGED;
use knarr_tier::sync_directory;

/// Name of what is known of the file. The file counts from when that is there.
const RECORD: &str = "image.json";
/// The same of a packed file, which takes the place of another one: the link to the file says which of the two counts.
const RECORD_OF_PACKED: &str = "packed.json";

/// A file that waits in a tier. `T` is what is told of it when it is in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Image<T> {
    /// Bytes of the file.
    pub bytes: u64,
    /// CRC-32C of all of them.
    pub checksum: u32,
    /// What is told of it.
    pub made: T,
}

impl<T: Serialize + DeserializeOwned> Image<T> {
    /// Notes in the directory of a file that it lies at `path`.
    ///
    /// # Errors
    /// `Write`. Then it does not count.
    pub fn keep(&self, directory: &Path, path: &Path) -> Result<()> {
        let link = directory.join(HandedOver::IMAGE);
        let _ = fs::remove_file(&link);
        symlink(path, &link).map_err(|error| Error::write(&link, &error))?;
        self.note(directory, path)
    }

    /// The same of one to which the directory has a link already, or is about to have one.
    ///
    /// # Errors
    /// `Write`. Then it does not count.
    pub fn note(&self, directory: &Path, path: &Path) -> Result<()> {
        put(directory, record_of(path), self)
    }

    /// The file that waits of what was handed over in a directory, and where it lies; `None` if none does, or if it is gone.
    ///
    /// # Errors
    /// `Read`; `Corrupt` if what is known of it is damaged.
    pub fn of(directory: &Path) -> Result<Option<(Self, PathBuf)>> {
        let Some(path) = path_of(directory) else { return Ok(None) };
        let Some(image) = get::<Self>(directory, record_of(&path))? else { return Ok(None) };
        match fs::metadata(&path) {
            Ok(found) if found.len() == image.bytes => Ok(Some((image, path))),
            _ => Ok(None),
        }
    }
}

/// What the names of packed files end in.
pub(super) const PACKED_SUFFIX: &str = ".packed";

/// True if a packed file has this path.
pub(super) fn is_packed_path(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(PACKED_SUFFIX.as_bytes())
}

/// Name of what is known of the file at `path`.
fn record_of(path: &Path) -> &'static str {
    if is_packed_path(path) { RECORD_OF_PACKED } else { RECORD }
}

/// Where the file of a directory waits. It lies beside the directory that was brought to the tier, by whatever path that is reached,
/// and also if somebody has copied the spool; the directory in memory has a link to it.
pub(super) fn path_of(directory: &Path) -> Option<PathBuf> {
    let link = fs::read_link(directory.join(HandedOver::IMAGE)).ok()?;
    let beside = directory.parent()?.join(link.file_name()?);
    Some(if beside.exists() { beside } else { link })
}

impl HandedOver {
    /// True if the file waits in a tier: see [`Image`]. If it is gone from there, what is left in the directory counts.
    pub fn has_image(directory: &Path) -> bool {
        path_of(directory).is_some_and(|path| directory.join(record_of(&path)).exists() && path.exists())
    }

    /// True for what is of no use any more when the file waits in a tier: values, logs, chunks that were encoded ahead.
    pub fn is_in_image(name: &str) -> bool {
        Self::is_counted(name) || name.starts_with(CHUNKS)
    }

    /// The directory in a tier to which what is known of a file that waits there was copied, if it was copied whole.
    pub fn staged_at(directory: &Path) -> Option<PathBuf> {
        let copy = path_of(directory)?.parent()?.join(directory.file_name()?);
        // The directory itself may have other paths.
        let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let is_other = identity(&copy).is_some_and(|copy| Some(copy) != identity(directory));
        let is_copied = is_other && Self::left_in(&copy).is_ok_and(|left| left.is_some());
        is_copied.then_some(copy)
    }

    /// Brings what is known of a file that waits in a tier from a directory to a copy of that which has values, and removes these
    /// there. False if the file does not wait in a tier, or if the copy is none that is whole.
    ///
    /// # Errors
    /// `Write`.
    pub fn bring_image(directory: &Path, copy: &Path) -> Result<bool> {
        let is_whole = Self::has_image(directory) && Self::left_in(copy).is_ok_and(|left| left.is_some());
        let Some(path) = path_of(directory) else { return Ok(false) };
        let name = record_of(&path);
        let Ok(record) = fs::read(directory.join(name)) else { return Ok(false) };
        if !is_whole || Self::has_image(copy) {
            return Ok(is_whole);
        }
        let beside = copy.join("image.new");
        let bring = || {
            symlink(path, copy.join(Self::IMAGE))?;
            let mut file = File::create(&beside)?;
            file.write_all(&record)?;
            file.sync_all()?;
            fs::rename(&beside, copy.join(name))?;
            sync_directory(copy)
        };
        bring().map_err(|error| Error::write(copy, &error))?;
        Self::free_values(copy);
        Ok(true)
    }

    /// Removes what was handed over, of which the file lies elsewhere with a directory `to` of its own: the file itself stays.
    pub fn staged(&self, directory: &Path, to: &Path) {
        let link = directory.join(Self::IMAGE);
        // What links lead to goes with them.
        match fs::remove_file(&link) {
            Err(error) if error.kind() != ErrorKind::NotFound => Self::moved(directory, to),
            _ => self.remove_noting(directory, to),
        }
    }

    /// As [`HandedOver::pending`], with what waits in tiers.
    pub fn under_way(spool: &Path) -> Vec<(PathBuf, Result<Self>)> {
        let staged = fs::read_dir(spool.join(STAGED)).into_iter().flatten().flatten();
        let of = |link: fs::DirEntry| {
            let directory = fs::read_link(link.path()).ok()?.parent()?.join(link.file_name());
            Some((directory.clone(), get(&directory, Self::NAME).transpose()?))
        };
        // One that is moved to a tier meanwhile is seen in one of the two.
        let mut found = Self::pending(spool);
        found.extend(staged.filter_map(of));
        found
    }
}
