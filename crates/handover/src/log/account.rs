//! The memory that values may take. All processes of a node share it, so they count it together: what one has taken, no
//! other one can have.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes that values take, in memory and on a disk.
pub trait Account: Send + Sync + Debug {
    /// Takes memory. False if there is less left, and then nothing is taken.
    fn take(&self, bytes: u64) -> bool;

    /// Takes memory that is needed in any case, such as that of a log. Less is left for others then, perhaps nothing.
    fn charge(&self, bytes: u64);

    /// Gives back memory that was taken.
    fn give_back(&self, bytes: u64);

    /// Counts bytes that were written to a disk because memory was short.
    fn on_disk(&self, bytes: u64);
}

/// The account of one process.
#[derive(Debug)]
pub struct Limit {
    most: u64,
    taken: AtomicU64,
}

impl Limit {
    /// One by which values may take `most` bytes of memory.
    pub fn of(most: u64) -> Arc<Self> {
        Arc::new(Self { most, taken: AtomicU64::new(0) })
    }

    /// Bytes of memory that are taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Account for Limit {
    fn take(&self, bytes: u64) -> bool {
        let more = |taken: u64| taken.checked_add(bytes).filter(|&taken| taken <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn charge(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        let less = |taken: u64| Some(taken.saturating_sub(bytes));
        let _ = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    fn on_disk(&self, _: u64) {}
}
