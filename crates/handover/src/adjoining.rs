//! Puts that adjoin: programs put a block row by row, each row by a request of its own. Each record of the log costs whoever
//! reads it, so such rows become one put.

use std::borrow::Cow;

use crate::put::Put;

/// The puts, where one goes on where the one before it ends, in its variable and in the file of values, as one. The values
/// behind `boundary` lie in another file.
pub(crate) fn joined(puts: &[Put], boundary: Option<u64>) -> Vec<Cow<'_, Put>> {
    let mut all: Vec<Cow<'_, Put>> = Vec::new();
    for put in puts {
        match all.last_mut().and_then(|last| Some((axis(last, put, boundary)?, last))) {
            Some((axis, last)) => last.to_mut().region.count[axis] += put.region.count[axis],
            None => all.push(Cow::Borrowed(put)),
        }
    }
    all
}

/// The axis along which the second put goes on where the first one ends.
fn axis(first: &Put, second: &Put, boundary: Option<u64>) -> Option<usize> {
    let same = (first.variable, first.dtype, first.order) == (second.variable, second.dtype, second.order);
    let is_behind =
        first.offset.checked_add(first.byte_len()) == Some(second.offset) && boundary != Some(second.offset);
    if !same || !is_behind || !first.stride.is_empty() || !second.stride.is_empty() {
        return None;
    }
    let (a, b) = (&first.region, &second.region);
    let axis = a.start.iter().zip(&b.start).position(|(a, b)| a != b)?;
    let goes_on = a.start[axis].checked_add(a.count[axis]) == Some(b.start[axis]);
    // The values are row-major: they follow each other if there is one row in front, and the rows are alike.
    let is_one_row = a.count[..axis].iter().chain(&b.count[..axis]).all(|&count| count == 1);
    let are_alike = a.start[axis + 1..] == b.start[axis + 1..] && a.count[axis + 1..] == b.count[axis + 1..];
    (goes_on && is_one_row && are_alike).then_some(axis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;
    use knarr_array::region::Region;

    fn put(start: [u64; 3], count: [u64; 3], offset: u64) -> Put {
        let region = Region::new(start, count);
        Put { variable: 1, dtype: DType::F64, region, stride: Vec::new(), order: 4, offset }
    }

    #[test]
    fn rows_of_a_block_become_one_put() {
        let rows: Vec<Put> = (0..5).map(|row| put([2, 3 + row, 7], [1, 1, 4], 32 * row)).collect();
        assert_eq!(joined(&rows, None), [Cow::Borrowed(&put([2, 3, 7], [1, 5, 4], 0))]);
        let elements: Vec<Put> = (0..5).map(|at| put([2, 3, at], [1, 1, 1], 8 * at)).collect();
        assert_eq!(joined(&elements, None), [Cow::Borrowed(&put([2, 3, 0], [1, 1, 5], 0))]);
        assert_eq!(joined(&rows, Some(64)).len(), 2, "the second file of values");
        assert!(joined(&[], None).is_empty());
    }

    #[test]
    fn others_stay_apart() {
        let first = put([0, 0, 0], [1, 2, 4], 0);
        let next = put([0, 2, 0], [1, 3, 4], 64);
        assert_eq!(joined(&[first.clone(), next.clone()], None).len(), 1);
        let apart = |change: fn(&mut Put)| {
            let mut next = next.clone();
            change(&mut next);
            let both = [first.clone(), next];
            assert_eq!(joined(&both, None), [Cow::Borrowed(&both[0]), Cow::Borrowed(&both[1])]);
        };
        apart(|next| next.variable = 2);
        apart(|next| next.order = 5);
        apart(|next| next.offset = 72);
        apart(|next| next.region.start[1] = 3);
        apart(|next| next.region.start[1] = 1);
        apart(|next| next.region.count[2] = 3);
        apart(|next| next.region.start[2] = 1);
        apart(|next| next.region = Region::new([2, 0, 0], [1, 2, 4]));
        apart(|next| next.region.start = vec![0, 0, 0]);
        apart(|next| next.stride = vec![1, 1, 2]);
        // Behind the first along an axis whose rows do not follow each other.
        let (left, right) = (put([0, 0, 0], [1, 2, 4], 0), put([0, 0, 4], [1, 2, 4], 64));
        assert_eq!(joined(&[left, right], None).len(), 2);
    }
}
