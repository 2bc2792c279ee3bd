//! Decoded chunks, kept while regions that do not follow the chunk grid are read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use knarr_array::error::Result;

/// Variable or file, and number of the chunk in it.
type Key = (usize, u64);

/// A chunk being decoded or decoded; threads that want the same chunk wait for the first.
type Slot = Arc<OnceLock<Result<Vec<u8>>>>;

/// Bounded in bytes; least recently used chunks go first. The newest stays, however large: to decode it again for each
/// piece that is read of it would take many times as long, and no less memory.
#[derive(Debug)]
pub struct ChunkCache(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    slots: HashMap<Key, (Slot, usize, u64)>,
    bytes: usize,
    limit: usize,
    clock: u64,
}

impl ChunkCache {
    /// An empty cache of at most `limit` bytes, or one chunk.
    pub fn new(limit: usize) -> Self {
        Self(Mutex::new(Inner { slots: HashMap::new(), bytes: 0, limit, clock: 0 }))
    }

    /// Sets the most bytes to keep.
    pub fn set_limit(&self, limit: usize) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.limit = limit;
        inner.evict(0);
    }

    /// Hands the chunk of `bytes` bytes at `key` to `f`, decoded by `decode` if it is not there.
    ///
    /// # Errors
    /// What `decode` returns, also for those who ask for the chunk later.
    pub fn get(
        &self,
        key: Key,
        bytes: usize,
        decode: impl FnOnce() -> Result<Vec<u8>>,
        f: impl FnOnce(&[u8]),
    ) -> Result<()> {
        let slot = self.slot(key, bytes);
        match slot.get_or_init(decode) {
            Ok(chunk) => {
                f(chunk);
                Ok(())
            }
            Err(error) => Err(error.clone()),
        }
    }

    fn slot(&self, key: Key, bytes: usize) -> Slot {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clock += 1;
        let now = inner.clock;
        if let Some((slot, _, used)) = inner.slots.get_mut(&key) {
            *used = now;
            return Arc::clone(slot);
        }
        let slot = Slot::default();
        inner.evict(bytes);
        inner.bytes += bytes;
        inner.slots.insert(key, (Arc::clone(&slot), bytes, now));
        slot
    }
}

impl Inner {
    /// Makes room for `needed` bytes, as far as there is something to drop.
    fn evict(&mut self, needed: usize) {
        while self.bytes.saturating_add(needed) > self.limit {
            let oldest = self.slots.iter().min_by_key(|(_, (_, _, used))| *used).map(|(key, _)| *key);
            let Some((_, bytes, _)) = oldest.and_then(|key| self.slots.remove(&key)) else { return };
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Reads the chunk with this number, of 4 bytes, and counts how often one is decoded.
    fn reader<'a>(cache: &'a ChunkCache, decoded: &'a Cell<u32>) -> impl Fn(u64) + 'a {
        |number| {
            let decode = || {
                decoded.set(decoded.get() + 1);
                Ok(vec![7; 4])
            };
            cache.get((0, number), 4, decode, |chunk| assert_eq!(chunk, [7; 4])).unwrap();
        }
    }

    #[test]
    fn keeps_what_fits_and_drops_the_oldest() {
        let (cache, decoded) = (ChunkCache::new(10), Cell::new(0));
        let read = reader(&cache, &decoded);
        read(1);
        read(2);
        read(1);
        assert_eq!(decoded.get(), 2);
        read(3);
        read(1);
        assert_eq!(decoded.get(), 3);
        read(2);
        assert_eq!(decoded.get(), 4);
        cache.set_limit(0);
        read(2);
        assert_eq!(decoded.get(), 5);
    }

    #[test]
    fn keeps_one_chunk_that_is_larger_than_the_limit() {
        let (cache, decoded) = (ChunkCache::new(3), Cell::new(0));
        [1, 1, 2, 2, 1].into_iter().for_each(reader(&cache, &decoded));
        assert_eq!(decoded.get(), 3);
    }
}
