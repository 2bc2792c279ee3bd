//! Moves what was handed over from memory to a disk: that of all nodes, or a tier of this one. Memory is lost when the machine
//! restarts, and batch systems clear it when a job ends: they send SIGTERM, and SIGKILL some seconds later. Copying takes less
//! time than making files.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::{Error, Result};
use knarr_capture::{ACCOUNT, HandedOver, TIERS, TierIn, settled};
use knarr_tier::{Account, Directory, NodeAccount, Reach, Space, Tier, copy_file, sync_directory};

use crate::launch::spools::spool::Spool;

/// A spool on a disk. That in a tier has the accounts of the node, others have their own.
pub(in crate::launch) struct SpoolOnDisk {
    spool: Spool,
    /// Of what is known of files, which takes little.
    disk: Directory,
    /// Of values and logs.
    values: Arc<dyn Tier>,
}

impl SpoolOnDisk {
    /// Makes one in `disk`.
    ///
    /// # Errors
    /// `Write`.
    pub(in crate::launch) fn create(disk: &Path) -> Result<Self> {
        fs::create_dir_all(disk).map_err(|error| Error::write(disk, &error))?;
        let spool = Spool::create_on_disk(disk)?;
        let account = spool.path().join(ACCOUNT);
        let accounts = NodeAccount::create(&account, &[Space::UNLIMITED; 2]);
        let account = accounts.map_err(|error| Error::write(&account, &error))?.tier(0);
        let disk = Directory::new(spool.path(), account, Reach::AllNodes);
        let values = Arc::new(disk.clone());
        Ok(Self { spool, disk, values })
    }

    /// Makes one in a tier of the node whose spool is at `memory`: both have one account.
    ///
    /// # Errors
    /// `Write`.
    pub(in crate::launch) fn in_tier((values, tier): TierIn, memory: &Path) -> Result<Self> {
        let spool = Spool::create_on_disk(&tier)?;
        for name in [ACCOUNT, TIERS] {
            let link = spool.path().join(name);
            symlink(memory.join(name), &link).map_err(|error| Error::write(&link, &error))?;
        }
        let disk = Directory::new(spool.path(), Account::of(Space::UNLIMITED), Reach::Node);
        Ok(Self { spool, disk, values })
    }

    pub(in crate::launch) fn path(&self) -> &Path {
        self.spool.path()
    }

    /// Copies the files of `directory` to the disk, synced: without values if the file waits in a tier. Returns where they lie there;
    /// `None` if they are there already, or if there is no such directory any more.
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
        let copied = settled(|| {
            // The directory stays: another thread could make it at this moment.
            self.fill(directory, &to).and_then(|()| self.sync()).inspect_err(|_| self.clear(&to))
        });
        let Err(error) = copied else { return Ok(Some(to)) };
        let _ = fs::remove_dir(&to);
        // It may have been delivered meanwhile.
        if directory.try_exists().unwrap_or(true) { Err(Error::write(&to, &error)) } else { Ok(None) }
    }

    /// Removes what is in a copy that was broken off. What the links in it lead to belongs to the directory that it was copied from.
    fn clear(&self, to: &Path) {
        for entry in fs::read_dir(to).into_iter().flatten().flatten() {
            let is_counted = HandedOver::is_counted(&entry.file_name().to_string_lossy());
            if is_counted && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                let _ = self.values.free(&entry.path());
            } else {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Makes sure that the directory and those above it, which may be new, are found again after a crash.
    fn sync(&self) -> io::Result<()> {
        self.path().ancestors().take(3).try_for_each(sync_directory)
    }

    /// Copies the files and links of a directory that has no others, and syncs them and what links lead to. What makes it one that
    /// is handed over comes last, in one step: a copy that is broken off is none.
    fn fill(&self, from: &Path, to: &Path) -> io::Result<()> {
        // Of one that is encoded at this moment, values are copied, too.
        let has_image = HandedOver::has_image(from);
        let entries = fs::read_dir(from)?.collect::<io::Result<Vec<_>>>()?;
        let is_record = |entry: &fs::DirEntry| HandedOver::RECORDS.iter().any(|name| entry.file_name() == *name);
        let (records, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_record);
        for entry in others {
            let name = entry.file_name().to_string_lossy().into_owned();
            if has_image && HandedOver::is_in_image(&name) {
                continue;
            }
            let (old, new) = (entry.path(), to.join(entry.file_name()));
            if entry.file_type()?.is_symlink() {
                let target = fs::read_link(old)?;
                sync_target(&target)?;
                symlink(target, new)?;
            } else if HandedOver::is_counted(&name) {
                copy_file(&old, &*self.values, &new)?;
            } else {
                copy_file(&old, &self.disk, &new)?;
            }
        }
        for entry in records {
            let new = to.join("record");
            copy_file(&entry.path(), &self.disk, &new)?;
            fs::rename(new, to.join(entry.file_name()))?;
        }
        sync_directory(to)
    }
}

/// Syncs what a link leads to, and the directory in which that lies. There may be nothing yet.
fn sync_target(target: &Path) -> io::Result<()> {
    match File::open(target) {
        Ok(file) => file.sync_all()?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    target.parent().map_or(Ok(()), sync_directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_broken_off_is_not_taken_for_what_was_handed_over() {
        let place = std::env::temp_dir().join(format!("knarr-on_disk-broken-{}", std::process::id()));
        let (from, to) = (place.join("from"), place.join("to"));
        fs::create_dir_all(from.join("no file can be copied from this")).unwrap();
        for name in HandedOver::RECORDS {
            fs::write(from.join(name), "{}").unwrap();
        }
        fs::create_dir(&to).unwrap();
        let on_disk = SpoolOnDisk::create(&place.join("disk")).unwrap();
        on_disk.fill(&from, &to).unwrap_err();
        assert!(HandedOver::RECORDS.iter().all(|name| !to.join(name).exists()));
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn files_and_links_are_copied_unless_there_is_no_place() {
        let place = std::env::temp_dir().join(format!("knarr-on_disk-{}", std::process::id()));
        let memory = place.join("memory");
        fs::create_dir_all(&memory).unwrap();
        fs::write(memory.join("values.0"), [7; 5000]).unwrap();
        fs::write(place.join("more"), [8; 10]).unwrap();
        std::os::unix::fs::symlink(place.join("more"), memory.join("disk.0")).unwrap();
        let on_disk = SpoolOnDisk::create(&place.join("disk")).unwrap();
        let at = on_disk.copy(&memory).unwrap().unwrap();
        assert_eq!(at, on_disk.path().join("memory"));
        assert_eq!(fs::read(at.join("values.0")).unwrap(), [7; 5000]);
        assert_eq!(fs::read(at.join("disk.0")).unwrap(), [8; 10]);
        // The name is taken.
        assert_eq!(on_disk.copy(&memory).unwrap(), None);
        assert_eq!(on_disk.copy(&at).unwrap(), None, "it is there already");
        assert_eq!(on_disk.copy(&place.join("gone")).unwrap(), None);
        assert_eq!(fs::read(memory.join("values.0")).unwrap(), [7; 5000]);
        fs::remove_dir_all(place).unwrap();
    }
}
