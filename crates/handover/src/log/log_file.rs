//! The file of a log while its rank writes it. It lies in memory. If there is no room left it goes to a disk, with all that it
//! has: values that nothing is said of are lost.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_tier::{Purpose, Space, Tier, TierFile};

/// A log that grows at its end.
pub(crate) struct LogFile {
    path: PathBuf,
    file: Box<dyn TierFile>,
    /// Bytes that are written.
    length: u64,
    /// Where it goes if memory is short: a link that leads there is made beforehand, because a link takes memory, too.
    link: PathBuf,
    /// Where the log lies, and where it goes; none if it is there.
    tiers: [Arc<dyn Tier>; 2],
    on_disk: bool,
    /// There may be bytes behind those that are written.
    is_torn: bool,
}

impl LogFile {
    /// Makes the file at `path` in the first tier, locked as long as this rank has it. If that is full it goes to `disk` in the
    /// second one.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn create(tiers: [Arc<dyn Tier>; 2], path: &Path, disk: &Path) -> io::Result<Self> {
        let mut file = tiers[0].create(path, Purpose::Log)?;
        file.lock()?;
        let mut link = path.as_os_str().to_owned();
        link.push(".more");
        let link = PathBuf::from(link);
        symlink(disk, &link)?;
        // Writing tells if there is none.
        file.reserve(1);
        Ok(Self { path: path.to_owned(), file, length: 0, link, tiers, on_disk: false, is_torn: false })
    }

    /// Bytes that are written.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// Those of the file system. The log is as it was before.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.add(bytes).or_else(|error| match self.on_disk {
            true => Err(error),
            false => self.move_to_disk().and_then(|()| self.add(bytes)),
        })
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.length)?;
            self.is_torn = false;
        }
        match self.file.write_all_at(bytes, self.length) {
            Ok(()) => self.length += bytes.len() as u64,
            Err(error) => {
                // What was written of them would be read as a record.
                self.is_torn = self.file.set_len(self.length).is_err();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Replaces bytes that are written.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn rewrite(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    /// Whoever opens the log from now on finds it on the disk. Its memory is free.
    fn move_to_disk(&mut self) -> io::Result<()> {
        let [memory, disk] = &self.tiers;
        let mut there = disk.create(&fs::read_link(&self.link)?, Purpose::Log)?;
        // On a disk without locks nobody can tell that this rank has ended.
        let _ = there.lock();
        let mut content = vec![0; usize::try_from(self.length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut content, 0)?;
        there.write_all_at(&content, 0)?;
        fs::rename(&self.link, &self.path)?;
        memory.account().give_back(Space { bytes: self.file.takes(), inodes: 1 });
        self.file = there;
        (self.on_disk, self.is_torn) = (true, false);
        Ok(())
    }

    /// Nothing is added any more: memory that was set aside for it is given back.
    pub(crate) fn cut(&mut self) {
        // It lies there in any case.
        let _ = self.file.set_len(self.length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_testing::{Faults, Faulty};
    use knarr_tier::{Account, Directory, Reach, SharedMemory};
    use std::fs::File;

    /// Memory that is a directory, which fails as it is told, and a disk whose account is unlimited.
    fn tiers(folder: &Path) -> ([Arc<dyn Tier>; 2], Arc<Faults>) {
        fs::create_dir_all(folder).unwrap();
        let account = |bytes| Account::of(Space { bytes, inodes: 100 });
        let (memory, faults) = Faulty::new(SharedMemory::new(folder, account(1 << 20)));
        let disk = Directory::new(&folder.join("disk"), account(u64::MAX), Reach::AllNodes);
        ([Arc::new(memory), Arc::new(disk)], faults)
    }

    #[test]
    fn a_log_that_finds_no_room_goes_to_the_disk_with_all_that_it_has() {
        let folder = std::env::temp_dir().join(format!("knarr-log-file-{}", std::process::id()));
        let (path, disk, (tiers, faults)) = (folder.join("log"), folder.join("disk/there.log"), tiers(&folder));
        let mut log = LogFile::create(tiers.clone(), &path, &disk).unwrap();
        log.append(b"first").unwrap();
        assert_eq!(tiers[0].account().taken(), Space { bytes: 4096, inodes: 1 });
        faults.fail_next(1);
        log.append(b"second").unwrap();
        log.rewrite(b"F", 0).unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), log.length()), (b"Firstsecond".as_slice(), 11));
        assert!(path.is_symlink() && !folder.join("log.more").is_symlink());
        assert_eq!((tiers[0].account().taken(), tiers[1].account().taken().inodes), (Space::default(), 1));
        assert!(matches!(File::open(&path).unwrap().try_lock_shared(), Err(fs::TryLockError::WouldBlock)));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_cannot_be_added_leaves_the_log_as_it_was() {
        let folder = std::env::temp_dir().join(format!("knarr-log-kept-{}", std::process::id()));
        let (tiers, faults) = tiers(&folder);
        fs::write(folder.join("no-directory"), b"").unwrap();
        let memory = tiers[0].account().clone();
        let mut log = LogFile::create(tiers, &folder.join("log"), &folder.join("no-directory/log")).unwrap();
        log.append(b"first").unwrap();
        faults.fail_next(1);
        assert!(log.append(b"second").is_err());
        log.append(b"third").unwrap();
        assert_eq!(fs::read(folder.join("log")).unwrap(), b"firstthird");
        for _ in 0..1000 {
            log.append(&[1; 100]).unwrap();
        }
        log.cut();
        assert_eq!(memory.taken().bytes, log.length().next_multiple_of(4096));
        fs::remove_dir_all(folder).unwrap();
    }
}
