//! Decoded chunks, kept while regions that do not follow the chunk grid are read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use knarr_array::error::Result;

/// Variable or file, and number of the chunk in it.
type Key = (usize, u64);

/// A chunk being decoded or decoded; threads that want the same chunk wait for the first.
type Slot = Arc<OnceLock<Result<Vec<u8>>>>;

/// Bounded in bytes; least recently used chunks go first, and those that were decoded ahead and that nobody has asked for
/// yet go last. The newest stays, however large: to decode it again for each piece that is read of it would take many times
/// as long, and no less memory.
#[derive(Debug)]
pub struct ChunkCache(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    slots: HashMap<Key, CachedChunk>,
    bytes: usize,
    limit: usize,
    clock: u64,
}

#[derive(Debug)]
struct CachedChunk {
    slot: Slot,
    bytes: usize,
    used: u64,
    /// Nobody has asked for it yet.
    is_ahead: bool,
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
        hand_over(&self.slot(key, bytes).0, decode, f)
    }

    /// As [`ChunkCache::get`]. If another thread is decoding the chunk, this one does not merely wait: it decodes the first of
    /// the chunks `next` that is not there, as large as this one, while there is room for it beside this one and those before
    /// it. Its errors come to those who ask for that chunk.
    ///
    /// # Errors
    /// As for [`ChunkCache::get`].
    pub fn get_or_help(
        &self,
        key: Key,
        bytes: usize,
        next: impl Iterator<Item = Key>,
        decode: impl Fn(Key) -> Result<Vec<u8>>,
        f: impl FnOnce(&[u8]),
    ) -> Result<()> {
        let (slot, is_new) = self.slot(key, bytes);
        if !is_new && slot.get().is_none() {
            let claimed = {
                let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let room = (inner.limit / bytes.max(1)).saturating_sub(1);
                let free = next.take(room).find(|next| !inner.slots.contains_key(next));
                free.map(|next| (next, inner.insert(next, bytes, true)))
            };
            if let Some((next, slot)) = claimed {
                slot.get_or_init(|| decode(next));
            }
        }
        hand_over(&slot, || decode(key), f)
    }

    /// The place of a chunk, and whether it was not there before.
    fn slot(&self, key: Key, bytes: usize) -> (Slot, bool) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clock += 1;
        let now = inner.clock;
        if let Some(kept) = inner.slots.get_mut(&key) {
            (kept.used, kept.is_ahead) = (now, false);
            return (Arc::clone(&kept.slot), false);
        }
        (inner.insert(key, bytes, false), true)
    }
}

fn hand_over(slot: &Slot, decode: impl FnOnce() -> Result<Vec<u8>>, f: impl FnOnce(&[u8])) -> Result<()> {
    match slot.get_or_init(decode) {
        Ok(chunk) => {
            f(chunk);
            Ok(())
        }
        Err(error) => Err(error.clone()),
    }
}

impl Inner {
    fn insert(&mut self, key: Key, bytes: usize, is_ahead: bool) -> Slot {
        self.evict(bytes);
        self.clock += 1;
        self.bytes += bytes;
        let slot = Slot::default();
        self.slots.insert(key, CachedChunk { slot: Arc::clone(&slot), bytes, used: self.clock, is_ahead });
        slot
    }

    /// Makes room for `needed` bytes, as far as there is something to drop.
    fn evict(&mut self, needed: usize) {
        while self.bytes.saturating_add(needed) > self.limit {
            let oldest = self.slots.iter().min_by_key(|(_, kept)| (kept.is_ahead, kept.used)).map(|(key, _)| *key);
            let Some(dropped) = oldest.and_then(|key| self.slots.remove(&key)) else { return };
            self.bytes -= dropped.bytes;
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
    fn who_would_wait_decodes_what_comes_next() {
        let cache = ChunkCache::new(12);
        let decoded = Mutex::new(Vec::new());
        let note = |(_, number): Key| {
            decoded.lock().unwrap().push(number);
            Ok(vec![7; 4])
        };
        let read = |decode: &dyn Fn(Key) -> Result<Vec<u8>>| {
            let next = (2..9).map(|number| (0, number));
            cache.get_or_help((0, 1), 4, next, decode, |chunk| assert_eq!(chunk, [7; 4])).unwrap();
        };
        // Number 1 takes until two others are decoded: for more there is no room beside it.
        let slow = |key: Key| {
            while key.1 == 1 && decoded.lock().unwrap().len() < 2 {
                std::thread::yield_now();
            }
            note(key)
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| read(&slow)))));
        assert_eq!(decoded.lock().unwrap().len(), 3);
        decoded.lock().unwrap().sort_unstable();
        assert_eq!(*decoded.lock().unwrap(), [1, 2, 3]);
        // Nobody decodes it any more.
        read(&|_| unreachable!("it is there"));
        cache.get((0, 3), 4, || unreachable!("it is there"), |_| ()).unwrap();
    }

    /// A slow reader of an earlier chunk does not have one thrown away that was decoded for those who come later.
    #[test]
    fn what_was_decoded_ahead_is_not_decoded_again() {
        let cache = ChunkCache::new(16);
        let decoded = Mutex::new(Vec::new());
        let (is_begun, may_end) = (OnceLock::new(), OnceLock::new());
        let decode = |key: Key| {
            if key.1 == 2 {
                is_begun.get_or_init(|| ());
                let _: &() = may_end.wait();
            }
            decoded.lock().unwrap().push(key.1);
            Ok(vec![7; 4])
        };
        let wait_until = |number| {
            while !decoded.lock().unwrap().contains(&number) {
                std::thread::yield_now()
            }
        };
        let read = |number| {
            let next = (number + 1..9).map(|number| (0, number));
            cache.get_or_help((0, number), 4, next, decode, |_| ()).unwrap();
        };
        read(1);
        std::thread::scope(|scope| {
            scope.spawn(|| read(2));
            let _: &() = is_begun.wait();
            scope.spawn(|| read(2));
            wait_until(3);
            read(1);
            scope.spawn(|| read(2));
            wait_until(4);
            scope.spawn(|| read(2));
            wait_until(5);
            may_end.get_or_init(|| ());
        });
        (3..6).for_each(read);
        decoded.lock().unwrap().sort_unstable();
        assert_eq!(*decoded.lock().unwrap(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn keeps_one_chunk_that_is_larger_than_the_limit() {
        let (cache, decoded) = (ChunkCache::new(3), Cell::new(0));
        [1, 1, 2, 2, 1].into_iter().for_each(reader(&cache, &decoded));
        assert_eq!(decoded.get(), 3);
    }
}
