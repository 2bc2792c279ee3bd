//! Moves what was handed over from memory to a disk. Memory is lost when the machine restarts, and batch systems clear it
//! when a job ends: they send SIGTERM, and SIGKILL some seconds later. Copying takes less time than making files.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use knarr_array::error::Result;

use super::spool::Spool;

/// A spool on a disk.
pub(super) struct Drained(Spool);

impl Drained {
    /// Makes one in `disk`.
    ///
    /// # Errors
    /// `Write`.
    pub(super) fn create(disk: &Path) -> Result<Self> {
        fs::create_dir_all(disk).map_err(|error| knarr_array::Error::write(disk, &error))?;
        Spool::create_in(disk).map(Self)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where the files of `directory` lie now: on the disk, synced, or where they were if they find no room there.
    pub(super) fn take(&self, directory: &Path) -> PathBuf {
        let to = directory.file_name().map(|name| self.path().join(name)).unwrap_or_default();
        match copy(directory, &to) {
            Ok(()) => {
                // What the links in it lead to is on the disk already, and stays.
                let _ = fs::remove_dir_all(directory);
                to
            }
            Err(_) => {
                let _ = fs::remove_dir_all(&to);
                directory.to_owned()
            }
        }
    }
}

/// Copies the files and links of a directory that has no others, and syncs them.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(old)?, new)?;
        } else {
            fs::copy(old, &new)?;
            File::open(new)?.sync_all()?;
        }
    }
    File::open(to)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_links_move_and_stay_where_there_is_no_place() {
        let place = std::env::temp_dir().join(format!("knarr-drained-{}", std::process::id()));
        let memory = place.join("memory");
        fs::create_dir_all(&memory).unwrap();
        fs::write(memory.join("values.0"), [7; 5000]).unwrap();
        fs::write(place.join("more"), [8; 10]).unwrap();
        std::os::unix::fs::symlink(place.join("more"), memory.join("disk.0")).unwrap();
        let drained = Drained::create(&place.join("disk")).unwrap();
        let at = drained.take(&memory);
        assert_eq!(at, drained.path().join("memory"));
        assert!(!memory.exists());
        assert_eq!(fs::read(at.join("values.0")).unwrap(), [7; 5000]);
        assert_eq!(fs::read(at.join("disk.0")).unwrap(), [8; 10]);
        // The name is taken.
        fs::create_dir(&memory).unwrap();
        fs::write(memory.join("values.0"), [9; 10]).unwrap();
        assert_eq!(drained.take(&memory), memory);
        assert_eq!(fs::read(memory.join("values.0")).unwrap(), [9; 10]);
        fs::remove_dir_all(place).unwrap();
    }
}
