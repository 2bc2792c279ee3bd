//! Output under a temporary name beside its final place, until it is complete.

use std::fs::{File, FileTimes, Metadata, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::abandoned::{remove_abandoned_once, temporary_name};
use super::access::take_access;
use super::replaces::{FileIdentity, Replaces};
use super::sync::{lacks, sync_name};
use super::write_behind::WriteBehind;
use knarr_array::error::{Error, ErrorKind, Result};

/// A file called `.NAME.knarr-NUMBERS`, removed when dropped before [`AtomicFile::publish`].
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    target: PathBuf,
    /// Open from the beginning: the system tells those of a failed write that had the file open, and may forget it where
    /// nobody had.
    file: File,
    replaces: Replaces,
    published: bool,
    behind: Option<WriteBehind>,
    /// Permissions at the end, if others than those it was made with.
    mode: Option<u32>,
    /// Times at the end, if others than those of the last write.
    times: Option<FileTimes>,
}

impl AtomicFile {
    /// Creates the empty temporary file, and removes those beside it that killed programs left. If it is to replace a
    /// file, it takes permissions and owner of that one, so that nobody else can read it now.
    ///
    /// # Errors
    /// `Exists` if the target exists and may not be replaced, or is a device, a pipe or a socket; `Write` if the file cannot
    /// be made.
    pub fn create(target: &Path, replaces: impl Into<Replaces>) -> Result<Self> {
        let replaces = replaces.into();
        replaces.check(target)?;
        refuse_special(target)?;
        let name = target
            .file_name()
            .ok_or_else(|| Error::usage("the output needs a file name").at(target.display().to_string()))?;
        remove_abandoned_once(directory_of(target));
        let path = target.with_file_name(temporary_name(name));
        let place = |error: std::io::Error| Error::write(target, &error);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(place)?;
        let target = target.to_owned();
        let mut made = Self { path, target, file, replaces, published: false, behind: None, mode: None, times: None };
        made.take_access().map_err(|error| Error::write(&made.target, &error))?;
        Ok(made)
    }

    /// Takes what access there is to the file that is to be replaced, if there is one. This program can still write.
    fn take_access(&mut self) -> std::io::Result<()> {
        let Some(replaced) = std::fs::metadata(&self.target).ok().filter(Metadata::is_file) else { return Ok(()) };
        take_access(&self.file, &replaced)?;
        let mode = replaced.permissions().mode() & 0o777;
        self.mode = Some(mode);
        self.file.set_permissions(Permissions::from_mode(mode | 0o600))
    }

    /// Takes permissions from the file but for those in `mode`.
    ///
    /// # Errors
    /// `Write`.
    pub fn limit_mode(&mut self, mode: u32) -> Result<()> {
        self.mode = self.mode.map(|last| last & mode);
        let limit = || {
            let now = self.file.metadata()?.permissions().mode() & 0o777;
            self.file.set_permissions(Permissions::from_mode(now & mode))
        };
        limit().map_err(|error| Error::write(&self.target, &error))
    }

    /// Permissions that the file gets with its final name, in place of others.
    pub fn set_mode(&mut self, mode: u32) {
        self.mode = Some(mode);
    }

    /// The file is to have these times: it gets them when nothing more is written to it.
    pub fn set_times(&mut self, times: FileTimes) {
        self.times = Some(times);
    }

    /// The file, for reading and writing. What is written through it is synced by [`AtomicFile::publish`].
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The temporary name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// So many bytes were written, which the disk may take while more are made. Nobody else may make the file
    /// longer meanwhile.
    ///
    /// # Errors
    /// `Write` if the file cannot be opened again.
    pub fn written(&mut self, bytes: u64) -> Result<()> {
        let behind = match &mut self.behind {
            Some(behind) => behind,
            none => none.insert(WriteBehind::start(&self.path).map_err(|error| Error::write(&self.target, &error))?),
        };
        behind.written(bytes);
        Ok(())
    }

    /// Makes the file at least so long: others write there, and leave the length to this process.
    ///
    /// # Errors
    /// `Write`.
    pub fn reach(&self, length: u64) -> Result<()> {
        let reach = || match self.file.metadata()?.len() {
            now if now < length => self.file.set_len(length),
            _ => Ok(()),
        };
        reach().map_err(|error| Error::write(&self.target, &error))
    }

