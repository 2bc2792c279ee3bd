//! Which elements of a region have been put.

/// A bit for each element, row-major.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    words: Vec<u64>,
    count: u64,
}

impl Seen {
    /// From now on it is about `count` elements, none of which has been put.
    pub(crate) fn begin(&mut self, count: u64) {
        self.words.clear();
        self.words.resize(usize::try_from(count.div_ceil(64)).unwrap_or(0), 0);
        self.count = count;
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
                    let mut seen = Seen::default();
                    seen.begin(count);
                    seen.put(first, length);
                    let expected = |at: u64| at >= first && at < first + length;
                    let has = |at: u64| seen.words[usize::try_from(at / 64).unwrap()] >> (at % 64) & 1 == 1;
                    assert!((0..count).all(|at| has(at) == expected(at)), "{first} {length} of {count}");
                    assert_eq!(seen.first_missing(), (0..count).find(|&at| !expected(at)));
                }
            }
            let mut seen = Seen::default();
            seen.begin(count);
            seen.put(0, count);
            assert_eq!(seen.first_missing(), None);
            // What is used again has forgotten.
            seen.begin(count);
            assert_eq!(seen.first_missing(), (count > 0).then_some(0));
        }
    }
}
