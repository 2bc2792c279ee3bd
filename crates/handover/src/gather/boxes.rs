//! Which of many boxes meet a box: a tree of bounding boxes over the boxes in the order of their first elements. That order
//! is almost there when programs go through their arrays as they lie, and few boxes of neighbouring places overlap in it. A
//! question takes log n steps for each box that is found, as long as the boxes do not all overlap.

use std::ops::Range;

/// What a node has below it, at most.
const FAN: usize = 8;

/// An index of boxes that have the same number of axes.
#[derive(Debug, Default)]
pub(crate) struct Boxes {
    axes: usize,
    /// The number that each of the sorted boxes was given.
    numbers: Vec<u32>,
    /// Of the sorted boxes, then of each level of nodes above them up to the root: where each begins along each axis, then
    /// where it ends. A node stands for `FAN` places of the level beneath.
    levels: Vec<Vec<u64>>,
}

impl Boxes {
    /// Boxes of `axes` axes, one behind the other: where each begins along each axis, then where it ends. Their numbers are
    /// their places.
    pub(crate) fn new(axes: usize, bounds: &[u64], count: u32) -> Self {
        let of = |number: u32| bounds.get(width(axes, number as usize)).unwrap_or_default();
        let mut numbers: Vec<u32> = (0..count).collect();
        // Of those that begin at the same place the earlier one comes first: the sort is stable.
        numbers.sort_by(|&a, &b| of(a).get(..axes).cmp(&of(b).get(..axes)));
        let mut sorted = Vec::with_capacity(bounds.len());
        numbers.iter().for_each(|&number| sorted.extend_from_slice(of(number)));
        let (mut levels, mut len) = (vec![sorted], count as usize);
        while len > 1 {
            let beneath = levels.last().map(Vec::as_slice).unwrap_or_default();
            let mut level = Vec::with_capacity(beneath.len() / FAN + 2 * axes);
            for first in (0..len).step_by(FAN) {
                let from = level.len();
                level.extend(std::iter::repeat_n(u64::MAX, axes));
                level.extend(std::iter::repeat_n(0, axes));
                for place in first..len.min(first + FAN) {
                    let one = beneath.get(width(axes, place)).unwrap_or_default();
                    for (axis, (around, &bound)) in level[from..].iter_mut().zip(one).enumerate() {
                        *around = if axis < axes { bound.min(*around) } else { bound.max(*around) };
                    }
                }
            }
            len = len.div_ceil(FAN);
            levels.push(level);
        }
        Self { axes, numbers, levels }
    }

    /// Where the box at a place begins along each axis, and where it ends.
    pub(crate) fn at(&self, place: u32) -> (&[u64], &[u64]) {
        let bounds = self.levels.first().and_then(|sorted| sorted.get(width(self.axes, place as usize)));
        bounds.unwrap_or_default().split_at_checked(self.axes).unwrap_or_default()
    }

    /// Calls `found` with the number and the place of each box that shares an element with the one from `begin` to `end`.
    pub(crate) fn meeting(&self, begin: &[u64], end: &[u64], mut found: impl FnMut(u32, u32)) {
        if !self.numbers.is_empty() {
            self.look(self.levels.len() - 1, 0..1, (begin, end), &mut |_| {}, &mut found);
        }
    }

    /// Looks at the places `here` of a level, and what is beneath them. `looked` is called with the level for each of them.
    fn look(
        &self,
        level: usize,
        here: Range<usize>,
        (begin, end): (&[u64], &[u64]),
        looked: &mut impl FnMut(usize),
        found: &mut impl FnMut(u32, u32),
    ) {
        let axes = self.axes;
        for place in here {
            looked(level);
            let Some(bounds) = self.levels[level].get(width(axes, place)) else { return };
            let (from, to) = bounds.split_at(axes);
            let meets = (0..axes.min(begin.len())).all(|axis| from[axis] < end[axis] && begin[axis] < to[axis]);
            if meets && level == 0 {
                // There are no more places than numbers, which fit 32 bits.
                self.numbers
                    .get(place)
                    .zip(u32::try_from(place).ok())
                    .into_iter()
                    .for_each(|(&number, place)| found(number, place));
            } else if meets {
                let beneath = if level == 1 { self.numbers.len() } else { FAN * (place + 1) };
                let first = FAN * place;
                self.look(level - 1, first..beneath.min(first + FAN), (begin, end), looked, found);
            }
        }
    }
}

/// Where the bounds of a place are.
fn width(axes: usize, place: usize) -> Range<usize> {
    2 * axes * place..2 * axes * (place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are the same in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % end
        }
    }

    fn found(boxes: &Boxes, begin: &[u64], end: &[u64]) -> Vec<u32> {
        let mut found = Vec::new();
        boxes.meeting(begin, end, |number, _| found.push(number));
        found.sort_unstable();
        found
    }

    #[test]
    fn those_that_meet_a_box_are_found_and_no_others() {
        let mut random = Random(1);
        for axes in 0..5 {
            for count in [0, 1, 7, 8, 9, 100, 1000] {
                let mut one = || -> (Vec<u64>, Vec<u64>) {
                    (0..axes)
                        .map(|_| {
                            let begin = random.below(40);
                            (begin, begin + 1 + random.below(6))
                        })
                        .unzip()
                };
                let all: Vec<(Vec<u64>, Vec<u64>)> = (0..count).map(|_| one()).collect();
                let bounds: Vec<u64> =
                    all.iter().flat_map(|(begin, end)| [begin.clone(), end.clone()].concat()).collect();
                let boxes = Boxes::new(axes, &bounds, count);
                for _ in 0..20 {
                    let (begin, end) = one();
                    let meets = |(from, to): &(Vec<u64>, Vec<u64>)| {
                        (0..axes).all(|axis| from[axis] < end[axis] && begin[axis] < to[axis])
                    };
                    let expected: Vec<u32> = (0..count).filter(|&number| meets(&all[number as usize])).collect();
                    assert_eq!(found(&boxes, &begin, &end), expected);
                }
            }
        }
    }

    #[test]
    fn few_boxes_are_looked_at() {
        // Rows of a grid, cut into segments: each question is about one of them.
        let (rows, columns) = (400u64, 250u64);
        let count = u32::try_from(rows * columns).unwrap();
        let bounds: Vec<u64> = (0..rows * columns)
            .flat_map(|n| [n / columns, n % columns * 8, n / columns + 1, n % columns * 8 + 8])
            .collect();
        // In order, and in none.
        let mixed: Vec<u64> = (0..rows * columns)
            .flat_map(|n| bounds[width(2, usize::try_from(n * 70_001 % (rows * columns)).unwrap())].to_vec())
            .collect();
        for bounds in [bounds, mixed] {
            let boxes = Boxes::new(2, &bounds, count);
            let (mut looked, mut found) = (0, 0);
            for n in 0..1000u64 {
                let (row, column) = (n * 7 % rows, n * 13 % columns * 8);
                let question = ([row, column], [row + 1, column + 8]);
                let root = boxes.levels.len() - 1;
                boxes.look(root, 0..1, (&question.0, &question.1), &mut |_| looked += 1, &mut |_, _| found += 1);
            }
            assert_eq!(found, 1000);
            assert!(looked < 1000 * 80, "{looked}");
        }
    }
}
