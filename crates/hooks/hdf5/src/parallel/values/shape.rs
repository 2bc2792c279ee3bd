//! Elements that HDF5 takes one after the other, as few boxes of an array.

use knarr_array::region::Region;

/// A box of elements. Without strides they follow each other along each axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::parallel) struct Piece {
    pub(in crate::parallel) region: Region,
    pub(in crate::parallel) stride: Vec<u64>,
}

impl Piece {
    pub(in crate::parallel) fn plain(region: Region) -> Self {
        Self { region, stride: Vec::new() }
    }

    /// Number of its elements; saturates.
    pub(in crate::parallel) fn len(&self) -> u64 {
        self.region.volume().unwrap_or(u64::MAX)
    }

    /// True if all of it lies in an array of this shape.
    pub(in crate::parallel) fn is_inside(&self, shape: &[u64]) -> bool {
        let Region { start, count } = &self.region;
        start.len() == shape.len()
            && (0..shape.len()).all(|axis| {
                let stride = self.stride.get(axis).copied().unwrap_or(1);
                let last =
                    count[axis].saturating_sub(1).checked_mul(stride).and_then(|far| far.checked_add(start[axis]));
                count[axis] == 0 || last.is_some_and(|last| last < shape[axis])
            })
    }
}

/// The box of a hyperslab of HDF5 whose elements are in order by themselves; `None` if it has blocks with gaps between.
pub(in crate::parallel) fn regular(start: &[u64], stride: &[u64], count: &[u64], block: &[u64]) -> Option<Piece> {
    let mut piece = Piece { region: Region::new(start, count), stride: vec![1; start.len()] };
    for axis in 0..start.len() {
        let (step, count, block) = (stride[axis], count[axis], block[axis]);
        if count == 1 || step == block {
            piece.region.count[axis] = count.checked_mul(block)?;
        } else if block == 1 {
            piece.stride[axis] = step;
        } else {
            return None;
        }
    }
    if piece.stride.iter().all(|&step| step == 1) {
        piece.stride.clear();
    }
    Some(piece)
}

/// The rows of blocks that do not overlap, in the order of the array. A block is its first and its last element, as HDF5
/// lists them.
pub(in crate::parallel) fn rows(blocks: &[u64], axes: usize) -> Vec<Region> {
    let mut rows = Vec::new();
    for block in blocks.chunks_exact(2 * axes) {
        let (first, last) = block.split_at(axes);
        let mut at = first.to_vec();
        loop {
            let mut count = vec![1; axes];
            count[axes - 1] = last[axes - 1] - first[axes - 1] + 1;
            rows.push(Region::new(at.clone(), count));
            let Some(axis) = (0..axes - 1).rev().find(|&axis| at[axis] < last[axis]) else { break };
            at[axis] += 1;
            at[axis + 1..axes - 1].copy_from_slice(&first[axis + 1..axes - 1]);
        }
    }
    rows.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    rows
}

/// The same elements in the same order, in fewer boxes.
pub(in crate::parallel) fn merged(mut boxes: Vec<Region>) -> Vec<Piece> {
    let axes = boxes.first().map_or(0, |first| first.start.len());
    for axis in (0..axes).rev() {
        let mut fewer: Vec<Region> = Vec::with_capacity(boxes.len());
        for next in boxes {
            match fewer.last_mut().filter(|last| continues(last, &next, axis)) {
                Some(last) => last.count[axis] += next.count[axis],
                None => fewer.push(next),
            }
        }
        boxes = fewer;
    }
    boxes.into_iter().map(Piece::plain).collect()
}

/// The elements of an array of the shape `to` that have the places in its file that those of the pieces have in an array of the
/// shape `from`. `None` if some lie beyond its end.
pub(in crate::parallel) fn placed(pieces: &[Piece], from: &[u64], to: &[u64]) -> Option<Vec<Piece>> {
    let room = to.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent))?;
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for piece in pieces {
        for (first, len) in runs_of(piece, from)? {
            match runs.last_mut().filter(|(last, before)| last + before == first) {
                Some((_, before)) => *before += len,
                None => runs.push((first, len)),
            }
            first.checked_add(len).filter(|end| *end <= room)?;
        }
    }
    Some(merged(runs.into_iter().flat_map(|run| boxes_of(run, to)).collect()))
}

