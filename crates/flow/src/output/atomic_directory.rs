//! A directory that is filled beside its final place and put there in one step.

use super::abandoned::{remove_abandoned_once, temporary_name};
use super::access::take_access;
use super::common::is_common;
use super::replaces::{FileIdentity, Replaces};
use super::store::Store;
use super::sync::{lacks, sync_many, sync_name, sync_tree};
use crate::offload::reserved::ReservedOffset;
use knarr_array::error::{Error, ErrorKind, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What a staged directory is.
#[derive(Debug, Clone, Copy)]
pub struct DirectoryKind {
    /// Name for people: `Zarr store`.
    pub noun: &'static str,
    /// Whether a directory is one: nothing else is replaced, because that removes all it holds.
    pub is: fn(&Path) -> bool,
    /// Something in it that is not of it, which would be removed with it.
    pub foreign: fn(&Path) -> Option<PathBuf>,
    /// True for directories of very many files, which are synced with all of their file system at once.
    pub many_files: bool,
}

/// A directory that will be the output.
#[derive(Debug)]
pub struct AtomicDirectory {
    kind: DirectoryKind,
    target: PathBuf,
    dir: PathBuf,
    /// The directory: open from the beginning, for the system tells those of a failed write that had it open then, and
    /// locked where the file system has locks.
    directory: File,
    replaces: Replaces,
    files: u64,
    bytes: u64,
    published: bool,
}

impl AtomicDirectory {
    /// Makes an empty directory beside `target`, and removes what killed programs left there.
    ///
    /// # Errors
    /// `Exists` if the target is there and may not be replaced, `Usage` if it has no name, `Write`.
    pub fn create(target: &Path, kind: DirectoryKind, replaces: impl Into<Replaces>) -> Result<Self> {
        let replaces = replaces.into();
        check_target(target, kind, &replaces)?;
        let Some(name) = target.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::usage("the output has no name").at(target.display().to_string()));
        };
        let write_error = |error: std::io::Error| Error::write(target, &error);
        remove_abandoned_once(parent_of(target));
        let dir = target.with_file_name(temporary_name(name.as_ref()));
        fs::create_dir(&dir).map_err(write_error)?;
        let directory = File::open(&dir).inspect_err(|_| drop(fs::remove_dir(&dir))).map_err(write_error)?;
        // Without a lock the name still tells who writes here.
        let _ = directory.try_lock();
        let made =
            Self { kind, directory, target: target.to_owned(), dir, replaces, files: 0, bytes: 0, published: false };
        made.take_access().map_err(write_error)?;
        Ok(made)
    }

    /// Takes what access there is to the directory that is to be replaced, if there is one. This program can still
    /// write.
    fn take_access(&self) -> std::io::Result<()> {
        let Ok(replaced) = fs::metadata(&self.target) else { return Ok(()) };
        take_access(&self.directory, &replaced)?;
        self.directory.set_permissions(Permissions::from_mode(replaced.permissions().mode() & 0o777 | 0o700))
    }

    /// Before a file is closed: network file systems tell who closes it of a failed write, and nobody after. What is
    /// synced with its file system at the end hears of it then.
    fn sync_closing(&self, file: &File) -> std::io::Result<()> {
        if self.kind.many_files { Ok(()) } else { file.sync_all() }
    }

    /// Makes the directories that lead to `relative`, but not the staged one: if somebody took that away, what was
    /// written is lost.
    fn make_parents(&self, relative: &str) -> std::io::Result<()> {
        let mut path = self.dir.clone();
        let parents = Path::new(relative).parent().into_iter().flat_map(Path::components);
        parents.into_iter().try_for_each(|component| {
            path.push(component);
            match fs::create_dir(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(()),
            }
        })
    }

    /// Opens a file to add to it, and makes it if it is not there.
    fn open(&mut self, key: &str) -> Result<File> {
        let path = self.dir.join(key);
        let write_error = |error: std::io::Error| Error::write(&self.target, &error);
        let open = |new: bool| OpenOptions::new().create_new(new).append(true).open(&path);
        let mut made = open(true);
        if made.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            self.make_parents(key).map_err(write_error)?;
            made = open(true);
        }
        match made {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => open(false).map_err(write_error),
            made => {
                self.files += u64::from(made.is_ok());
                made.map_err(write_error)
            }
        }
    }

    /// Refuses to publish a directory from which somebody took files while it was written. Others count their own.
    fn check_files(&self) -> Result<()> {
        let write_error = |error: std::io::Error| Error::write(&self.target, &error);
        if !self.kind.many_files || tally(&self.dir).map_err(write_error)? == (self.files, self.bytes) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Write, "files were removed or changed while it was written")
            .hint("repeat this, and keep what cleans up away from names that begin with a dot")
            .at(self.target.display().to_string()))
    }

    /// Path that the directory has until it is published.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes everything in the directory durable.
    fn sync(&self) -> std::io::Result<()> {
        if self.kind.many_files { sync_many(&self.directory, &self.dir) } else { sync_tree(&self.dir) }
    }

    /// Swaps the finished directory with the existing one and removes the latter.
    fn replace(&mut self) -> Result<()> {
        let write_error = |error: std::io::Error| Error::write(&self.target, &error);
        match renameat_with(CWD, &self.dir, CWD, &self.target, RenameFlags::EXCHANGE) {
            // `dir` is now the old store; dropping `self` removes it.
            Ok(()) if self.replaces.allows(FileIdentity::at(&self.dir)) => return Ok(()),
            Ok(()) => {
                renameat_with(CWD, &self.dir, CWD, &self.target, RenameFlags::EXCHANGE)
                    .map_err(|error| write_error(error.into()))?;
                return Err(self.replaces.refused(&self.target));
            }
            Err(error) if !lacks(error) => return Err(write_error(error.into())),
            Err(_) => {}
        }
        // No atomic exchange on this file system: for a moment only the two temporary names exist.
        let mut old = self.dir.clone().into_os_string();
        old.push(".old");
        fs::rename(&self.target, &old).map_err(write_error)?;
        if let Err(error) = fs::rename(&self.dir, &self.target) {
            let _ = fs::rename(&old, &self.target);
            return Err(write_error(error));
        }
        self.published = true;
        let left = |error: std::io::Error| {
            Error::write(Path::new(&old), &error).hint("the output is in its place: remove what is left of the old one")
        };
        fs::remove_dir_all(&old).map_err(left)
    }
}

