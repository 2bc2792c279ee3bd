//! Output under a temporary name beside its final place, until it is complete.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::abandoned::{mark, remove_abandoned};
use super::access::take_access;
use super::write_behind::WriteBehind;
use crate::error::{Error, ErrorKind, Result};

/// A file called `.NAME.knarr-NUMBERS.tmp`, removed when dropped before [`Temporary::publish`].
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    target: PathBuf,
    force: bool,
    published: bool,
    behind: Option<WriteBehind>,
    /// Permissions at the end, if others than those it was made with.
    mode: Option<u32>,
}

/// Bytes of a file name that file systems take (`NAME_MAX`).
const LONGEST_NAME: usize = 255;

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Temporary {
    /// Creates the empty temporary file, and removes those beside it that killed programs left. If it is to replace a
    /// file, it takes permissions and owner of that one, so that nobody else can read it now.
    ///
    /// # Errors
    /// `Exists` if the target exists and `force` is not set, or is a device, a pipe or a socket; `Write` if the file cannot
    /// be made.
    pub fn create(target: &Path, force: bool) -> Result<Self> {
        refuse_existing(target, force)?;
        refuse_special(target)?;
        let name = target
            .file_name()
            .ok_or_else(|| Error::usage("the output needs a file name").at(target.display().to_string()))?;
        remove_abandoned(directory_of(target));
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let mark = mark(number);
            let mut hidden = OsString::from(".");
            // Names are no longer than 255 bytes; of a long one the beginning must do.
            let bytes = name.as_bytes();
            hidden.push(OsStr::from_bytes(&bytes[..bytes.len().min(LONGEST_NAME - 1 - mark.len())]));
            hidden.push(mark);
            let path = target.with_file_name(hidden);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    let target = target.to_owned();
                    let mut made = Self { path, target, force, published: false, behind: None, mode: None };
                    made.take_access(&file).map_err(|error| Error::write(&made.target, &error))?;
                    return Ok(made);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::write(target, &error)),
            }
        }
    }

    /// Takes what access there is to the file that is to be replaced, if there is one. This program can still write.
    fn take_access(&mut self, file: &File) -> std::io::Result<()> {
        let Some(replaced) = std::fs::metadata(&self.target).ok().filter(Metadata::is_file) else { return Ok(()) };
        take_access(file, &replaced)?;
        let mode = replaced.permissions().mode() & 0o777;
        self.mode = Some(mode);
        file.set_permissions(Permissions::from_mode(mode | 0o600))
    }

    /// Takes permissions from the file but for those in `mode`.
    ///
    /// # Errors
    /// `Write`.
    pub fn limit_mode(&mut self, mode: u32) -> Result<()> {
        self.mode = self.mode.map(|last| last & mode);
        let limit = || {
            let now = std::fs::metadata(&self.path)?.permissions().mode() & 0o777;
            std::fs::set_permissions(&self.path, Permissions::from_mode(now & mode))
        };
        limit().map_err(|error| Error::write(&self.target, &error))
    }

    /// Permissions that the file gets with its final name, in place of others.
    pub fn set_mode(&mut self, mode: u32) {
        self.mode = Some(mode);
    }

    /// The temporary name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// So many bytes were written, which the disk may take while more are made. Nobody else may write the file meanwhile.
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

    /// Syncs the file, gives it its final name, and syncs the directory. Returns the size in bytes.
    ///
    /// # Errors
    /// `Exists` if the target has appeared meanwhile and may not be replaced, `Write` otherwise.
    pub fn publish(mut self) -> Result<u64> {
        let behind = self.behind.take();
        let place = |error: &std::io::Error| Error::write(&self.target, error);
        if let Some(behind) = behind {
            behind.finish().map_err(|error| place(&error))?;
        }
        let file = OpenOptions::new().write(true).open(&self.path).map_err(|error| place(&error))?;
        file.sync_all().map_err(|error| place(&error))?;
        let size = file.metadata().map_err(|error| place(&error))?.len();
        self.take_place(&file)?;
        // Some file systems cannot sync directories; the rename itself has succeeded.
        if let Ok(directory) = std::fs::File::open(directory_of(&self.target)) {
            let _ = directory.sync_all();
        }
        Ok(size)
    }

    /// As [`Temporary::publish`], for a file that was synced already. Its name gets to the disk with what the system
    /// writes next: for what can be made again.
    ///
    /// # Errors
    /// As for [`Temporary::publish`].
    pub fn publish_synced(mut self) -> Result<()> {
        let file =
            OpenOptions::new().write(true).open(&self.path).map_err(|error| Error::write(&self.target, &error))?;
        self.take_place(&file)
    }

    /// Gives `file`, which this is, its final access and name.
    fn take_place(&mut self, file: &File) -> Result<()> {
        if let Some(mode) = self.mode {
            file.set_permissions(Permissions::from_mode(mode)).map_err(|error| Error::write(&self.target, &error))?;
        }
        self.rename()?;
        self.published = true;
        Ok(())
    }

    /// Gives the file its final name. Of two programs that write one name at once, the second is refused.
    fn rename(&self) -> Result<()> {
        if !self.force {
            match renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => return Err(taken(&self.target)),
                // Not every file system knows the flag.
                Err(_) => refuse_existing(&self.target, self.force)?,
            }
        }
        std::fs::rename(&self.path, &self.target).map_err(|error| Error::write(&self.target, &error))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.published {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Refuses to replace what was not to be replaced.
///
/// # Errors
/// `Exists` if there is something called `target`, and it may not be replaced.
pub(crate) fn refuse_existing(target: &Path, force: bool) -> Result<()> {
    if !force && target.symlink_metadata().is_ok() {
        return Err(taken(target));
    }
    Ok(())
}

/// What is no file stays what it is, whoever asks: a file in place of `/dev/null` is the end of other programs.
fn refuse_special(target: &Path) -> Result<()> {
    match std::fs::metadata(target) {
        Ok(found) if !found.is_file() && !found.is_dir() => {
            Err(Error::new(ErrorKind::Exists, "it is a device, a pipe or a socket, no file")
                .mend("give the name of a file")
                .at(target.display().to_string()))
        }
        _ => Ok(()),
    }
}

fn taken(target: &Path) -> Error {
    Error::new(ErrorKind::Exists, "the output exists")
        .mend("choose another name, or ask to replace it (--force)")
        .at(target.display().to_string())
}
