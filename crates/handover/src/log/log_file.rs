//! The file of a log while its rank writes it. It lies in memory. If there is no room left it goes to a disk, with all that it
//! has: values that nothing is said of are lost.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};

use crate::log::account::Account;
use crate::log::spill::make_on_disk;
use crate::log::values_file::options;

/// Memory is set aside in steps of at least so many bytes, at most so many.
const SHORTEST_STEP: u64 = 1 << 12;
const LONGEST_STEP: u64 = 1 << 20;

/// A log that grows at its end.
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    /// Bytes that are written.
    length: u64,
    /// Bytes that memory was set aside for.
    had: u64,
    /// Where it goes if memory is short: a link that leads there is made beforehand, because a link takes memory, too.
    link: PathBuf,
    on_disk: bool,
    /// There may be bytes behind those that are written.
    is_torn: bool,
    account: Arc<dyn Account>,
}

impl LogFile {
    /// Makes the file at `path`, locked as long as this rank has it. `disk` is where it goes if memory is short.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn create(path: &Path, disk: &Path, account: Arc<dyn Account>) -> io::Result<Self> {
        let file = options().read(true).write(true).create(true).truncate(true).open(path)?;
        lock(&file)?;
        let mut link = path.as_os_str().to_owned();
        link.push(".more");
        let link = PathBuf::from(link);
        symlink(disk, &link)?;
        let mut made =
            Self { path: path.to_owned(), file, length: 0, had: 0, link, on_disk: false, is_torn: false, account };
        made.reach(SHORTEST_STEP);
        Ok(made)
    }

    /// Bytes that are written.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Sets memory aside up to byte `end`, and some more. Writing tells if there is none.
    fn reach(&mut self, end: u64) {
        if end <= self.had || self.on_disk {
            return;
        }
        let step = self.had.next_power_of_two().clamp(SHORTEST_STEP, LONGEST_STEP);
        let end = end.next_multiple_of(step);
        // The file is not longer for it: its length says what is written.
        if fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.had, end - self.had).is_ok() {
            self.account.charge(end - self.had);
            self.had = end;
        }
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// Those of the file system. The log is as it was before.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reach(self.length + bytes.len() as u64);
        let written = self.add(bytes).or_else(|error| match self.on_disk {
            true => Err(error),
            false => self.move_to_disk().and_then(|()| self.add(bytes)),
        });
        written?;
        if self.on_disk {
            self.account.on_disk(bytes.len() as u64);
        }
        Ok(())
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
    pub(crate) fn rewrite(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    /// Whoever opens the log from now on finds it on the disk. Its memory is free.
    fn move_to_disk(&mut self) -> io::Result<()> {
        let mut there = make_on_disk(&fs::read_link(&self.link)?)?;
        // On a disk without locks nobody can tell that this rank has ended.
        let _ = lock(&there);
        let mut content = vec![0; usize::try_from(self.length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut content, 0)?;
        there.write_all(&content)?;
        fs::rename(&self.link, &self.path)?;
        self.account.give_back(std::mem::take(&mut self.had));
        self.account.on_disk(self.length);
        self.file = there;
        (self.on_disk, self.is_torn) = (true, false);
        Ok(())
    }

    /// Nothing is added any more: memory that was set aside for it is given back.
    pub(crate) fn cut(&mut self) {
        let needed = self.length.next_multiple_of(SHORTEST_STEP);
        if !self.on_disk && needed < self.had && self.file.set_len(self.length).is_ok() {
            self.account.give_back(self.had - needed);
            self.had = needed;
        }
    }
}

/// Whoever waits for a rank knows by the lock that it lives.
fn lock(log: &File) -> io::Result<()> {
    loop {
        match log.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::account::Limit;

    #[test]
    fn a_log_that_finds_no_room_goes_to_the_disk_with_all_that_it_has() {
        let folder = std::env::temp_dir().join(format!("knarr-log-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, disk, account) = (folder.join("log"), folder.join("disk/there.log"), Limit::of(1 << 20));
        let mut log = LogFile::create(&path, &disk, Arc::<Limit>::clone(&account)).unwrap();
        log.append(b"first").unwrap();
        assert_eq!(account.taken(), SHORTEST_STEP);
        // A descriptor that cannot be written stands for a file system that is full.
        log.file = File::open(&path).unwrap();
        log.move_to_disk().unwrap();
        log.append(b"second").unwrap();
        log.rewrite(b"F", 0).unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), log.length()), (b"Firstsecond".as_slice(), 11));
        assert!(path.is_symlink() && !folder.join("log.more").is_symlink() && account.taken() == 0);
        assert!(matches!(File::open(&path).unwrap().try_lock_shared(), Err(fs::TryLockError::WouldBlock)));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_cannot_be_added_leaves_the_log_as_it_was() {
        let folder = std::env::temp_dir().join(format!("knarr-log-kept-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("no-directory"), b"").unwrap();
        let (path, account) = (folder.join("log"), Limit::of(1 << 20));
        let mut log = LogFile::create(&path, &folder.join("no-directory/log"), Arc::<Limit>::clone(&account)).unwrap();
        log.append(b"first").unwrap();
        let writable = std::mem::replace(&mut log.file, File::open(&path).unwrap());
        assert!(log.append(b"second").is_err());
        log.file = writable;
        log.append(b"third").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"firstthird");
        for _ in 0..1000 {
            log.append(&[1; 100]).unwrap();
        }
        log.cut();
        assert_eq!(account.taken(), log.length().next_multiple_of(SHORTEST_STEP));
        fs::remove_dir_all(folder).unwrap();
    }
}
