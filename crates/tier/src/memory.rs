//! Memory as a tier: files of a file system in memory, such as `/dev/shm`. They outlive the process that wrote them.
//!
//! Bytes are set aside before they are touched: a full file system is an answer then and no signal. Files of which nothing is
//! needed any more leave their memory to files that come, because new pages cost more than the copy itself.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::account::Account;
use crate::counters::Space;
use crate::directory::{lock, on_disk, options, punch};
use crate::mapping::Mapping;
use crate::space::left_in;
use crate::tier::{Purpose, Reach, Tier, TierFile};

/// Memory is taken ahead in steps, because programs put many small values. The more there is, the longer is the step.
struct Steps {
    shortest: u64,
    longest: u64,
}

const OF_VALUES: Steps = Steps { shortest: 1 << 16, longest: 1 << 24 };
const OF_LOGS: Steps = Steps { shortest: 1 << 12, longest: 1 << 20 };
/// Bytes that are set aside by one call: a signal that comes meanwhile makes the system begin again.
const PIECE: u64 = 1 << 25;
/// How often in a row signals may interrupt that.
const TRIES: usize = 1000;

/// The files of a directory in memory.
#[derive(Debug, Clone)]
pub struct SharedMemory {
    directory: PathBuf,
    account: Account,
}

impl SharedMemory {
    /// Those of `directory`, which may hold what the account says.
    pub fn new(directory: &Path, account: Account) -> Self {
        Self { directory: directory.to_owned(), account }
    }

    /// The directory of files that wait to be used again.
    pub fn reusable(directory: &Path) -> PathBuf {
        directory.join("free")
    }

    /// Keeps the memory of the file of values at `path` for values that come, if there are any bytes in it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn reuse(directory: &Path, path: &Path, name: &Path) -> io::Result<()> {
        match fs::metadata(path)?.len() {
            0 => Ok(()),
            _ => fs::rename(path, Self::reusable(directory).join(name)),
        }
    }

    /// Files that wait to be used again: their bytes, and where they are, the shortest first.
    pub fn waiting(directory: &Path) -> Vec<(u64, PathBuf)> {
        let entries = fs::read_dir(Self::reusable(directory)).into_iter().flatten().flatten();
        let mut found: Vec<_> =
            entries.filter_map(|entry| Some((entry.metadata().ok()?.len(), entry.path()))).collect();
        found.sort_unstable();
        found
    }

    fn file(&self, file: File, purpose: Purpose) -> io::Result<Box<dyn TierFile>> {
        let has = self.counts(&file.metadata()?, purpose);
        let (tier, mapping) = (self.clone(), Mapping::default());
        Ok(Box::new(MemoryFile { tier, file, purpose, has, punched: 0, mapping, can_reserve: true }))
    }

    /// Removes files that wait to be used again, until the account has so many bytes. False if it has not.
    fn make_room(&self, bytes: u64) -> bool {
        for (length, path) in Self::waiting(&self.directory).into_iter().rev() {
            // Another process may take it at this moment: one of both gets it.
            if fs::remove_file(path).is_err() {
                continue;
            }
            self.account.give_back(Space { bytes: length, inodes: 1 });
            if self.account.take(Space::bytes(bytes)) {
                self.account.give_back(Space::bytes(bytes));
                return true;
            }
        }
        false
    }
}

impl Tier for SharedMemory {
    fn account(&self) -> &Account {
        &self.account
    }

    fn reach(&self) -> Reach {
        Reach::Node
    }

    fn left(&self) -> Space {
        left_in(&self.directory)
    }

    fn counts(&self, found: &Metadata, purpose: Purpose) -> u64 {
        match purpose {
            Purpose::Values => found.len(),
            Purpose::Log => on_disk(found),
        }
    }

    fn create(&self, path: &Path, purpose: Purpose) -> io::Result<Box<dyn TierFile>> {
        // Others take them, too: each of them once.
        let reuse = || Self::waiting(&self.directory).into_iter().rev().any(|(_, one)| fs::rename(one, path).is_ok());
        let is_reused = purpose == Purpose::Values && reuse();
        match (is_reused, purpose) {
            (true, _) => {}
            (false, Purpose::Log) => self.account.charge(Space::file()),
            (false, Purpose::Values) if self.account.take(Space::file()) => {}
            (false, Purpose::Values) => return Err(io::ErrorKind::StorageFull.into()),
        }
        let made = options().read(true).write(true).create(true).truncate(!is_reused).open(path);
        let made = made.and_then(|file| self.file(file, purpose));
        if made.is_err() && !is_reused {
            self.account.give_back(Space::file());
        }
        made
    }

