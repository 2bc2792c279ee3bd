//! The account of a node: how much memory values take there, in a page that all its processes have mapped. So taking memory
//! needs no message, and a process that is killed holds nobody up.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use knarr_handover::Account;

/// First number of the page; the last digit is the version.
const MAGIC: u64 = 0x4b4e_4152_5241_4301;
/// Bytes of the file.
const LENGTH: usize = 4096;

/// What all processes of the node see.
#[derive(Debug)]
#[repr(C)]
struct Page {
    magic: AtomicU64,
    /// Bytes of memory that values may take.
    limit: AtomicU64,
    /// Those that they take, and the most that they took at a time.
    taken: AtomicU64,
    most_taken: AtomicU64,
    /// The same of disks.
    on_disk: AtomicU64,
    most_on_disk: AtomicU64,
    /// The number of the newest file that was begun.
    generation: AtomicU64,
}

/// The account of a node. Each process that opens it has the same one.
#[derive(Debug)]
pub struct NodeAccount {
    page: NonNull<Page>,
}

// SAFETY: the page is mapped as long as the value lives, and has nothing but atomic numbers.
unsafe impl Send for NodeAccount {}
// SAFETY: as above.
unsafe impl Sync for NodeAccount {}

impl NodeAccount {
    /// Makes the account at `path`, by which values may take `limit` bytes of memory.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: &Path, limit: u64) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
        // The page exists before it is touched: a full file system is an error and no signal.
        io::Write::write_all(&mut &file, &[0; LENGTH])?;
        let made = Self::map(&file)?;
        made.page().limit.store(limit, Ordering::Relaxed);
        made.page().generation.store(now(), Ordering::Relaxed);
        made.page().magic.store(MAGIC, Ordering::Release);
        Ok(made)
    }

    /// Opens the account at `path`.
    ///
    /// # Errors
    /// Those of the file system; `InvalidData` if that is no account.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.len() < LENGTH as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let opened = Self::map(&file)?;
        match opened.page().magic.load(Ordering::Acquire) {
            MAGIC => Ok(opened),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn map(file: &File) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new addresses are asked for, which nothing else uses.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), LENGTH, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { page })
    }

    fn page(&self) -> &Page {
        // SAFETY: the page is mapped, is longer than `Page`, and is never made shorter; any bytes are valid numbers.
        unsafe { self.page.as_ref() }
    }

    /// Bytes of memory that values may take.
    pub fn limit(&self) -> u64 {
        self.page().limit.load(Ordering::Relaxed)
    }

    /// Bytes of memory that they take.
    pub fn taken(&self) -> u64 {
        self.page().taken.load(Ordering::Relaxed)
    }

    /// The most bytes of memory and of disks that they took at a time.
    pub fn most(&self) -> (u64, u64) {
        (self.page().most_taken.load(Ordering::Relaxed), self.page().most_on_disk.load(Ordering::Relaxed))
    }

    /// Corrects what is taken, if that is still `before`: a process that was killed may have taken what it did not use.
    pub fn correct(&self, before: u64, taken: u64) {
        let _ = self.page().taken.compare_exchange(before, taken, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Bytes that were written to a disk are no longer there.
    pub fn off_disk(&self, bytes: u64) {
        subtract(&self.page().on_disk, bytes);
    }

    /// A number that is larger than all that were given on this node before, and than `other`. Numbers of earlier runs are
    /// smaller, too, as long as the clock of the machine goes on.
    pub fn next_generation(&self, other: u64) -> u64 {
        let generation = &self.page().generation;
        let mut last = generation.load(Ordering::Relaxed);
        loop {
            let next = last.max(other).saturating_add(1).max(now());
            match generation.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return next,
                Err(found) => last = found,
            }
        }
    }
}

/// Microseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(0)
}

fn subtract(number: &AtomicU64, bytes: u64) {
    let less = |taken: u64| Some(taken.saturating_sub(bytes));
    let _ = number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

impl Account for NodeAccount {
    fn take(&self, bytes: u64) -> bool {
        let limit = self.limit();
        let more = |taken: u64| taken.checked_add(bytes).filter(|&taken| taken <= limit);
        let before = self.page().taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if let Ok(before) = before {
            self.page().most_taken.fetch_max(before + bytes, Ordering::Relaxed);
        }
        before.is_ok()
    }

    fn charge(&self, bytes: u64) {
        let before = self.page().taken.fetch_add(bytes, Ordering::Relaxed);
        self.page().most_taken.fetch_max(before + bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        subtract(&self.page().taken, bytes);
    }

    fn on_disk(&self, bytes: u64) {
        let before = self.page().on_disk.fetch_add(bytes, Ordering::Relaxed);
        self.page().most_on_disk.fetch_max(before + bytes, Ordering::Relaxed);
    }
}

impl Drop for NodeAccount {
    fn drop(&mut self) {
        // SAFETY: what was mapped by `map`, to which no reference is left.
        unsafe { libc::munmap(self.page.as_ptr().cast(), LENGTH) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_testing::account_suite::account_suite;

    #[test]
    fn processes_that_open_it_have_the_same_account() {
        let path = std::env::temp_dir().join(format!("knarr-account-{}", std::process::id()));
        let first = NodeAccount::create(&path, 1 << 20).unwrap();
        account_suite(&first, 1 << 20);
        let (most, _) = first.most();
        assert!(most >= 1 << 20);
        let second = NodeAccount::open(&path).unwrap();
        assert!(first.take(1000) && second.taken() == 1000 && second.limit() == 1 << 20);
        second.on_disk(70);
        first.off_disk(60);
        second.on_disk(5);
        assert_eq!(first.most(), (most, 70));
        second.correct(999, 7);
        assert_eq!(first.taken(), 1000);
        second.correct(1000, 7);
        assert_eq!(first.taken(), 7);
        std::fs::remove_file(&path).unwrap();
        assert!(NodeAccount::open(&path).is_err());
        std::fs::write(&path, vec![0; LENGTH]).unwrap();
        assert!(NodeAccount::open(&path).is_err(), "an account that is being made");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn generations_grow() {
        let path = std::env::temp_dir().join(format!("knarr-generations-{}", std::process::id()));
        let account = NodeAccount::create(&path, 0).unwrap();
        let first = account.next_generation(0);
        let second = account.next_generation(first + 1_000_000_000_000);
        let third = account.next_generation(0);
        assert!(first < second && second < third && second > first + 1_000_000_000_000);
        std::fs::remove_file(path).unwrap();
    }
}
