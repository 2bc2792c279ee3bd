//! Most names are not pending, and three numbers tell so: each pending name counts in three places of a table, by its hash.

use std::sync::atomic::{AtomicU16, Ordering};

/// Places. With a thousand pending names one of ten thousand others is looked for in vain.
const PLACES: usize = 1 << 16;

/// Counts of pending names, by their hashes.
#[repr(C)]
pub(crate) struct Filter([AtomicU16; PLACES]);

/// A number for the last component of a path. It means something on this machine only, as long as the run lasts.
pub(crate) fn hash(name: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |state: u64, word: u64| {
        let mixed = (state ^ word).wrapping_mul(FACTOR);
        mixed ^ (mixed >> 29)
    };
    let (words, rest) = name.as_chunks::<8>();
    let state = words.iter().fold(name.len() as u64, |state, word| mix(state, u64::from_le_bytes(*word)));
    let last = rest.iter().fold(0, |word, &byte| (word << 8) | u64::from(byte));
    mix(mix(state, last), FACTOR)
}

impl Filter {
    fn places(&self, hash: u64) -> impl Iterator<Item = &AtomicU16> {
        [0, 16, 32].into_iter().filter_map(move |shift| self.0.get(usize::try_from(hash >> shift).ok()? % PLACES))
    }

    pub(crate) fn add(&self, hash: u64) {
        for place in self.places(hash) {
            place.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(crate) fn remove(&self, hash: u64) {
        for place in self.places(hash) {
            place.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// False if no name with this hash is pending.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.places(hash).all(|place| place.load(Ordering::Acquire) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_were_added_are_found_and_few_others() {
        let filter: Box<Filter> = Box::new(Filter(std::array::from_fn(|_| AtomicU16::new(0))));
        let name = |number: u32| format!("history_{number:06}.nc");
        let of = |number: u32| hash(name(number).as_bytes());
        (0..1000).for_each(|number| filter.add(of(number)));
        assert!((0..1000).all(|number| filter.may_have(of(number))));
        let wrong = (1000..101_000).filter(|&number| filter.may_have(of(number))).count();
        assert!(wrong < 100, "{wrong} of 100,000 names that are not pending");
        (0..1000).for_each(|number| filter.remove(of(number)));
        assert!(!(0..1000).any(|number| filter.may_have(of(number))));
    }

    #[test]
    fn names_of_every_length_have_hashes_of_their_own() {
        let names: Vec<Vec<u8>> = (0..255).flat_map(|length| [vec![b'a'; length], vec![0; length]]).collect();
        let mut hashes: Vec<u64> = names.iter().map(|name| hash(name)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), names.len() - 1, "only the empty name is there twice");
    }
}
