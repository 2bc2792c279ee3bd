//! What the page is made of: atomic numbers, of which any may be zero.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::entry::Entry;
use crate::filter::Filter;
use crate::waiter::Waiter;

/// Tells a page that is complete, and of this layout.
pub(crate) const MARK: u64 = u64::from_le_bytes(*b"knarrN01");

/// Names that may be pending at a time. Who enters one more waits. With so many a page is smaller than a mebibyte.
pub(crate) const ENTRIES: usize = 2048;

/// Calls that may wait at a time and be seen; others wait unseen.
pub(crate) const WAITERS: usize = 256;

/// All of it, as it lies in a file. It is made by setting bytes to zero.
#[repr(C)]
pub(crate) struct Page {
    pub(crate) head: Head,
    pub(crate) filter: Filter,
    pub(crate) waiters: [Waiter; WAITERS],
    pub(crate) entries: [Entry; ENTRIES],
}

/// What every call looks at, in one line of the cache.
#[repr(C, align(64))]
pub(crate) struct Head {
    /// [`MARK`] once the launcher has made the page.
    pub(crate) mark: AtomicU64,
    /// Number of the generation that was handed over last.
    pub(crate) generation: AtomicU64,
    /// Moves as long as the launcher gets on with its files.
    pub(crate) beat: AtomicU64,
    /// How long a call waits at most while the beat does not move. Milliseconds.
    pub(crate) limit: AtomicU32,
    /// Pending names.
    pub(crate) pending: AtomicU32,
    /// Those of them that will replace another file.
    pub(crate) replacing: AtomicU32,
    /// Those of them that will be directories.
    pub(crate) directories: AtomicU32,
    /// Entries from this one on were never used.
    pub(crate) used: AtomicU32,
    /// Changes when the launcher has something to look at. It sleeps on it.
    pub(crate) bell: AtomicU32,
    /// Changes when an entry gets free. Who finds none sleeps on it.
    pub(crate) room: AtomicU32,
}

/// Bytes of text, of which the first zero is the end.
#[repr(C)]
pub(crate) struct Text<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Text<WORDS> {
    /// Bytes that fit.
    pub(crate) const MOST: usize = WORDS * 8;

    /// What is longer is cut.
    pub(crate) fn set(&self, bytes: &[u8]) {
        for (at, word) in self.0.iter().enumerate() {
            word.store(word_of(bytes, at), Ordering::Relaxed);
        }
    }

    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        let is_equal = |(at, word): (usize, &AtomicU64)| word.load(Ordering::Relaxed) == word_of(bytes, at);
        bytes.len() <= Self::MOST && self.0.iter().enumerate().all(is_equal)
    }

    /// The text, in memory that is asked for: not for calls of a program.
    pub(crate) fn get(&self) -> Vec<u8> {
        self.with(<[u8]>::to_vec)
    }

    /// Calls with the bytes of the text.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&[u8]) -> T) -> T {
        let mut words = [[0; 8]; WORDS];
        for (to, from) in words.iter_mut().zip(&self.0) {
            *to = from.load(Ordering::Relaxed).to_le_bytes();
        }
        let bytes = words.as_flattened();
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        call(bytes.get(..length).unwrap_or_default())
    }

    /// Takes over another text.
    pub(crate) fn copy(&self, from: &Self) {
        for (to, from) in self.0.iter().zip(&from.0) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// The eight bytes of `bytes` that word `at` of a text holds.
fn word_of(bytes: &[u8], at: usize) -> u64 {
    let begin = at.saturating_mul(8).min(bytes.len());
    let part = bytes.get(begin..bytes.len().min(begin + 8)).unwrap_or_default();
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(part) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}
