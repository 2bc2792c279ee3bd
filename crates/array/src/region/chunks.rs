//! The grid of chunks that a variable is divided into.

use super::Region;
use crate::error::Error;

/// Positions in the grid of chunks of a variable, row-major.
pub fn chunk_count(shape: &[u64], chunk: &[u64]) -> u64 {
    shape.iter().zip(chunk).map(|(&n, &c)| n.div_ceil(c.max(1))).product()
}

/// The `index`-th position in the grid of chunks, row-major.
pub fn chunk_position(shape: &[u64], chunk: &[u64], index: u64) -> Vec<u64> {
    let mut rest = index;
    let mut position = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        let extent = shape[axis].div_ceil(chunk[axis].max(1)).max(1);
        position[axis] = rest % extent;
        rest /= extent;
    }
    position
}

/// The `index`-th position in a grid of this many positions along each axis, group by group: a group has `group` of them
/// along each axis, fewer at the edge. Groups, and positions in a group, are in row-major order.
pub fn grouped_position(grid: &[u64], group: &[u64], index: u64) -> Vec<u64> {
    let mut rest = index;
    // The groups of a row are those that have the same place along all axes so far.
    let (mut first, mut extent) = (Vec::new(), Vec::new());
    for axis in 0..grid.len() {
        let behind: u64 = grid[axis + 1..].iter().product();
        let row = extent.iter().product::<u64>() * behind;
        let group = group[axis].max(1);
        let number = rest / (row * group).max(1);
        rest -= number * row * group;
        first.push(number * group);
        extent.push(group.min(grid[axis] - number * group));
    }
    let within = chunk_position(&extent, &vec![1; extent.len()], rest);
    first.iter().zip(within).map(|(first, within)| first + within).collect()
}

/// What the chunk at `position` of the grid has of a variable of this shape: its elements, clipped to the variable.
pub fn chunk_region(shape: &[u64], chunk: &[u64], position: &[u64]) -> Region {
    let start: Vec<u64> = position.iter().zip(chunk).map(|(&p, &c)| p * c).collect();
    let count = start.iter().zip(chunk).zip(shape).map(|((&s, &c), &n)| c.min(n.saturating_sub(s))).collect();
    Region { start, count }
}

/// Spreads the elements of a region of shape `count`, clipped to the variable, over a full chunk whose other elements
/// are `padding`.
pub fn pad_chunk(region: &[u8], count: &[u64], chunk: &[u64], padding: &[u8], out: &mut Vec<u8>) {
    let element = padding.len();
    let extent = |n: u64| usize::try_from(n).unwrap_or(0);
    out.clear();
    let total: usize = chunk.iter().map(|&n| extent(n)).product();
    out.reserve(total * element);
    (0..total).for_each(|_| out.extend_from_slice(padding));
    let Some((&row, outer)) = count.split_last() else {
        out.copy_from_slice(region);
        return;
    };
    let row = extent(row) * element;
    let rows: usize = outer.iter().map(|&n| extent(n)).product();
    for index in 0..rows {
        let (mut rest, mut target, mut stride) = (index, 0, extent(*chunk.last().unwrap_or(&1)));
        for axis in (0..outer.len()).rev() {
            target += rest % extent(outer[axis]) * stride;
            rest /= extent(outer[axis]);
            stride *= extent(chunk[axis]);
        }
        let target = target * element;
        out[target..target + row].copy_from_slice(&region[index * row..(index + 1) * row]);
    }
}

/// Calls `f` with the position in the grid of each chunk that a region touches, last axis fastest.
///
/// # Errors
/// The first one of `f`.
pub fn each_chunk<E>(region: &Region, chunk: &[u64], mut f: impl FnMut(&[u64]) -> Result<(), E>) -> Result<(), E> {
    if region.is_empty() {
        return Ok(());
    }
    let Region { start, count } = region;
    let first: Vec<u64> = start.iter().zip(chunk).map(|(s, c)| s / c).collect();
    let last: Vec<u64> = start.iter().zip(count).zip(chunk).map(|((s, n), c)| (s + n - 1) / c).collect();
    let mut position = first.clone();
    loop {
        f(&position)?;
        let mut axis = position.len();
        loop {
            if axis == 0 {
                return Ok(());
            }
            axis -= 1;
            position[axis] += 1;
            if position[axis] <= last[axis] {
                break;
            }
            position[axis] = first[axis];
        }
    }
}

/// Names the chunk at `position` of the grid of chunks, whose first element is at `start`, as the place of an error.
pub fn in_chunk(error: Error, position: &[u64], start: &[u64]) -> Error {
    let tuple = |numbers: &[u64]| -> String {
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        format!("({})", numbers.join(", "))
    };
    error.at(format!("chunk {} from element {}", tuple(position), tuple(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_tile_the_variable() {
        let (shape, chunk) = ([5, 7], [2, 3]);
        assert_eq!(chunk_count(&shape, &chunk), 9);
        let mut covered = 0;
        for index in 0..9 {
            let position = chunk_position(&shape, &chunk, index);
            covered += chunk_region(&shape, &chunk, &position).volume().unwrap();
        }
        assert_eq!(covered, 35);
        assert_eq!(chunk_region(&shape, &chunk, &chunk_position(&shape, &chunk, 8)), Region::new([4, 6], [1, 1]));
        assert_eq!(chunk_count(&[], &[]), 1);
        assert_eq!(chunk_count(&[0, 4], &[1, 4]), 0);
    }

    #[test]
    fn groups_are_gone_through_one_after_another() {
        let positions: Vec<Vec<u64>> = (0..15).map(|index| grouped_position(&[3, 5], &[2, 2], index)).collect();
        let expected: [[u64; 2]; 15] = [
            [0, 0],
            [0, 1],
            [1, 0],
            [1, 1],
            [0, 2],
            [0, 3],
            [1, 2],
            [1, 3],
            [0, 4],
            [1, 4],
            [2, 0],
            [2, 1],
            [2, 2],
            [2, 3],
            [2, 4],
        ];
        assert_eq!(positions, expected);
        for index in 0..24 {
            assert_eq!(grouped_position(&[2, 3, 4], &[1, 1, 1], index), chunk_position(&[2, 3, 4], &[1, 1, 1], index));
            assert_eq!(grouped_position(&[2, 3, 4], &[9, 9, 9], index), chunk_position(&[2, 3, 4], &[1, 1, 1], index));
        }
        assert_eq!(grouped_position(&[], &[], 0), [0u64; 0]);
    }

    #[test]
    fn padding_surrounds_the_region() {
        let mut out = Vec::new();
        pad_chunk(&[1, 2, 3, 4, 5, 6], &[2, 3], &[3, 4], &[9], &mut out);
        assert_eq!(out, [1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9, 9]);
        pad_chunk(&[1, 1, 2, 2], &[1, 1, 2], &[2, 1, 2], &[7, 8], &mut out);
        assert_eq!(out, [1, 1, 2, 2, 7, 8, 7, 8]);
        pad_chunk(&[4, 5], &[], &[], &[0, 0], &mut out);
        assert_eq!(out, [4, 5]);
    }

    #[test]
    fn chunks_of_a_region_come_in_order() {
        let mut seen = Vec::new();
        each_chunk::<()>(&Region::new([3, 0], [4, 5]), &[4, 4], |position| {
            seen.push(position.to_vec());
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert_eq!(chunk_region(&[7, 5], &[4, 4], &[1, 1]), Region::new([4, 4], [3, 1]));
    }
}
