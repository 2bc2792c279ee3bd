//! A page of memory that all processes of a node have mapped. So taking space needs no message, and a process that is killed holds
//! nobody up.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::{Counters, Space};

/// First number of the page; the last digit is the version.
const MAGIC: u64 = 0x4b4e_4152_5241_4303;
/// Bytes of the file.
const LENGTH: usize = 4096;
/// Tiers that a node has, at most.
const MOST_TIERS: usize = 8;

/// What all processes of the node see.
#[derive(Debug)]
#[repr(C)]
struct Shared {
    magic: AtomicU64,
    /// The number of the newest file that was begun.
    generation: AtomicU64,
    tiers: [Counters; MOST_TIERS],
}

/// A page that is mapped.
#[derive(Debug)]
pub(crate) struct Page(NonNull<Shared>);

// SAFETY: the page is mapped as long as the value lives, and has nothing but atomic numbers.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Makes the page at `path`. Tier `n` has `limits[n]`; files are numbered from `generation` on.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn create(path: &Path, limits: &[Space], generation: u64) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
        // The page exists before it is touched: a full file system is an error and no signal.
        io::Write::write_all(&mut &file, &[0; LENGTH])?;
        let page = Self::map(&file)?;
        for (counters, limit) in page.shared().tiers.iter().zip(limits) {
            counters.set_limit(*limit);
        }
        page.generation().store(generation, Ordering::Relaxed);
        page.shared().magic.store(MAGIC, Ordering::Release);
        Ok(page)
    }

    /// Opens the page at `path`.
    ///
    /// # Errors
    /// Those of the file system; `InvalidData` if it is none.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.len() < LENGTH as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let page = Self::map(&file)?;
        match page.shared().magic.load(Ordering::Acquire) {
            MAGIC => Ok(page),
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
        NonNull::new(address.cast()).map(Self).ok_or_else(|| io::Error::other("mapped at address 0"))
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the page is mapped, is longer than `Shared`, and is never made shorter; any bytes are valid numbers.
        unsafe { self.0.as_ref() }
    }

    /// The number of the newest file that was begun.
    pub(crate) fn generation(&self) -> &AtomicU64 {
        &self.shared().generation
    }

    /// What is counted of a tier. A number that no tier has means the first one.
    pub(crate) fn counters(&self, tier: usize) -> &Counters {
        let [first, ..] = &self.shared().tiers;
        self.shared().tiers.get(tier).unwrap_or(first)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: what was mapped by `map`, to which no reference is left.
        unsafe { libc::munmap(self.0.as_ptr().cast(), LENGTH) };
    }
}
