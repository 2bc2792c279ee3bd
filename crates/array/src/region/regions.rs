//! Many regions of one array: programs name hundreds of thousands of them in one call.

use super::{Region, volume};

/// Regions with the same number of axes, in one piece of memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Regions {
    axes: usize,
    len: usize,
    /// Of each region the first element, then the number of elements, along each axis.
    numbers: Vec<u64>,
}

impl Regions {
    /// None yet, of `axes` axes.
    pub fn new(axes: usize) -> Self {
        Self { axes, ..Self::default() }
    }

    /// Room for `len` regions, which are none yet.
    pub fn with_capacity(axes: usize, len: usize) -> Self {
        Self { axes, len: 0, numbers: Vec::with_capacity(len.saturating_mul(2 * axes)) }
    }

    /// Axes of each.
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds one. Both lists have a number for each axis.
    pub fn push(&mut self, start: &[u64], count: &[u64]) {
        debug_assert!(start.len() == self.axes && count.len() == self.axes);
        self.numbers.extend_from_slice(start);
        self.numbers.extend_from_slice(count);
        self.len += 1;
    }

    /// First element and number of elements along each axis of the region at a place; nothing if there is none.
    pub fn get(&self, place: usize) -> (&[u64], &[u64]) {
        let from = place.saturating_mul(2 * self.axes);
        self.numbers
            .get(from..from.saturating_add(2 * self.axes))
            .unwrap_or_default()
            .split_at_checked(self.axes)
            .unwrap_or_default()
    }

    /// Number of elements along each axis of the last one.
    pub fn last_count_mut(&mut self) -> Option<&mut [u64]> {
        let from = self.numbers.len().checked_sub(self.axes).filter(|_| self.len > 0)?;
        self.numbers.get_mut(from..)
    }

    /// Each, as [`Regions::get`].
    pub fn iter(&self) -> impl Iterator<Item = (&[u64], &[u64])> {
        (0..self.len).map(|place| self.get(place))
    }

    /// Elements of all of them; `None` if those do not fit 64 bits.
    pub fn volume(&self) -> Option<u64> {
        self.iter().try_fold(0u64, |sum, (_, count)| sum.checked_add(volume(count)?))
    }

    /// The region that holds all of them; `None` if there is none.
    pub fn extent(&self) -> Option<Region> {
        let (start, count) = self.iter().next()?;
        let (mut first, mut end) = (start.to_vec(), ends(start, count));
        for (start, count) in self.iter().skip(1) {
            first.iter_mut().zip(start).for_each(|(first, start)| *first = (*first).min(*start));
            end.iter_mut().zip(ends(start, count)).for_each(|(end, here)| *end = (*end).max(here));
        }
        let count: Vec<u64> = end.iter().zip(&first).map(|(end, first)| end - first).collect();
        Some(Region::new(first, count))
    }
}

fn ends(start: &[u64], count: &[u64]) -> Vec<u64> {
    start.iter().zip(count).map(|(start, count)| start.saturating_add(*count)).collect()
}

impl From<&Region> for Regions {
    fn from(region: &Region) -> Self {
        let mut one = Self::with_capacity(region.start.len(), 1);
        one.push(&region.start, &region.count);
        one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_come_back_in_their_order() {
        let mut all = Regions::new(2);
        assert_eq!((all.extent(), all.volume(), all.last_count_mut()), (None, Some(0), None));
        all.push(&[3, 4], &[1, 2]);
        all.push(&[1, 9], &[2, 2]);
        assert_eq!((all.get(1), all.get(2)), (([1, 9].as_slice(), [2, 2].as_slice()), (&[][..], &[][..])));
        assert_eq!(all.extent(), Some(Region::new([1, 4], [3, 7])));
        all.last_count_mut().unwrap()[0] = 5;
        assert_eq!((all.iter().count(), all.volume()), (2, Some(12)));
        let scalar = Regions::from(&Region::new([], []));
        assert_eq!((scalar.len(), scalar.volume(), scalar.extent()), (1, Some(1), Some(Region::new([], []))));
        let mut vast = Regions::new(1);
        vast.push(&[0], &[u64::MAX]);
        vast.push(&[0], &[1]);
        assert_eq!(vast.volume(), None);
    }
}
