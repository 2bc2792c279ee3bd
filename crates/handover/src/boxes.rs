//! Which of many boxes meet a box: a tree of bounding boxes. Building it takes n log n steps, asking it log n for each box
//! that is found, as long as the boxes do not all overlap.

/// Boxes in a leaf, at most.
const LEAF: usize = 8;

/// An index of boxes that have the same number of axes.
#[derive(Debug, Default)]
pub(crate) struct Boxes {
    axes: usize,
    /// Of each box, in the order of leaves: where it begins along each axis, then where it ends.
    bounds: Vec<u64>,
    /// The number that each of them was given.
    numbers: Vec<usize>,
    /// A node comes before those below it, those of its first half before those of its second.
    nodes: Vec<Node>,
    /// Of each node, as for boxes.
    around: Vec<u64>,
}

/// A node, which stands for the boxes `from` to `to`.
#[derive(Debug)]
struct Node {
    from: usize,
    to: usize,
    /// The node of the second half; `None` for a leaf.
    second: Option<usize>,
}

impl Boxes {
    /// Boxes of `axes` axes, one behind the other: where each begins along each axis, then where it ends. Their numbers are
    /// their places.
    pub(crate) fn new(axes: usize, bounds: Vec<u64>, count: usize) -> Self {
        let mut order: Vec<usize> = (0..count).collect();
        let mut boxes = Self { axes, bounds, ..Self::default() };
        if count > 0 {
            boxes.divide(&mut order, 0);
        }
        let sorted = order.iter().flat_map(|&number| boxes.of(number).iter().copied()).collect();
        boxes.bounds = sorted;
        boxes.numbers = order;
        boxes
    }

    fn of(&self, place: usize) -> &[u64] {
        self.bounds.get(2 * self.axes * place..2 * self.axes * (place + 1)).unwrap_or_default()
    }

    /// Makes the node for the boxes of `order`, whose first one has the place `from`, and those below it.
    fn divide(&mut self, order: &mut [usize], from: usize) {
        let axes = self.axes;
        let mut around = [vec![u64::MAX; axes], vec![0; axes]].concat();
        // Of twice the middles: how far they are apart.
        let (mut least, mut most) = (vec![u64::MAX; axes], vec![0; axes]);
        for &number in &*order {
            let bounds = self.of(number);
            for axis in 0..axes {
                let (begin, end) = (bounds[axis], bounds[axes + axis]);
                around[axis] = around[axis].min(begin);
                around[axes + axis] = around[axes + axis].max(end);
                let middle = begin.saturating_add(end);
                least[axis] = least[axis].min(middle);
                most[axis] = most[axis].max(middle);
            }
        }
        let node = self.nodes.len();
        self.nodes.push(Node { from, to: from + order.len(), second: None });
        self.around.extend_from_slice(&around);
        let widest = (0..axes).max_by_key(|&axis| most[axis].saturating_sub(least[axis]));
        let Some(widest) = widest.filter(|_| order.len() > LEAF) else { return };
        let half = order.len() / 2;
        order.select_nth_unstable_by_key(half, |&number| {
            let bounds = self.of(number);
            bounds[widest].saturating_add(bounds[axes + widest])
        });
        let (first, second) = order.split_at_mut(half);
        self.divide(first, from);
        self.nodes[node].second = Some(self.nodes.len());
        self.divide(second, from + half);
    }

    /// Calls `found` with the number of each box that shares an element with the one from `begin` to `end`.
    pub(crate) fn meeting(&self, begin: &[u64], end: &[u64], mut found: impl FnMut(usize)) {
        let axes = self.axes;
        let meets = |bounds: &[u64]| {
            (0..axes.min(begin.len())).all(|axis| bounds[axis] < end[axis] && begin[axis] < bounds[axes + axis])
        };
        let mut open = if self.nodes.is_empty() { Vec::new() } else { vec![0] };
        while let Some(number) = open.pop() {
            let (node, around) = (&self.nodes[number], &self.around[2 * axes * number..2 * axes * (number + 1)]);
            if !meets(around) {
                continue;
            }
            match node.second {
                Some(second) => open.extend([second, number + 1]),
                None => (node.from..node.to)
                    .filter(|&place| meets(self.of(place)))
                    .for_each(|place| found(self.numbers[place])),
            }
        }
    }
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

    fn found(boxes: &Boxes, begin: &[u64], end: &[u64]) -> Vec<usize> {
        let mut found = Vec::new();
        boxes.meeting(begin, end, |number| found.push(number));
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
                let bounds = all.iter().flat_map(|(begin, end)| [begin.clone(), end.clone()].concat()).collect();
                let boxes = Boxes::new(axes, bounds, count);
                for _ in 0..20 {
                    let (begin, end) = one();
                    let meets = |(from, to): &(Vec<u64>, Vec<u64>)| {
                        (0..axes).all(|axis| from[axis] < end[axis] && begin[axis] < to[axis])
                    };
                    let expected: Vec<usize> = (0..count).filter(|&number| meets(&all[number])).collect();
                    assert_eq!(found(&boxes, &begin, &end), expected);
                }
            }
        }
    }

    #[test]
    fn few_boxes_are_looked_at() {
        // Rows of a grid, cut into segments: each question is about one of them.
        let (rows, columns) = (400u64, 250u64);
        let count = usize::try_from(rows * columns).unwrap();
        let bounds =
            (0..rows * columns).flat_map(|n| [n / columns, n % columns * 8, n / columns + 1, n % columns * 8 + 8]);
        let boxes = Boxes::new(2, bounds.collect(), count);
        let mut looked = 0;
        for n in 0..1000u64 {
            let (row, column) = (n * 7 % rows, n * 13 % columns * 8);
            let mut open = vec![0];
            // As `meeting` goes, counting.
            while let Some(number) = open.pop() {
                looked += 1;
                let around = &boxes.around[4 * number..4 * (number + 1)];
                let meets = around[0] < row + 1 && row < around[2] && around[1] < column + 8 && column < around[3];
                if let (true, Some(second)) = (meets, boxes.nodes[number].second) {
                    open.extend([second, number + 1]);
                }
            }
            assert_eq!(found(&boxes, &[row, column], &[row + 1, column + 8]).len(), 1);
        }
        assert!(looked < 1000 * 80, "{looked}");
    }
}
