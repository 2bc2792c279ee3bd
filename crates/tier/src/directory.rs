//! A directory on a disk as a tier. Its files take what the file system says they take: parts of a file may be holes.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::account::Account;
use crate::counters::Space;
use crate::space::left_in;
use crate::tier::{Purpose, Reach, Tier, TierFile};

/// Unit of the blocks that the system says a file has.
const BLOCK: u64 = 512;
/// How often a file is tried to be made.
const TRIES: usize = 10;

/// The files of a directory on a disk.
#[derive(Debug, Clone)]
pub struct Directory {
    directory: PathBuf,
    account: Account,
    reach: Reach,
}

impl Directory {
    /// Those of `directory`, which is made when a file is, and may hold what the account says.
    pub fn new(directory: &Path, account: Account, reach: Reach) -> Self {
        Self { directory: directory.to_owned(), account, reach }
    }

    fn file(&self, file: File) -> io::Result<Box<dyn TierFile>> {
        let counted = on_disk(&file.metadata()?);
        Ok(Box::new(DiskFile { account: self.account.clone(), file, counted }))
    }
}

impl Tier for Directory {
    fn account(&self) -> &Account {
        &self.account
    }

    fn reach(&self) -> Reach {
        self.reach
    }

    fn left(&self) -> Space {
        left_in(&self.directory)
    }

    fn counts(&self, found: &Metadata, _: Purpose) -> u64 {
        on_disk(found)
    }

    fn create(&self, path: &Path, _: Purpose) -> io::Result<Box<dyn TierFile>> {
        if !self.account.take(Space::file()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let make = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            options().read(true).write(true).create(true).truncate(true).open(path)
        };
        // Other launchers remove the directory when nothing is in it.
        let made = (0..TRIES).find_map(|_| make().ok()).map_or_else(make, Ok);
        made.and_then(|file| self.file(file)).inspect_err(|_| self.account.give_back(Space::file()))
    }

    fn open(&self, path: &Path, _: Purpose) -> io::Result<Box<dyn TierFile>> {
        self.file(options().read(true).write(true).open(path)?)
    }

    fn free(&self, path: &Path) -> io::Result<()> {
        let found = fs::metadata(path)?;
        fs::remove_file(path)?;
        self.account.give_back(Space { bytes: on_disk(&found), inodes: 1 });
        Ok(())
    }
}

#[derive(Debug)]
struct DiskFile {
    account: Account,
    file: File,
    /// Bytes that the account counts for the file.
    counted: u64,
}

impl DiskFile {
    /// Has the account count what the file takes now.
    fn count(&mut self) {
        let takes = self.file.metadata().map_or(self.counted, |found| on_disk(&found));
        self.account.recount(self.counted, takes);
        self.counted = takes;
    }
}

impl TierFile for DiskFile {
    fn reserve(&mut self, end: u64) -> bool {
        let more = Space::bytes(end.saturating_sub(self.counted));
        if !self.account.take(more) {
            return false;
        }
        self.account.give_back(more);
        let reserved = match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, end) {
            // Where nothing can be had ahead, writing tells.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => true,
            Err(_) => false,
        };
        self.count();
        reserved
    }

    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let begin = Instant::now();
        self.file.write_all_at(bytes, at)?;
        self.account.wrote(bytes.len(), begin.elapsed());
        self.count();
        Ok(())
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(out, at)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.count();
        Ok(())
    }

    fn punch(&mut self, at: u64, length: u64) -> io::Result<()> {
        punch(&self.file, at, length)?;
        self.count();
        Ok(())
    }

    fn takes(&self) -> u64 {
        self.counted
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn lock(&self) -> io::Result<()> {
        lock(&self.file)
    }
}

/// Bytes that a file takes where it lies: parts of it may be holes.
pub(crate) fn on_disk(found: &Metadata) -> u64 {
    found.blocks() * BLOCK
}

/// How files of tiers are opened: only their user may read them.
pub(crate) fn options() -> fs::OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

/// Locks a file as long as it is open here.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked,
        }
    }
}

/// Gives back the whole blocks between these bytes. Returns how many bytes the file takes less.
pub(crate) fn punch(file: &File, at: u64, length: u64) -> io::Result<u64> {
    let blocks = || file.metadata().map(|found| on_disk(&found));
    let before = blocks()?;
    match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, length) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(before.saturating_sub(blocks()?)),
    }
}
