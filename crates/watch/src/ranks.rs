//! Ranks as users write and read them: which there are, and which are missing.

use std::ops::RangeInclusive;
use std::str::FromStr;

use knarr_array::error::{Error, Result};
use knarr_config::Ranks;

/// The ranks that write a file in each step: `64` are ranks 0 to 63, `1-64` and `0-31,40` those that are named.
#[derive(Debug)]
pub struct Expected(Vec<RangeInclusive<u64>>);

impl Expected {
    /// True if it is one of them.
    pub fn has(&self, rank: u64) -> bool {
        self.0.iter().any(|range| range.contains(&rank))
    }

    /// Those that are not among `found`, which are in order.
    pub fn missing(&self, found: &[u64]) -> Ranges {
        let of = |range: &RangeInclusive<u64>| missing(range, found.iter().filter(|rank| range.contains(rank))).0;
        Ranges(self.0.iter().flat_map(of).collect())
    }

    /// How ranks, which are in order, are written; `None` if that is long.
    pub fn of(ranks: &[u64]) -> Option<String> {
        const MOST: usize = 8;
        let ranges = Ranges::of(ranks);
        (ranges.0.len() <= MOST).then(|| ranges.list())
    }
}

impl FromStr for Expected {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.contains(',') { Ok(Self(listed(text)?)) } else { Ok(Self(vec![text.parse::<Ranks>()?.0])) }
    }
}

/// `0-31,40`: ranges in order, apart from each other.
///
/// # Errors
/// `Usage`.
pub fn listed(text: &str) -> Result<Vec<RangeInclusive<u64>>> {
    let refuse = || Error::usage(format!("'{text}' names no ranks")).hint("write them like 0-31,40");
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| refuse());
        ranges.push(number(first)?..=number(last)?);
    }
    ranges.sort_by_key(|range| *range.start());
    let overlap = ranges.array_windows().any(|[one, other]| one.end() >= other.start());
    if overlap || ranges.iter().any(RangeInclusive::is_empty) { Err(refuse()) } else { Ok(ranges) }
}

/// Of `ranks`, those that are not `there`, which come in order and are all among them.
pub fn missing<'a>(ranks: &RangeInclusive<u64>, there: impl Iterator<Item = &'a u64>) -> Ranges {
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
pub struct Ranges(Vec<RangeInclusive<u64>>);

impl Ranges {
    /// Of ranks in order.
    pub fn of(ranks: &[u64]) -> Self {
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        for &rank in ranks {
            match ranges.last_mut() {
                Some(last) if last.end().checked_add(1) == Some(rank) => *last = *last.start()..=rank,
                _ => ranges.push(rank..=rank),
            }
        }
        Self(ranges)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As they are written, or `ranks 0 to 5` if none is missing between.
    pub fn in_words(&self) -> String {
        match self.0.as_slice() {
            [all] if all.start() < all.end() => format!("ranks {} to {}", all.start(), all.end()),
            _ => self.to_string(),
        }
    }

    /// `3,17-19`.
    fn list(&self) -> String {
        let word = |range: &RangeInclusive<u64>| match range.clone().into_inner() {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        self.0.iter().map(word).collect::<Vec<_>>().join(",")
    }
}

impl std::fmt::Display for Ranges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_one = matches!(self.0.as_slice(), [one] if one.start() == one.end());
        write!(f, "{} {}", if is_one { "rank" } else { "ranks" }, self.list().replace(',', ", "))
    }
}
