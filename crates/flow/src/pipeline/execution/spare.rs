//! Buffers that go from workers to the writer and back.

use std::sync::{Mutex, PoisonError};

/// Buffers to be used again: to take one costs neither a copy nor pages that the system must clear first.
pub(in crate::pipeline) struct Spare {
    kept: Mutex<Buffers>,
    most: u64,
}

#[derive(Default)]
struct Buffers {
    buffers: Vec<Vec<u8>>,
    bytes: u64,
}

impl Spare {
    /// Keeps buffers of no more than `most` bytes together: they may have grown for chunks larger than those to come.
    pub(in crate::pipeline) fn new(most: u64) -> Self {
        Self { kept: Mutex::default(), most }
    }

    /// A buffer with any contents.
    pub(in crate::pipeline) fn take(&self) -> Vec<u8> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let buffer = kept.buffers.pop().unwrap_or_default();
        kept.bytes -= buffer.capacity() as u64;
        buffer
    }

    /// The bytes of `buffer` are needed no more.
    pub(in crate::pipeline) fn give_back(&self, buffer: Vec<u8>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = kept.bytes + buffer.capacity() as u64;
        if bytes <= self.most {
            kept.bytes = bytes;
            kept.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_used_again_and_no_more_bytes_are_kept_than_asked() {
        let spare = Spare::new(30);
        assert!(spare.take().is_empty());
        for _ in 0..2 {
            for len in [10, 25, 20, 1] {
                spare.give_back(Vec::with_capacity(len));
            }
            assert_eq!([spare.take().capacity(), spare.take().capacity(), spare.take().capacity()], [20, 10, 0]);
        }
    }
}
