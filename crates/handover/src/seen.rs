//! Which elements of a region have been put.

/// A bit for each element, row-major.
#[derive(Debug)]
pub(crate) struct Seen {
    words: Vec<u64>,
    count: u64,
}

impl Seen {
    /// `count` elements, none of which has been put.
    pub(crate) fn none_of(count: u64) -> Self {
        Self { words: vec![0; usize::try_from(count.div_ceil(64)).unwrap_or(0)], count }
    }

    /// `length` elements from `first` on have been put.
    pub(crate) fn put(&mut self, first: u64, length: u64) {
        let (mut at, end) = (first, first.saturating_add(length).min(self.count));
        while at < end {
            let (bit, here) = (at % 64, (64 - at % 64).min(end - at));
            if let Some(word) = usize::try_from(at / 64).ok().and_then(|place| self.words.get_mut(place)) {
                *word |= if here == 64 { u64::MAX } else { ((1 << here) - 1) << bit };
            }
            at += here;
        }
    }

    /// Whether an element has been put.
    pub(crate) fn has(&self, element: u64) -> bool {
        let word = usize::try_from(element / 64).ok().and_then(|place| self.words.get(place));
        element < self.count && word.is_some_and(|word| word >> (element % 64) & 1 == 1)
    }

    /// The first element that has not been put.
    pub(crate) fn first_missing(&self) -> Option<u64> {
        let place = self.words.iter().position(|&word| word != u64::MAX)?;
        let element = 64 * place as u64 + u64::from(self.words[place].trailing_ones());
        (element < self.count).then_some(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_any_length_are_seen() {
        for count in [0u64, 1, 63, 64, 65, 300] {
            for first in 0..count {
                for length in 0..=count - first {
                    let mut seen = Seen::none_of(count);
                    seen.put(first, length);
                    let expected = |at: u64| at >= first && at < first + length;
                    assert!((0..count).all(|at| seen.has(at) == expected(at)), "{first} {length} of {count}");
                    assert_eq!(seen.first_missing(), (0..count).find(|&at| !expected(at)));
                }
            }
            assert!(!Seen::none_of(count).has(count));
        }
    }
}
