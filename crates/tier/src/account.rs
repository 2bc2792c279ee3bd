//! The account of a tier: how many bytes and files it holds, how many it may hold, and how fast it takes them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::counters::{Counters, Space};
use crate::page::Page;

/// Shorter writes say little about the speed of a tier.
const LONG: usize = 1 << 16;
/// When so many nanoseconds were measured, the older half of them counts less.
const REMEMBERED: u64 = 10_000_000_000;

/// Counts what a tier holds. Copies of an account are the same account.
#[derive(Debug, Clone)]
pub struct Account(Scope);

#[derive(Debug, Clone)]
enum Scope {
    OfProcess(Arc<Counters>),
    /// The number of the tier in the page of the node.
    OfNode(Arc<Page>, usize),
}

impl Account {
    /// The account of one process, by which a tier may hold `limit`.
    pub fn of(limit: Space) -> Self {
        let counters = Counters::default();
        counters.set_limit(limit);
        Self(Scope::OfProcess(Arc::new(counters)))
    }

    fn counters(&self) -> &Counters {
        match &self.0 {
            Scope::OfProcess(counters) => counters,
            Scope::OfNode(page, tier) => page.counters(*tier),
        }
    }

    /// What the tier may hold.
    pub fn limit(&self) -> Space {
        let counters = self.counters();
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Space { bytes: of(&counters.limit), inodes: of(&counters.inode_limit) }
    }

    /// What the tier holds.
    pub fn taken(&self) -> Space {
        let counters = self.counters();
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Space { bytes: of(&counters.taken), inodes: of(&counters.inodes) }
    }

    /// The most bytes that the tier held at a time.
    pub fn most_bytes(&self) -> u64 {
        self.counters().most_taken.load(Ordering::Relaxed)
    }

    /// Takes space. False if there is less left, and then nothing is taken.
    pub fn take(&self, space: Space) -> bool {
        let counters = self.counters();
        let take = |number: &AtomicU64, limit: &AtomicU64, amount: u64| {
            let limit = limit.load(Ordering::Relaxed);
            let more = |taken: u64| taken.checked_add(amount).filter(|&taken| taken <= limit);
            number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        };
        // None of it is to be had always, even where more was charged than there is.
        if space.inodes > 0 && take(&counters.inodes, &counters.inode_limit, space.inodes).is_err() {
            return false;
        }
        if space.bytes == 0 {
            return true;
        }
        let before = take(&counters.taken, &counters.limit, space.bytes);
        match before {
            Ok(before) => _ = counters.most_taken.fetch_max(before + space.bytes, Ordering::Relaxed),
            Err(_) => subtract(&counters.inodes, space.inodes),
        }
        before.is_ok()
    }

    /// Takes space that is needed in any case, such as that of a log. Less is left for others then, perhaps nothing.
    pub fn charge(&self, space: Space) {
        let counters = self.counters();
        counters.inodes.fetch_add(space.inodes, Ordering::Relaxed);
        let before = counters.taken.fetch_add(space.bytes, Ordering::Relaxed);
        counters.most_taken.fetch_max(before.saturating_add(space.bytes), Ordering::Relaxed);
    }

    /// Gives space back that was taken.
    pub fn give_back(&self, space: Space) {
        let counters = self.counters();
        subtract(&counters.taken, space.bytes);
        subtract(&counters.inodes, space.inodes);
    }

    /// Has a file count `now` bytes in place of `before`.
    pub fn recount(&self, before: u64, now: u64) {
        self.charge(Space::bytes(now.saturating_sub(before)));
        self.give_back(Space::bytes(before.saturating_sub(now)));
    }

    /// Corrects what is taken, if that is still `before`: a process that was killed may have taken what it did not use.
    pub fn correct(&self, before: Space, taken: Space) {
        let counters = self.counters();
        let set = |number: &AtomicU64, before: u64, after: u64| {
            let _ = number.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
        };
        set(&counters.taken, before.bytes, taken.bytes);
        set(&counters.inodes, before.inodes, taken.inodes);
    }

