//! Text that several processes see, made of atomic numbers.

use std::sync::atomic::{AtomicU64, Ordering};

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
