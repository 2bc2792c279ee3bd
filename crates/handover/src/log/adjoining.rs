//! Puts that follow each other: programs put a block row by row, each row by a request of its own, or name segments by the
//! hundred thousand. Each record of the log, and each box in it, costs whoever reads it. So puts that follow each other become
//! one, and boxes that adjoin become one box.

use knarr_array::region::Regions;

use crate::log::put::{Put, elements};

/// The puts, where one follows the one before it in the file of values, as one. The values behind `boundary` lie in another
/// file.
pub(crate) fn joined(puts: &[Put], boundary: Option<u64>) -> Vec<Put> {
    let mut all: Vec<Put> = Vec::new();
    let mut end = 0;
    for put in puts {
        let width = put.width();
        let follows = |last: &Put| {
            let same = (last.variable, last.dtype, last.order, &last.parts)
                == (put.variable, put.dtype, put.order, &put.parts);
            let is_plain = last.stride.is_empty() && put.stride.is_empty();
            same && is_plain && last.boxes.axes() == put.boxes.axes() && end == put.offset && boundary != Some(end)
        };
        let last = match all.last_mut() {
            Some(last) if follows(last) => last,
            _ => {
                let boxes = Regions::with_capacity(put.boxes.axes(), put.boxes.len());
                all.push(Put { boxes, stride: put.stride.clone(), parts: put.parts.clone(), ..*put });
                end = put.offset;
                let Some(last) = all.last_mut() else { break };
                last
            }
        };
        for (start, count) in put.boxes.iter() {
            let before = last.boxes.get(last.boxes.len().wrapping_sub(1));
            match axis(before, (start, count)).zip(last.boxes.last_count_mut()) {
                Some((axis, last)) => last[axis] += count[axis],
                None => last.boxes.push(start, count),
            }
            end = end.saturating_add(elements(count).saturating_mul(width));
        }
    }
    all
}

/// The axis along which the second box goes on where the first one ends; their values follow each other.
fn axis((start, count): (&[u64], &[u64]), (next, wide): (&[u64], &[u64])) -> Option<usize> {
    let axis = start.iter().zip(next).position(|(a, b)| a != b)?;
    let goes_on = start[axis].checked_add(count[axis]) == Some(next[axis]);
    // The values are row-major: they make one box if there is one row in front, and the rows are alike.
    let is_one_row = count[..axis].iter().chain(&wide[..axis]).all(|&count| count == 1);
    let are_alike = start[axis + 1..] == next[axis + 1..] && count[axis + 1..] == wide[axis + 1..];
    (goes_on && is_one_row && are_alike).then_some(axis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;
    use knarr_array::region::{Region, Regions};

    fn put(start: [u64; 3], count: [u64; 3], offset: u64) -> Put {
        let boxes = Regions::from(&Region::new(start, count));
        Put { variable: 1, dtype: DType::F64, boxes, stride: Vec::new(), parts: Vec::new(), order: 4, offset }
    }

    /// One put with the boxes of both.
    fn with(first: &Put, next: &Put) -> Put {
        let mut both = first.clone();
        next.boxes.iter().for_each(|(start, count)| both.boxes.push(start, count));
        both
    }

    #[test]
    fn rows_of_a_block_become_one_box() {
        let rows: Vec<Put> = (0..5).map(|row| put([2, 3 + row, 7], [1, 1, 4], 32 * row)).collect();
        assert_eq!(joined(&rows, None), [put([2, 3, 7], [1, 5, 4], 0)]);
        let one = rows[1..].iter().fold(rows[0].clone(), |one, row| with(&one, row));
        assert_eq!(joined(&[one], None), [put([2, 3, 7], [1, 5, 4], 0)]);
        let elements: Vec<Put> = (0..5).map(|at| put([2, 3, at], [1, 1, 1], 8 * at)).collect();
        assert_eq!(joined(&elements, None), [put([2, 3, 0], [1, 1, 5], 0)]);
        assert_eq!(joined(&rows, Some(64)).len(), 2, "the second file of values");
        assert!(joined(&[], None).is_empty());
    }

    #[test]
    fn boxes_that_do_not_adjoin_stay_apart_in_one_put() {
        let first = put([0, 0, 0], [1, 2, 4], 0);
        let apart = |start: [u64; 3], count: [u64; 3]| {
            let next = put(start, count, 64);
            assert_eq!(joined(&[first.clone(), next.clone()], None), [with(&first, &next)]);
        };
        assert_eq!(joined(&[first.clone(), put([0, 2, 0], [1, 3, 4], 64)], None), [put([0, 0, 0], [1, 5, 4], 0)]);
        apart([0, 3, 0], [1, 3, 4]);
        apart([0, 1, 0], [1, 3, 4]);
        apart([0, 2, 0], [1, 3, 3]);
        apart([0, 2, 1], [1, 3, 4]);
        apart([2, 0, 0], [1, 2, 4]);
        apart([0, 0, 0], [1, 3, 4]);
        // Behind the first along an axis whose rows do not follow each other.
        apart([0, 0, 4], [1, 2, 4]);
    }

    #[test]
    fn other_puts_stay_apart() {
        let (first, next) = (put([0, 0, 0], [1, 2, 4], 0), put([0, 2, 0], [1, 3, 4], 64));
        let apart = |change: fn(&mut Put)| {
            let mut next = next.clone();
            change(&mut next);
            let both = [first.clone(), next];
            assert_eq!(joined(&both, None), both);
        };
        apart(|next| next.variable = 2);
        apart(|next| next.order = 5);
        apart(|next| next.offset = 72);
        apart(|next| next.dtype = DType::I64);
        apart(|next| next.stride = vec![1, 1, 2]);
    }
}
