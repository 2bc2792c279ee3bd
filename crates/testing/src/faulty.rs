//! A tier whose calls fail when a test says so.

use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use knarr_tier::{Account, Purpose, Reach, Space, Tier, TierFile};

/// Says which calls of a [`Faulty`] tier fail.
#[derive(Debug, Default)]
pub struct Faults {
    /// Calls by now.
    calls: AtomicU64,
    first: AtomicU64,
    end: AtomicU64,
}

impl Faults {
    /// The next `count` calls fail.
    pub fn fail_next(&self, count: u64) {
        self.fail_at(0, count);
    }

    /// After `calls` more calls, `count` of them fail.
    pub fn fail_at(&self, calls: u64, count: u64) {
        let first = self.calls.load(Ordering::Relaxed) + calls;
        self.first.store(first, Ordering::Relaxed);
        self.end.store(first + count, Ordering::Relaxed);
    }

    /// Calls by now.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn call(&self) -> io::Result<()> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let fails = (self.first.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)).contains(&number);
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// A tier whose calls fail as [`Faults`] says: no space for it.
#[derive(Debug)]
pub struct Faulty<T>(T, Arc<Faults>);

impl<T: Tier> Faulty<T> {
    /// The tier, and what makes it fail.
    pub fn new(tier: T) -> (Self, Arc<Faults>) {
        let faults = Arc::<Faults>::default();
        (Self(tier, Arc::clone(&faults)), faults)
    }

    fn file(&self, file: Box<dyn TierFile>) -> Box<dyn TierFile> {
        Box::new(FaultyFile(file, Arc::clone(&self.1)))
    }
}

impl<T: Tier> Tier for Faulty<T> {
    fn account(&self) -> &Account {
        self.0.account()
    }

    fn reach(&self) -> Reach {
        self.0.reach()
    }

    fn left(&self) -> Space {
        self.0.left()
    }

    fn counts(&self, found: &Metadata, purpose: Purpose) -> u64 {
        self.0.counts(found, purpose)
    }

    fn create(&self, path: &Path, purpose: Purpose) -> io::Result<Box<dyn TierFile>> {
        self.1.call()?;
        self.0.create(path, purpose).map(|file| self.file(file))
    }

    fn open(&self, path: &Path, purpose: Purpose) -> io::Result<Box<dyn TierFile>> {
        self.1.call()?;
        self.0.open(path, purpose).map(|file| self.file(file))
    }

    fn free(&self, path: &Path) -> io::Result<()> {
        self.1.call()?;
        self.0.free(path)
    }
}

#[derive(Debug)]
struct FaultyFile(Box<dyn TierFile>, Arc<Faults>);

impl TierFile for FaultyFile {
    fn reserve(&mut self, end: u64) -> bool {
        self.1.call().is_ok() && self.0.reserve(end)
    }

    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        if let Err(error) = self.1.call() {
            // A write may be cut short before it fails.
            let (first, _) = bytes.split_at(bytes.len() / 2);
            let _ = self.0.write_all_at(first, at);
            return Err(error);
        }
        self.0.write_all_at(bytes, at)
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.1.call()?;
        self.0.read_exact_at(out, at)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.1.call()?;
        self.0.set_len(length)
    }

    fn punch(&mut self, at: u64, length: u64) -> io::Result<()> {
        self.1.call()?;
        self.0.punch(at, length)
    }

    fn takes(&self) -> u64 {
        self.0.takes()
    }

    fn sync(&self) -> io::Result<()> {
        self.1.call()?;
        self.0.sync()
    }

    fn lock(&self) -> io::Result<()> {
        self.1.call()?;
        self.0.lock()
    }
}