impl Store for AtomicDirectory {
    fn place(&self) -> String {
        self.target.display().to_string()
    }

    fn write(&mut self, key: &str, bytes: &[u8]) -> Result<()> {
        match self.append(key, bytes)? {
            0 => Ok(()),
            _ => Err(Error::internal(format!("'{key}' was written twice"))),
        }
    }

    fn append(&mut self, key: &str, bytes: &[u8]) -> Result<u64> {
        let mut file = self.open(key)?;
        let write_error = |error: std::io::Error| Error::write(&self.target, &error);
        let offset = file.metadata().map_err(write_error)?.len();
        file.write_all(bytes).and_then(|()| self.sync_closing(&file)).map_err(write_error)?;
        self.bytes += bytes.len() as u64;
        Ok(offset)
    }

    fn supports_external_writes(&self) -> bool {
        is_common(&self.directory)
    }

    fn reserve(&mut self, key: &str, length: u64) -> Result<ReservedOffset> {
        let file = self.open(key)?;
        let write_error = |error: std::io::Error| Error::write(&self.target, &error);
        let offset = file.metadata().map_err(write_error)?.len();
        file.set_len(offset.saturating_add(length)).map_err(write_error)?;
        self.bytes += length;
        Ok(ReservedOffset { path: self.dir.join(key), offset })
    }

