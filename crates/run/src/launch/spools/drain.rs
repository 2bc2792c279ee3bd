//! Moves what was handed over from memory to a disk. Memory is lost when the machine restarts, and batch systems clear it
//! when a job ends: they send SIGTERM, and SIGKILL some seconds later. Copying takes less time than making files.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_capture::{HandedOver, settled};

use crate::launch::spools::spool::Spool;

/// A spool on a disk.
pub(in crate::launch) struct Drained(Spool);

impl Drained {
    /// Makes one in `disk`.
    ///
    /// # Errors
    /// `Write`.
    pub(in crate::launch) fn create(disk: &Path) -> Result<Self> {
        fs::create_dir_all(disk).map_err(|error| Error::write(disk, &error))?;
        Spool::create_on_disk(disk).map(Self)
    }

    pub(in crate::launch) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Copies the files of `directory` to the disk, synced. Returns where they lie there; `None` if they are there already, or if
    /// there is no such directory any more.
    ///
    /// # Errors
    /// `Write` if they find no room.
    pub(in crate::launch) fn copy(&self, directory: &Path) -> Result<Option<PathBuf>> {
        let to = directory.file_name().map(|name| self.path().join(name)).filter(|to| to != directory);
        let Some(to) = to else { return Ok(None) };
        match settled(|| fs::create_dir(&to)) {
            // Another copy, which stays.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            made => made.map_err(|error| Error::write(&to, &error))?,
        }
        // What the links in it lead to belongs to the directory that it was copied from.
        let remove = || fs::remove_dir_all(&to);
        let copied = settled(|| {
            let copied = copy(directory, &to).and_then(|()| self.sync());
            copied.inspect_err(|_| drop(remove().and_then(|()| fs::create_dir(&to))))
        });
        let Err(error) = copied else { return Ok(Some(to)) };
        let _ = remove();
        // It may have been delivered meanwhile.
        if directory.try_exists().unwrap_or(true) { Err(Error::write(&to, &error)) } else { Ok(None) }
    }

    /// Makes sure that the directory and those above it, which may be new, are found again after a crash.
    fn sync(&self) -> io::Result<()> {
        self.path().ancestors().take(3).try_for_each(sync_directory)
    }
}

/// Makes sure that the names in a directory are there after a crash, where the file system can and this user may.
fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory).and_then(|opened| opened.sync_all()) {
        Err(error) if CANNOT_SYNC.contains(&error.kind()) => Ok(()),
        synced => synced,
    }
}

/// What file systems say that sync no directories, and of directories of others.
const CANNOT_SYNC: [ErrorKind; 3] = [ErrorKind::InvalidInput, ErrorKind::Unsupported, ErrorKind::PermissionDenied];

/// Syncs what a link leads to, and the directory in which that lies. There may be nothing yet.
fn sync_target(target: &Path) -> io::Result<()> {
    match File::open(target) {
        Ok(file) => file.sync_all()?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    target.parent().map_or(Ok(()), sync_directory)
}

/// Copies the files and links of a directory that has no others, and syncs them and what links lead to. What makes it one that
/// is handed over comes last, in one step: a copy that is broken off is none.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let entries = fs::read_dir(from)?.collect::<io::Result<Vec<_>>>()?;
    let is_record = |entry: &fs::DirEntry| HandedOver::RECORDS.iter().any(|name| entry.file_name() == *name);
    let (records, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_record);
    for entry in others {
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_symlink() {
            let target = fs::read_link(old)?;
            sync_target(&target)?;
            std::os::unix::fs::symlink(target, new)?;
        } else {
            fs::copy(old, &new)?;
            File::open(new)?.sync_all()?;
        }
    }
    for entry in records {
        let new = to.join("record");
        fs::copy(entry.path(), &new)?;
        File::open(&new)?.sync_all()?;
        fs::rename(new, to.join(entry.file_name()))?;
    }
    sync_directory(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_broken_off_is_not_taken_for_what_was_handed_over() {
        let place = std::env::temp_dir().join(format!("knarr-drained-broken-{}", std::process::id()));
        let (from, to) = (place.join("from"), place.join("to"));
        fs::create_dir_all(from.join("no file can be copied from this")).unwrap();
        for name in HandedOver::RECORDS {
            fs::write(from.join(name), "{}").unwrap();
        }
        fs::create_dir(&to).unwrap();
        copy(&from, &to).unwrap_err();
        assert!(HandedOver::RECORDS.iter().all(|name| !to.join(name).exists()));
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn files_and_links_are_copied_unless_there_is_no_place() {
        let place = std::env::temp_dir().join(format!("knarr-drained-{}", std::process::id()));
        let memory = place.join("memory");
        fs::create_dir_all(&memory).unwrap();
        fs::write(memory.join("values.0"), [7; 5000]).unwrap();
        fs::write(place.join("more"), [8; 10]).unwrap();
        std::os::unix::fs::symlink(place.join("more"), memory.join("disk.0")).unwrap();
        let drained = Drained::create(&place.join("disk")).unwrap();
        let at = drained.copy(&memory).unwrap().unwrap();
        assert_eq!(at, drained.path().join("memory"));
        assert_eq!(fs::read(at.join("values.0")).unwrap(), [7; 5000]);
        assert_eq!(fs::read(at.join("disk.0")).unwrap(), [8; 10]);
        // The name is taken.
        assert_eq!(drained.copy(&memory).unwrap(), None);
        assert_eq!(drained.copy(&at).unwrap(), None, "it is there already");
        assert_eq!(drained.copy(&place.join("gone")).unwrap(), None);
        assert_eq!(fs::read(memory.join("values.0")).unwrap(), [7; 5000]);
        fs::remove_dir_all(place).unwrap();
    }
}
