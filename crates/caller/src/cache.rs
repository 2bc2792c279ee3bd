//! A table from addresses to things that live as long as the process, read and filled without locks: a `fork` in
//! another thread cannot leave it locked in the child.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// At most `N` entries; more are not kept.
pub struct Cache<T: 'static, const N: usize> {
    keys: [AtomicUsize; N],
    values: [AtomicPtr<T>; N],
}

impl<T: Sync, const N: usize> Cache<T, N> {
    /// An empty table.
    #[allow(clippy::new_without_default, reason = "made for statics")]
    pub const fn new() -> Self {
        Self { keys: [const { AtomicUsize::new(0) }; N], values: [const { AtomicPtr::new(std::ptr::null_mut()) }; N] }
    }

    /// Slots in the order in which `key` looks at them.
    fn slots(&self, key: usize) -> impl Iterator<Item = (&AtomicUsize, &AtomicPtr<T>)> {
        // Fibonacci hashing: neighbouring addresses are spread.
        let begin = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
        (0..N.min(64)).filter_map(move |step| {
            let index = begin.wrapping_add(step) % N;
            Some((self.keys.get(index)?, self.values.get(index)?))
        })
    }

    /// What was kept for `key`.
    pub fn get(&self, key: usize) -> Option<&'static T> {
        for (kept, value) in self.slots(key) {
            match kept.load(Ordering::Acquire) {
                0 => return None,
                found if found == key => {
                    // SAFETY: only `put` stores here: null, or a reference that lives as long as the process.
                    return unsafe { value.load(Ordering::Acquire).as_ref() };
                }
                _ => {}
            }
        }
        None
    }

    /// Keeps `thing` for `key`, which is not 0.
    pub fn put(&self, key: usize, thing: &'static T) {
        for (kept, value) in self.slots(key) {
            let taken = kept.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire);
            if taken.is_ok() || taken == Err(key) {
                value.store(std::ptr::from_ref(thing).cast_mut(), Ordering::Release);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cache;

    #[test]
    fn what_fits_is_found_and_the_rest_is_not_kept() {
        static NUMBERS: [usize; 100] = [7; 100];
        let cache: Cache<usize, 32> = Cache::new();
        assert!(cache.get(8).is_none());
        for (index, number) in NUMBERS.iter().enumerate() {
            cache.put(index * 16 + 1, number);
        }
        let found = (0..100).filter(|index| cache.get(index * 16 + 1).is_some()).count();
        assert_eq!(found, 32);
        cache.put(1, &NUMBERS[1]);
        assert!(cache.get(1).is_some_and(|number| std::ptr::eq(number, &NUMBERS[1])));
    }
}
