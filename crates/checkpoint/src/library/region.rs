//! Boxes of a global array: which rank's region gives which elements of a box that is read.

use knarr_array::region::volume;

/// A box of elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// First element, along each axis.
    pub start: Vec<u64>,
    /// Elements along each axis.
    pub count: Vec<u64>,
}

impl Region {
    /// The box from `start` on.
    pub fn new(start: impl Into<Vec<u64>>, count: impl Into<Vec<u64>>) -> Self {
        Self { start: start.into(), count: count.into() }
    }

    /// All of an array.
    pub fn whole(shape: &[u64]) -> Self {
        Self { start: vec![0; shape.len()], count: shape.to_vec() }
    }

    /// Number of elements; `None` if it does not fit 64 bits.
    pub fn volume(&self) -> Option<u64> {
        volume(&self.count)
    }

    fn is_empty(&self) -> bool {
        self.count.contains(&0)
    }

    fn axes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.start.iter().zip(&self.count).map(|(&start, &count)| (start, start.saturating_add(count)))
    }

    /// What both have; `None` if that is nothing.
    pub(super) fn intersection(&self, other: &Self) -> Option<Self> {
        let (start, count): (Vec<u64>, Vec<u64>) =
            self.axes().zip(other.axes()).map(|((a, b), (c, d))| (a.max(c), b.min(d).saturating_sub(a.max(c)))).unzip();
        Some(Self { start, count }).filter(|both| !both.is_empty())
    }

    /// Adds to `rest` the boxes that together are this one without `hole`, which lies inside it.
    fn without(&self, hole: &Self, rest: &mut Vec<Self>) {
        let mut left = self.clone();
        for (axis, (from, to)) in hole.axes().enumerate() {
            let mut cut = |start: u64, end: u64| {
                if start < end {
                    let mut part = left.clone();
                    if let (Some(first), Some(count)) = (part.start.get_mut(axis), part.count.get_mut(axis)) {
                        (*first, *count) = (start, end - start);
                    }
                    rest.push(part);
                }
            };
            let Some((start, end)) = left.axes().nth(axis) else { return };
            cut(start, from);
            cut(to, end);
            if let (Some(first), Some(count)) = (left.start.get_mut(axis), left.count.get_mut(axis)) {
                (*first, *count) = (from, to - from);
            }
        }
    }

    /// The part of this box, seen as an array in row-major order, whose elements `from` to `to` (exclusive) may be:
    /// all of these are in it, and others only if they share the position on the slowest axis that is cut.
    pub(super) fn rows(&self, from: u64, to: u64) -> Self {
        let mut part = self.clone();
        let Some(last) = to.checked_sub(1) else { return part };
        for axis in 0..self.count.len() {
            let inner = volume(self.count.get(axis + 1..).unwrap_or_default()).unwrap_or(u64::MAX).max(1);
            let extent = self.count.get(axis).copied().unwrap_or(1).max(1);
            let (low, high) = (from / inner % extent, last / inner % extent);
            if let (Some(start), Some(count)) = (part.start.get_mut(axis), part.count.get_mut(axis)) {
                *start += low;
                *count = high.saturating_sub(low) + 1;
            }
            if low != high {
                break;
            }
        }
        part
    }
}

/// Which of `stored` gives which part of `wanted`: numbers of boxes with parts of them, in which no element comes twice.
/// Where boxes overlap the later one counts.
///
/// # Errors
/// A part that is in none of them.
pub(super) fn assign<'a>(
    wanted: &Region,
    stored: impl DoubleEndedIterator<Item = (usize, &'a Region)>,
) -> Result<Vec<(usize, Region)>, Region> {
    let mut missing = vec![wanted.clone()];
    missing.retain(|part| !part.is_empty());
    let mut assigned = Vec::new();
    for (number, region) in stored.rev() {
        let mut rest = Vec::new();
        for part in &missing {
            match part.intersection(region) {
                Some(both) => {
                    part.without(&both, &mut rest);
                    assigned.push((number, both));
                }
                None => rest.push(part.clone()),
            }
        }
        missing = rest;
        if missing.is_empty() {
            break;
        }
    }
    match missing.into_iter().next() {
        Some(part) => Err(part),
        None => Ok(assigned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn elements(region: &Region) -> Vec<Vec<u64>> {
        let mut all = vec![Vec::new()];
        for (start, end) in region.axes() {
            all = all.iter().flat_map(|index| (start..end).map(move |at| [&index[..], &[at]].concat())).collect();
        }
        all
    }

    fn region(axes: usize) -> impl Strategy<Value = Region> {
        prop::collection::vec((0u64..6, 0u64..5), axes).prop_map(|axes| {
            let (start, count) = axes.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
            Region { start, count }
        })
    }

    fn boxes() -> impl Strategy<Value = (Region, Vec<Region>)> {
        (0usize..4).prop_flat_map(|axes| (region(axes), prop::collection::vec(region(axes), 0..9)))
    }

    proptest! {
        #[test]
        fn every_element_comes_from_the_last_box_that_has_it((wanted, stored) in boxes()) {
            let last = |index: &[u64]| {
                let holds = |region: &Region| region.axes().zip(index).all(|((from, to), at)| (from..to).contains(at));
                stored.iter().rposition(holds)
            };
            match assign(&wanted, stored.iter().enumerate()) {
                Err(gap) => {
                    prop_assert!(!elements(&gap).is_empty());
                    for index in elements(&gap) {
                        prop_assert!(last(&index).is_none() && elements(&wanted).contains(&index));
                    }
                }
                Ok(assigned) => {
                    let mut seen = Vec::new();
                    for (number, part) in assigned {
                        for index in elements(&part) {
                            prop_assert_eq!(last(&index), Some(number));
                            seen.push(index);
                        }
                    }
                    seen.sort();
                    prop_assert_eq!(seen, elements(&wanted));
                }
            }
        }

        #[test]
        fn rows_hold_their_elements(count in prop::collection::vec(1u64..6, 0..4), from in 0u64..200, length in 1u64..50) {
            let whole = Region::whole(&count);
            let all = elements(&whole);
            let from = from.min(all.len() as u64 - 1);
            let to = (from + length).min(all.len() as u64);
            let part = elements(&whole.rows(from, to));
            let wanted = &all[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()];
            prop_assert!(wanted.iter().all(|index| part.contains(index)));
        }
    }
}