    /// Syncs the file, gives it its final name, and syncs the directory. Returns the size in bytes.
    ///
    /// # Errors
    /// `Exists` if the target has appeared meanwhile and may not be replaced, `Write` otherwise. The output is not there
    /// unless the error says so.
    pub fn publish(mut self) -> Result<u64> {
        let behind = self.behind.take();
        let place = |error: &std::io::Error| Error::write(&self.target, error);
        if let Some(behind) = behind {
            behind.finish().map_err(|error| place(&error))?;
        }
        if let Some(times) = self.times {
            self.file.set_times(times).map_err(|error| place(&error))?;
        }
        self.file.sync_all().map_err(|error| place(&error))?;
        let size = self.file.metadata().map_err(|error| place(&error))?.len();
        self.take_place()?;
        sync_name(directory_of(&self.target), &self.target)?;
        Ok(size)
    }

    /// As [`AtomicFile::publish`], for a file that was synced already through [`AtomicFile::file`]. Its name gets to the disk with what the system
    /// writes next: for what can be made again.
    ///
    /// # Errors
    /// As for [`AtomicFile::publish`].
    pub fn publish_synced(mut self) -> Result<()> {
        self.take_place()
    }

    /// Gives the file its final access and name.
    fn take_place(&mut self) -> Result<()> {
        if let Some(mode) = self.mode {
            self.file
                .set_permissions(Permissions::from_mode(mode))
                .map_err(|error| Error::write(&self.target, &error))?;
        }
        self.rename()?;
        self.published = true;
        Ok(())
    }

    /// Gives the file its final name. Of two programs that write one name at once, the second is refused.
    fn rename(&self) -> Result<()> {
        let (path, target) = (&self.path, &self.target);
        let write_error = |error: std::io::Error| Error::write(target, &error);
        self.replaces.note(path);
        if self.replaces == Replaces::Anything {
            return std::fs::rename(path, target).map_err(write_error);
        }
        match renameat_with(CWD, path, CWD, target, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => self.exchange(),
            // Not every file system knows the flag.
            Err(error) if lacks(error) => {
                self.replaces.check(target)?;
                std::fs::rename(path, target).map_err(write_error)
            }
            Err(error) => Err(write_error(error.into())),
        }
    }

    /// Takes the place of what has the name, which is looked at before and after: others may replace it at any moment.
    fn exchange(&self) -> Result<()> {
        let (path, target) = (&self.path, &self.target);
        let write_error = |error: std::io::Error| Error::write(target, &error);
        self.replaces.check(target)?;
        let exchange = || renameat_with(CWD, path, CWD, target, RenameFlags::EXCHANGE);
        match exchange() {
            Ok(()) => {}
            Err(error) if lacks(error) => return std::fs::rename(path, target).map_err(write_error),
            // It was removed at this moment.
            Err(Errno::NOENT) => {
                let renamed = renameat_with(CWD, path, CWD, target, RenameFlags::NOREPLACE);
                return renamed.map_err(|_| self.replaces.refused(target));
            }
            Err(error) => return Err(write_error(error.into())),
        }
        if self.replaces.allows(FileIdentity::at(path)) {
            // It has lost its name; that it may stay under the other one harms nobody.
            let _ = std::fs::remove_file(path);
            return Ok(());
        }
        exchange().map_err(|error| write_error(error.into()))?;
        let is_own = |found: Metadata| self.file.metadata().is_ok_and(|own| own.ino() == found.ino());
        if !path.symlink_metadata().is_ok_and(is_own) {
            // Yet another one had taken the name: it is the newest.
            let _ = exchange();
        }
        Err(self.replaces.refused(target))
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.published {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What is no file stays what it is, whoever asks: a file in place of `/dev/null` is the end of other programs.
fn refuse_special(target: &Path) -> Result<()> {
    match std::fs::metadata(target) {
        Ok(found) if !found.is_file() && !found.is_dir() => {
            Err(Error::new(ErrorKind::Exists, "it is a device, a pipe or a socket, no file")
                .hint("give the name of a file")
                .at(target.display().to_string()))
        }
        _ => Ok(()),
    }
}