/// The elements of a piece as runs in an array of this shape: the number of the first one, and how many there are.
fn runs_of(piece: &Piece, shape: &[u64]) -> Option<Vec<(u64, u64)>> {
    let Piece { region: Region { start, count }, stride } = piece;
    let Some(last) = shape.len().checked_sub(1) else { return Some(vec![(0, 1)]) };
    let step = |axis: usize| stride.get(axis).copied().unwrap_or(1);
    let (runs, len) = if step(last) == 1 { (1, count[last]) } else { (count[last], 1) };
    let (mut all, mut index) = (Vec::new(), vec![0; last]);
    loop {
        let axes = (0..last).map(|axis| (start[axis] + index[axis] * step(axis), shape[axis]));
        let row = axes.chain([(start[last], shape[last])]);
        let first = row.into_iter().try_fold(0u64, |at, (place, extent)| at.checked_mul(extent)?.checked_add(place))?;
        all.extend((0..runs).map(|run| (first + run * step(last), len)));
        let Some(axis) = (0..last).rev().find(|&axis| index[axis] + 1 < count[axis]) else { return Some(all) };
        index[axis] += 1;
        index[axis + 1..].fill(0);
    }
}

/// A run of elements of an array of this shape as boxes, one behind the other.
fn boxes_of((mut first, mut len): (u64, u64), shape: &[u64]) -> Vec<Region> {
    let mut boxes = Vec::new();
    while len > 0 {
        let (mut start, mut rest) = (vec![0; shape.len()], first);
        for axis in (0..shape.len()).rev() {
            start[axis] = rest % shape[axis];
            rest /= shape[axis];
        }
        let mut count = vec![1; shape.len()];
        // Whole rows, and whole planes of them, as long as there are some.
        let mut taken = 1;
        for axis in (0..shape.len()).rev() {
            count[axis] = (len / taken).min(shape[axis] - start[axis]);
            taken *= count[axis];
            if start[axis] > 0 || count[axis] < shape[axis] {
                break;
            }
        }
        boxes.push(Region::new(start, count));
        first += taken;
        len -= taken;
    }
    boxes
}