    fn finish(&mut self, _key: &str) -> Result<()> {
        Ok(())
    }

    fn copy(&mut self, from: &Path, key: &str) -> Result<()> {
        let to = self.dir.join(key);
        self.make_parents(key).map_err(|error| Error::write(&self.target, &error))?;
        // `fs::copy` does not say which side failed; reading is tried first.
        File::open(from).map_err(|error| Error::read(from, &error))?;
        self.bytes += fs::copy(from, &to).map_err(|error| Error::write(&self.target, &error))?;
        self.files += 1;
        Ok(())
    }

    fn publish(mut self: Box<Self>) -> Result<u64> {
        let write_error = |error: std::io::Error| Error::write(&self.target, &error);
        self.sync().map_err(write_error)?;
        self.check_files()?;
        check_target(&self.target, self.kind, &self.replaces)?;
        self.replaces.note(&self.dir);
        match renameat_with(CWD, &self.dir, CWD, &self.target, RenameFlags::NOREPLACE) {
            Ok(()) => self.published = true,
            Err(Errno::EXIST) if self.replaces.may() => self.replace()?,
            Err(Errno::EXIST) => return Err(self.replaces.refused(&self.target)),
            // File systems without this flag: the check above has to do.
            Err(error) if lacks(error) && !self.target.exists() => {
                fs::rename(&self.dir, &self.target).map_err(write_error)?;
                self.published = true;
            }
            Err(error) if lacks(error) => self.replace()?,
            Err(error) => return Err(write_error(error.into())),
        }
        sync_name(parent_of(&self.target), &self.target)?;
        Ok(self.bytes)
    }
}

impl Drop for AtomicDirectory {
    fn drop(&mut self) {
        if !self.published {
            // Nothing is left to report a failure to.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn check_target(target: &Path, kind: DirectoryKind, replaces: &Replaces) -> Result<()> {
    replaces.check(target)?;
    match fs::symlink_metadata(target) {
        Err(_) => Ok(()),
        Ok(found) if found.is_dir() && (kind.is)(target) => match (kind.foreign)(target) {
            None => Ok(()),
            Some(foreign) => Err(Error::new(ErrorKind::Exists, format!("it is not of the {}", kind.noun))
                .hint("move it elsewhere: what is replaced goes with all it holds")
                .at(foreign.display().to_string())),
        },
        Ok(_) => Err(Error::new(ErrorKind::Exists, format!("the output exists and is no {}", kind.noun))
            .hint("give another name, or remove it yourself")
            .at(target.display().to_string())),
    }
}

/// Number and length of all files.
fn tally(dir: &Path) -> std::io::Result<(u64, u64)> {
    let mut all = (0, 0);
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (files, bytes) =
            if entry.file_type()?.is_dir() { tally(&entry.path())? } else { (1, entry.metadata()?.len()) };
        all = (all.0 + files, all.1 + bytes);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_testing::abandoned::abandoned_name;

    const ANYTHING: DirectoryKind =
        DirectoryKind { noun: "directory", is: Path::is_dir, foreign: |_| None, many_files: false };

    #[test]
    fn what_killed_programs_left_is_removed_and_what_others_write_is_not() {
        let parent = std::env::temp_dir().join(format!("knarr-staging-{}", std::process::id()));
        let target = parent.join("set");
        let left = parent.join(abandoned_name("set"));
        for path in [&left, &parent.join(".set.knarr-mine")] {
            fs::create_dir_all(path.join("below")).unwrap();
        }
        let alive = AtomicDirectory::create(&target, ANYTHING, false).unwrap();
        let staging = AtomicDirectory::create(&target, ANYTHING, false).unwrap();
        assert!(!left.exists() && alive.dir.exists() && parent.join(".set.knarr-mine").exists());
        drop(alive);
        Box::new(staging).publish().unwrap();
        assert!(target.is_dir());
        fs::remove_dir_all(parent).unwrap();
    }
}
