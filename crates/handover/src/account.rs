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

/// What account books have to do, whoever keeps them. For tests of every crate.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use super::Account;

    /// Checks an account of which `most` bytes are left, at least 100 of them.
    ///
    /// # Panics
    /// If it does not count as it has to.
    pub fn account_suite(account: &dyn Account, most: u64) {
        assert!(!account.take(most + 1), "more than there is");
        assert!(!account.take(u64::MAX), "a number that is too large to be added");
        assert!(account.take(most - 10) && !account.take(11) && account.take(10));
        assert!(account.take(0) && !account.take(1));
        account.give_back(60);
        assert!(!account.take(61) && account.take(60));
        // What is needed in any case leaves less for others.
        account.charge(40);
        account.give_back(50);
        assert!(!account.take(11) && account.take(10));
        account.give_back(u64::MAX);
        assert!(account.take(most), "no more is given back than was taken");
        account.give_back(most);
        // Many at a time take all of it, and no more.
        let each = most / 64;
        let taken: u64 = std::thread::scope(|scope| {
            let take = || (0..32).filter(|_| account.take(each)).count() as u64;
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
        });
        assert_eq!(taken, (most / each).min(128));
        account.give_back(taken * each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts() {
        testing::account_suite(&*Limit::of(1 << 20), 1 << 20);
    }
}