    fn open(&self, path: &Path, purpose: Purpose) -> io::Result<Box<dyn TierFile>> {
        self.file(options().read(true).write(true).open(path)?, purpose)
    }

    fn free(&self, path: &Path) -> io::Result<()> {
        let found = fs::metadata(path)?;
        fs::remove_file(path)?;
        self.account.give_back(Space { bytes: found.len().max(on_disk(&found)), inodes: 1 });
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryFile {
    tier: SharedMemory,
    file: File,
    purpose: Purpose,
    /// Bytes that were set aside, and are taken from the account.
    has: u64,
    /// Bytes of these that were punched out and not written again: the account does not count them.
    punched: u64,
    mapping: Mapping,
    /// False where the file system sets nothing aside: writing says then whether there is space.
    can_reserve: bool,
}

impl MemoryFile {
    /// Takes memory up to byte `end` from the account, and from the file system.
    fn take(&mut self, end: u64) -> bool {
        let bytes = Space::bytes(end - self.has);
        // What is not there need not be taken piece by piece.
        if bytes.bytes > PIECE && bytes.bytes > self.tier.left().bytes {
            return false;
        }
        match self.purpose {
            Purpose::Log => self.tier.account.charge(bytes),
            Purpose::Values if self.tier.account.take(bytes) => {}
            Purpose::Values => return false,
        }
        let flags = match self.purpose {
            Purpose::Log => FallocateFlags::KEEP_SIZE,
            Purpose::Values => FallocateFlags::empty(),
        };
        while self.has < end {
            let next = end.min(self.has + PIECE);
            match set_aside(&self.file, flags, self.has, next - self.has) {
                Ok(is_done) => self.can_reserve &= is_done,
                Err(_) => {
                    self.tier.account.give_back(Space::bytes(end - self.has));
                    return false;
                }
            }
            self.has = next;
        }
        true
    }

    /// Has the account count again what was written into holes, or was cut off with them.
    fn count_holes(&mut self) -> io::Result<()> {
        if self.punched > 0 {
            let holes = self.has.saturating_sub(on_disk(&self.file.metadata()?));
            self.tier.account.charge(Space::bytes(self.punched.saturating_sub(holes)));
            self.punched = self.punched.min(holes);
        }
        Ok(())
    }
}

impl TierFile for MemoryFile {
    fn reserve(&mut self, end: u64) -> bool {
        if end <= self.has {
            return true;
        }
        let (steps, now) = match self.purpose {
            Purpose::Values => (OF_VALUES, self.has / 2),
            Purpose::Log => (OF_LOGS, self.has),
        };
        let step = now.next_power_of_two().clamp(steps.shortest, steps.longest);
        let ahead = end.checked_next_multiple_of(step).unwrap_or(end);
        // If there is no memory ahead there may be enough for these.
        self.take(ahead) || self.take(end) || self.tier.make_room(end - self.has) && self.take(end)
    }

    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let end = at.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        let is_reserved = self.reserve(end);
        let begin = Instant::now();
        match self.purpose {
            // Nothing may touch bytes that are not there.
            Purpose::Values if !is_reserved => return Err(io::ErrorKind::StorageFull.into()),
            // Touching a hole is a signal if there is no memory for it.
            Purpose::Values if self.can_reserve && self.punched == 0 => {
                self.mapping.write_all_at(&self.file, bytes, at)?
            }
            Purpose::Values | Purpose::Log => self.file.write_all_at(bytes, at)?,
        }
        self.count_holes()?;
        self.tier.account.wrote(bytes.len(), begin.elapsed());
        Ok(())
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(out, at)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        let needs = match self.purpose {
            Purpose::Values => length,
            Purpose::Log => length.next_multiple_of(OF_LOGS.shortest),
        };
        if self.purpose == Purpose::Values && length > self.has && !self.reserve(length) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.set_len(length)?;
        self.mapping.cut(length);
        if needs < self.has {
            self.tier.account.give_back(Space::bytes(self.has - needs));
            self.has = needs;
        }
        self.count_holes()
    }

    fn punch(&mut self, at: u64, length: u64) -> io::Result<()> {
        let freed = punch(&self.file, at, length)?;
        self.tier.account.give_back(Space::bytes(freed));
        self.punched += freed;
        Ok(())
    }

    fn takes(&self) -> u64 {
        self.has.saturating_sub(self.punched)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn lock(&self) -> io::Result<()> {
        lock(&self.file)
    }
}

/// Sets bytes of a file aside. False where the file system cannot: writing says then whether there is space.
fn set_aside(file: &File, flags: FallocateFlags, from: u64, bytes: u64) -> io::Result<bool> {
    for _ in 0..TRIES {
        match fallocate(file, flags, from, bytes) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::INTR.into())
}
