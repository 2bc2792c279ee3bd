//! The ranks whose files are missing, in words.

use std::ops::RangeInclusive;

/// Of `ranks`, those that are not `there`, which come in order and are all among them.
pub(super) fn missing<'a>(ranks: &RangeInclusive<u64>, there: impl Iterator<Item = &'a u64>) -> Ranges {
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    let mut next = *ranks.start();
    let mut last = None;
    for &rank in there {
        if rank > next {
            ranges.push(next..=rank - 1);
        }
        next = rank.saturating_add(1);
        last = Some(rank);
    }
    if next <= *ranks.end() && last != Some(*ranks.end()) {
        ranges.push(next..=*ranks.end());
    }
    Ranges(ranges)
}

/// Ranks in words: `rank 3`, `ranks 3, 17-19`.
#[derive(Debug)]
pub(super) struct Ranges(Vec<RangeInclusive<u64>>);

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Display for Ranges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = |range: &RangeInclusive<u64>| match range.clone().into_inner() {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        let words: Vec<String> = self.0.iter().map(word).collect();
        let is_one = matches!(self.0.as_slice(), [one] if one.start() == one.end());
        write!(f, "{} {}", if is_one { "rank" } else { "ranks" }, words.join(", "))
    }
}