    /// When the device of a [`Bucket`](crate::Bucket) is free again.
    pub(crate) fn free_at(&self) -> &AtomicU64 {
        &self.counters().free_at
    }

    /// Notes that a write of so many bytes took so long.
    pub fn wrote(&self, bytes: usize, time: Duration) {
        if bytes < LONG {
            return;
        }
        let counters = self.counters();
        let time = u64::try_from(time.as_nanos()).unwrap_or(REMEMBERED).min(REMEMBERED);
        counters.written.fetch_add(bytes as u64, Ordering::Relaxed);
        if counters.nanoseconds.fetch_add(time, Ordering::Relaxed) + time > REMEMBERED {
            // Another process may do so at the same time: it is an estimate.
            for number in [&counters.written, &counters.nanoseconds] {
                number.store(number.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }

    /// Notes that a write which was noted took longer.
    pub(crate) fn waited(&self, bytes: usize, time: Duration) {
        if bytes >= LONG {
            let time = u64::try_from(time.as_nanos()).unwrap_or(REMEMBERED).min(REMEMBERED);
            self.counters().nanoseconds.fetch_add(time, Ordering::Relaxed);
        }
    }

    /// Bytes that the tier took in a second, measured over the last seconds of writing; `None` before the first long write.
    pub fn bytes_per_second(&self) -> Option<f64> {
        let counters = self.counters();
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed) as f64;
        let (bytes, nanoseconds) = (of(&counters.written), of(&counters.nanoseconds));
        (nanoseconds > 0.0).then(|| bytes / nanoseconds * 1e9)
    }
}

fn subtract(number: &AtomicU64, amount: u64) {
    let less = |taken: u64| Some(taken.saturating_sub(amount));
    let _ = number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

/// The accounts of a node. Each process that opens them has the same ones.
#[derive(Debug, Clone)]
pub struct NodeAccount(Arc<Page>);

impl NodeAccount {
    /// Makes the accounts at `path`: tier `n` may hold `limits[n]`. Tiers beyond the eighth have none.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: &Path, limits: &[Space]) -> io::Result<Self> {
        Page::create(path, limits, now()).map(|page| Self(Arc::new(page)))
    }

    /// Opens the accounts at `path`.
    ///
    /// # Errors
    /// Those of the file system; `InvalidData` if there are none.
    pub fn open(path: &Path) -> io::Result<Self> {
        Page::open(path).map(|page| Self(Arc::new(page)))
    }

    /// As [`NodeAccount::open`], for accounts that whoever comes first makes, as [`NodeAccount::create`] does.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open_or_create(path: &Path, limits: &[Space]) -> io::Result<Self> {
        match Self::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        // It appears in one step, so that nobody opens half of it.
        let mut own = path.as_os_str().to_owned();
        own.push(format!(".{}", std::process::id()));
        let own = Path::new(&own);
        let made = Self::create(own, limits).and_then(|_| std::fs::hard_link(own, path));
        let _ = std::fs::remove_file(own);
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Self::open(path),
        }
    }

    /// The account of a tier, by its number.
    pub fn tier(&self, number: usize) -> Account {
        Account(Scope::OfNode(Arc::clone(&self.0), number))
    }

    /// A number that is larger than all that were given on this node before, and than `other`. Numbers of earlier runs are
    /// smaller, too, as long as the clock of the machine goes on.
    pub fn next_generation(&self, other: u64) -> u64 {
        let generation = self.0.generation();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_that_of_the_last_long_writes() {
        let account = Account::of(Space::UNLIMITED);
        account.wrote(10, Duration::from_secs(9));
        assert_eq!(account.bytes_per_second(), None);
        account.wrote(1_000_000, Duration::from_millis(10));
        assert_eq!(account.bytes_per_second(), Some(1e8));
        for _ in 0..40 {
            account.wrote(10_000_000, Duration::from_secs(1));
        }
        let rate = account.bytes_per_second().unwrap();
        assert!((rate - 1e7).abs() < 1e6, "{rate}");
    }
}
