//! A tier that is made slower: it stands for a device that this machine does not have. Whoever quotes a figure that was measured
//! with it says so.

use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::account::Account;
use crate::counters::Space;
use crate::tier::{Purpose, Reach, Tier, TierFile};

/// Lets so many bytes pass in a second, whoever asks. Buckets of one account are the same bucket, in whatever process.
#[derive(Debug, Clone)]
pub struct Bucket {
    bytes_per_second: f64,
    account: Account,
}

impl Bucket {
    /// One for a device of this speed, in bytes a second. The account says which device.
    pub fn new(bytes_per_second: f64, account: Account) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1.0), account }
    }

    /// Waits until so many bytes would have passed.
    pub fn pass(&self, bytes: u64) {
        let takes = Duration::try_from_secs_f64(bytes as f64 / self.bytes_per_second).unwrap_or(Duration::MAX);
        let takes = u64::try_from(takes.as_nanos()).unwrap_or(u64::MAX);
        let begin = now();
        let ends = |free_at: u64| Some(free_at.max(begin).saturating_add(takes));
        let before = self.account.free_at().fetch_update(Ordering::Relaxed, Ordering::Relaxed, ends);
        let end = before.ok().and_then(ends).unwrap_or(begin);
        std::thread::sleep(Duration::from_nanos(end.saturating_sub(now())));
    }
}

/// Nanoseconds of the clock that all processes of a machine share.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// A tier whose reads and writes pass a bucket. Tiers that share a bucket share a device.
#[derive(Debug)]
pub struct Throttled<T> {
    tier: T,
    bucket: Bucket,
}

impl<T: Tier> Throttled<T> {
    /// The tier, slower.
    pub fn new(tier: T, bucket: Bucket) -> Self {
        Self { tier, bucket }
    }

    fn file(&self, file: Box<dyn TierFile>) -> Box<dyn TierFile> {
        let (account, bucket) = (self.tier.account().clone(), self.bucket.clone());
        Box::new(SlowFile { file, bucket, account })
    }
}

impl<T: Tier> Tier for Throttled<T> {
    fn account(&self) -> &Account {
        self.tier.account()
    }

    fn reach(&self) -> Reach {
        self.tier.reach()
    }

    fn left(&self) -> Space {
        self.tier.left()
    }

    fn counts(&self, found: &Metadata, purpose: Purpose) -> u64 {
        self.tier.counts(found, purpose)
    }

    fn create(&self, path: &Path, purpose: Purpose) -> io::Result<Box<dyn TierFile>> {
        self.tier.create(path, purpose).map(|file| self.file(file))
    }

    fn open(&self, path: &Path, purpose: Purpose) -> io::Result<Box<dyn TierFile>> {
        self.tier.open(path, purpose).map(|file| self.file(file))
    }

    fn free(&self, path: &Path) -> io::Result<()> {
        self.tier.free(path)
    }
}

#[derive(Debug)]
struct SlowFile {
    file: Box<dyn TierFile>,
    bucket: Bucket,
    account: Account,
}

impl TierFile for SlowFile {
    fn reserve(&mut self, end: u64) -> bool {
        self.file.reserve(end)
    }

    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let begin = Instant::now();
        self.file.write_all_at(bytes, at)?;
        let alone = begin.elapsed();
        self.bucket.pass(bytes.len() as u64);
        // What the tier below has measured lacks the time that was waited.
        self.account.waited(bytes.len(), begin.elapsed().saturating_sub(alone));
        Ok(())
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(out, at)?;
        self.bucket.pass(out.len() as u64);
        Ok(())
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn punch(&mut self, at: u64, length: u64) -> io::Result<()> {
        self.file.punch(at, length)
    }

    fn takes(&self) -> u64 {
        self.file.takes()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn lock(&self) -> io::Result<()> {
        self.file.lock()
    }
}
