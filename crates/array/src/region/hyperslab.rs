//! The region of an array that a read or a write is about.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Number of elements of an array of this shape; `None` if it does not fit 64 bits.
pub fn volume(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |product, &n| product.checked_mul(n))
}

/// A box of elements of an array: a hyperslab whose stride and block are 1. Both lists have the rank of the array and
/// count elements, slowest axis first; a scalar has one region, without axes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Region {
    /// First element, along each axis.
    pub start: Vec<u64>,
    /// Elements along each axis.
    pub count: Vec<u64>,
}

impl Region {
    /// The region of shape `count` that begins at `start`.
    pub fn new(start: impl Into<Vec<u64>>, count: impl Into<Vec<u64>>) -> Self {
        Self { start: start.into(), count: count.into() }
    }

    /// All of an array.
    pub fn whole(shape: &[u64]) -> Self {
        Self { start: vec![0; shape.len()], count: shape.to_vec() }
    }

    /// Refuses a region that does not lie inside an array of this shape.
    ///
    /// # Errors
    /// `Usage`.
    pub fn check_inside(&self, shape: &[u64]) -> Result<()> {
        let Self { start, count } = self;
        let fits = start.len() == shape.len()
            && count.len() == shape.len()
            && shape
                .iter()
                .zip(start.iter().zip(count))
                .all(|(&extent, (&start, &count))| start.checked_add(count).is_some_and(|end| end <= extent));
        if fits {
            Ok(())
        } else {
            Err(Error::usage(format!("region {start:?} + {count:?} lies outside of shape {shape:?}")))
        }
    }

    /// Where it ends along an axis that it has: the position behind its last element.
    pub fn end(&self, axis: usize) -> u64 {
        self.start[axis] + self.count[axis]
    }

    /// Its first element, counted from the first one of `outer`, which holds it.
    pub fn start_in(&self, outer: &Self) -> Vec<u64> {
        self.start.iter().zip(&outer.start).map(|(here, outer)| here.saturating_sub(*outer)).collect()
    }

    /// Number of elements; `None` if it does not fit 64 bits.
    pub fn volume(&self) -> Option<u64> {
        volume(&self.count)
    }

    /// True if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.count.contains(&0)
    }

    pub(super) fn axes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.start.iter().zip(&self.count).map(|(&start, &count)| (start, start.saturating_add(count)))
    }

    /// The region that both have; `None` if that is nothing.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let (start, count): (Vec<u64>, Vec<u64>) =
            self.axes().zip(other.axes()).map(|((a, b), (c, d))| (a.max(c), b.min(d).saturating_sub(a.max(c)))).unzip();
        Some(Self { start, count }).filter(|both| !both.is_empty())
    }

    /// Adds to `rest` the regions that together are this one without `hole`, which lies inside it.
    pub(super) fn without(&self, hole: &Self, rest: &mut Vec<Self>) {
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

    /// The part of this region, seen as an array in row-major order, whose elements `from` to `to` (exclusive) may be:
    /// all of these are in it, and others only if they share the position on the slowest axis that is cut.
    pub fn rows(&self, from: u64, to: u64) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::testing::elements;
    use proptest::prelude::*;

    #[test]
    fn a_region_outside_is_refused() {
        let check = |shape: &[u64], start: &[u64], count: &[u64]| Region::new(start, count).check_inside(shape);
        assert!(check(&[4, 5], &[0, 0], &[4, 5]).is_ok() && check(&[], &[], &[]).is_ok());
        assert!(check(&[4, 5], &[4, 5], &[0, 0]).is_ok());
        for (start, count) in [(vec![0], vec![4]), (vec![0, 1], vec![4, 5]), (vec![u64::MAX, 0], vec![1, 1])] {
            assert!(check(&[4, 5], &start, &count).is_err());
        }
    }

    #[test]
    fn a_part_is_seen_from_both_that_have_it() {
        let (a, b) = (Region::new([2, 3], [4, 5]), Region::new([0, 4], [3, 9]));
        let part = a.intersection(&b).unwrap();
        assert_eq!(part, Region::new([2, 4], [1, 4]));
        assert_eq!((part.start_in(&a), part.start_in(&b)), (vec![0, 1], vec![2, 0]));
        assert_eq!((part.end(0), part.end(1)), (3, 8));
        assert_eq!(a.intersection(&Region::new([6, 3], [1, 1])), None);
        let scalar = Region::whole(&[]);
        assert_eq!(scalar.intersection(&scalar), Some(scalar.clone()));
    }

    proptest! {
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