/// True if `next` follows `last` along an axis, and so do its elements.
fn continues(last: &Region, next: &Region, axis: usize) -> bool {
    last.start[axis].checked_add(last.count[axis]) == Some(next.start[axis])
        && (0..axis).all(|axis| last.count[axis] == 1 && next.count[axis] == 1 && last.start[axis] == next.start[axis])
        && (axis + 1..last.start.len())
            .all(|axis| last.start[axis] == next.start[axis] && last.count[axis] == next.count[axis])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements of boxes, one after the other.
    fn elements(pieces: &[Piece]) -> Vec<Vec<u64>> {
        let mut all = Vec::new();
        for Piece { region, stride } in pieces {
            let mut index = vec![0u64; region.start.len()];
            for _ in 0..region.volume().unwrap() {
                let step = |axis: usize| stride.get(axis).copied().unwrap_or(1);
                all.push((0..index.len()).map(|axis| region.start[axis] + index[axis] * step(axis)).collect());
                for axis in (0..index.len()).rev() {
                    index[axis] += 1;
                    if index[axis] < region.count[axis] {
                        break;
                    }
                    index[axis] = 0;
                }
            }
        }
        all
    }

    #[test]
    fn elements_have_the_place_that_they_have_in_an_array_of_another_shape() {
        let number = |index: &[u64], shape: &[u64]| index.iter().zip(shape).fold(0, |at, (i, extent)| at * extent + i);
        let shapes: [&[u64]; 6] = [&[4, 6], &[6, 4], &[24], &[2, 3, 4], &[4, 3, 2], &[1, 24, 1]];
        let mut pieces = Vec::new();
        for from in shapes {
            pieces.push((from, vec![Piece::plain(Region::whole(from))]));
            let inner: Vec<u64> = from.iter().map(|extent| extent.div_ceil(2)).collect();
            let start: Vec<u64> = from.iter().zip(&inner).map(|(extent, count)| extent - count).collect();
            pieces.push((from, vec![Piece::plain(Region::new(start, inner.clone()))]));
            let stride = from.iter().map(|extent| 1 + u64::from(*extent > 2)).collect();
            let strided = Piece { region: Region::new(vec![0; from.len()], inner), stride };
            pieces.push((from, vec![strided, Piece::plain(Region::new(vec![0; from.len()], vec![1; from.len()]))]));
        }
        for (from, pieces) in pieces {
            let expected: Vec<u64> = elements(&pieces).iter().map(|index| number(index, from)).collect();
            for to in shapes {
                let found = placed(&pieces, from, to).unwrap();
                let found: Vec<u64> = elements(&found).iter().map(|index| number(index, to)).collect();
                assert_eq!(found, expected, "{from:?} to {to:?}: {pieces:?}");
            }
            assert_eq!(placed(&pieces, from, &[0, 3]), None);
        }
        // A part of a larger array, and what lies beyond a smaller one.
        let row = [Piece::plain(Region::new([0, 2], [1, 3]))];
        assert_eq!(elements(&placed(&row, &[100, 5], &[2, 3]).unwrap()), [[0, 2], [1, 0], [1, 1]]);
        assert_eq!(placed(&row, &[100, 5], &[2, 2]), None);
        // A single value has no axes.
        let single = [Piece::plain(Region::new([], []))];
        assert_eq!(elements(&placed(&single, &[], &[3]).unwrap()), [[0]]);
    }

    #[test]
    fn blocks_are_taken_in_the_order_of_the_array() {
        // Two blocks beside each other, one below, and one apart.
        let blocks = [1, 1, 2, 2, 1, 3, 2, 5, 3, 1, 3, 5, 5, 0, 6, 0];
        let found = merged(rows(&blocks, 2));
        assert_eq!(found, [Piece::plain(Region::new([1, 1], [3, 5])), Piece::plain(Region::new([5, 0], [2, 1]))]);
        let mut expected: Vec<Vec<u64>> = Vec::new();
        for block in blocks.chunks_exact(4) {
            expected.extend((block[0]..=block[2]).flat_map(|row| (block[1]..=block[3]).map(move |col| vec![row, col])));
        }
        expected.sort();
        assert_eq!(elements(&found), expected);
    }

    #[test]
    fn rows_of_blocks_with_gaps_stay_in_order() {
        // Blocks of 2 x 2 x 2 in a grid: elements of different blocks follow each other.
        let mut blocks = Vec::new();
        for (a, b, c) in [(0u64, 0u64, 0u64), (0, 0, 4), (0, 4, 0), (4, 0, 4)] {
            blocks.extend([a, b, c, a + 1, b + 1, c + 1]);
        }
        let mut expected = elements(&rows(&blocks, 3).into_iter().map(Piece::plain).collect::<Vec<_>>());
        assert_eq!(elements(&merged(rows(&blocks, 3))), expected);
        let sorted = {
            let mut sorted = expected.clone();
            sorted.sort();
            sorted
        };
        assert_eq!(expected, sorted);
        expected.dedup();
        assert_eq!(expected.len(), 32);
    }

    #[test]
    fn points_keep_the_order_in_which_they_were_named() {
        let points = [[3u64, 4], [3, 5], [1, 0], [0, 0]].map(|point| Region::new(point, [1, 1])).to_vec();
        let found = merged(points);
        assert_eq!(elements(&found), [[3, 4], [3, 5], [1, 0], [0, 0]]);
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn regular_hyperslabs_are_one_box_or_none() {
        assert_eq!(regular(&[1, 2], &[1, 1], &[3, 4], &[1, 1]).unwrap(), Piece::plain(Region::new([1, 2], [3, 4])));
        assert_eq!(regular(&[1, 2], &[9, 4], &[1, 2], &[3, 4]).unwrap(), Piece::plain(Region::new([1, 2], [3, 8])));
        let strided = regular(&[1, 2], &[2, 5], &[3, 4], &[1, 1]).unwrap();
        assert_eq!((strided.region.count.as_slice(), strided.stride.as_slice()), (&[3, 4][..], &[2, 5][..]));
        assert!(strided.is_inside(&[6, 18]) && !strided.is_inside(&[5, 18]) && !strided.is_inside(&[6, 17]));
        assert_eq!(regular(&[0], &[5], &[2], &[3]), None);
        assert_eq!(regular(&[], &[], &[], &[]).unwrap().len(), 1);
    }
}
