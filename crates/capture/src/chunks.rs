//! Chunks for contiguous datasets that a program is about to create, when it is not known how it will write them, and
//! when it is.

use knarr_array::region::Region;

/// Size in bytes that new chunks come close to.
const WANTED: u64 = 1 << 20;

fn bytes(shape: &[u64], element: u64) -> u64 {
    shape.iter().fold(element, |bytes, &extent| bytes.saturating_mul(extent))
}

/// Chunks of a matrix that can be written by rows and by columns: those that one row, or one column, meets take at most
/// `cache` bytes. `None` if there are no such chunks, or if it is no matrix of several chunks.
pub(super) fn both_ways(shape: &[u64], element: u64, cache: u64) -> Option<Vec<u64>> {
    let &[rows, columns] = shape else { return None };
    let all = bytes(shape, element);
    if all <= WANTED + WANTED / 4 {
        return None;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a shape is chosen, not counted"
    )]
    let height = ((WANTED as f64 / all as f64).sqrt() * rows as f64) as u64;
    let height = height.clamp(1, rows);
    let width = (WANTED / element.max(1) / height).clamp(1, columns);
    let height = (WANTED / element.max(1) / width).clamp(1, rows);
    // Equal pieces leave no thin chunk at the edge.
    let even = |extent: u64, chunk: u64| extent.div_ceil(extent.div_ceil(chunk));
    let chunk = vec![even(rows, height), even(columns, width)];
    let widest = most_met(&chunk, shape, element);
    (widest <= cache).then_some(chunk)
}

/// Chunks that suit writes of `count` elements: of the shape of one write, or several side by side.
pub fn suited(count: &[u64], shape: &[u64], element: u64) -> Vec<u64> {
    let mut chunk: Vec<u64> = count.iter().zip(shape).map(|(&count, &extent)| count.clamp(1, extent.max(1))).collect();
    for axis in 0..chunk.len() {
        let rest = bytes(&chunk, element) / chunk[axis].max(1);
        chunk[axis] = chunk[axis].min((WANTED / rest.max(1)).max(1));
    }
    for axis in (0..chunk.len()).rev() {
        let rest = bytes(&chunk, element) / chunk[axis].max(1);
        chunk[axis] = (WANTED / rest.max(1)).clamp(chunk[axis], shape.get(axis).copied().unwrap_or(1).max(1));
    }
    chunk
}

/// Bytes of the chunks that a write of a region meets, whose elements have `element` bytes.
pub fn met(region: &Region, chunk: &[u64], element: u64) -> u64 {
    let axes = region.start.iter().zip(&region.count).zip(chunk);
    axes.fold(bytes(chunk, element), |met, ((&start, &count), &chunk)| {
        let (first, last) = (start / chunk.max(1), (start + count.max(1) - 1) / chunk.max(1));
        met.saturating_mul(last - first + 1)
    })
}

/// Bytes of the chunks that the widest slice of one element's thickness meets.
pub(super) fn most_met(chunk: &[u64], shape: &[u64], element: u64) -> u64 {
    let slice = |thin: usize| {
        let mut region = Region::whole(shape);
        region.count[thin] = 1;
        met(&region, chunk, element)
    };
    (0..shape.len()).map(slice).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_cut_both_ways_if_what_a_row_and_a_column_meet_is_small() {
        let chunk = both_ways(&[3000, 3000], 8, 16 << 20).unwrap();
        assert_eq!(chunk, [334, 334]);
        assert!(most_met(&chunk, &[3000, 3000], 8) <= 9 << 20);
        assert_eq!(both_ways(&[3000, 3000], 8, 4 << 20), None, "no room");
        assert_eq!(both_ways(&[70_000, 70_000], 8, 16 << 20), None, "too large");
        assert_eq!(both_ways(&[300, 300], 8, 16 << 20), None, "one chunk");
        assert_eq!(both_ways(&[100, 100, 100], 8, 16 << 20), None, "no matrix");
        for shape in [[3, 3_000_000], [3_000_000, 3], [1, 10_000_000], [5000, 700]] {
            let chunk = both_ways(&shape, 8, 16 << 20);
            let fits = |chunk: &[u64]| {
                bytes(chunk, 8) <= WANTED && chunk.iter().zip(&shape).all(|(part, all)| (1..=*all).contains(part))
            };
            assert!(chunk.as_deref().is_none_or(fits), "{shape:?} {chunk:?}");
        }
    }

    #[test]
    fn chunks_suit_the_writes_that_were_seen() {
        assert_eq!(suited(&[3000, 1], &[3000, 3000], 8), [3000, 43]);
        assert_eq!(suited(&[1, 3000], &[3000, 3000], 8), [43, 3000]);
        assert_eq!(suited(&[1000, 1, 360], &[1000, 180, 360], 4), [728, 1, 360]);
        assert_eq!(suited(&[5, 5], &[5, 5], 8), [5, 5]);
        assert_eq!(suited(&[9, 9], &[5, 5], 8), [5, 5], "of a larger one");
    }

    #[test]
    fn what_a_write_meets_is_counted() {
        assert_eq!(met(&Region::new([0, 7], [3000, 1]), &[43, 3000], 8), 70 * 43 * 3000 * 8);
        assert_eq!(met(&Region::new([42, 0], [2, 1]), &[43, 3000], 8), 2 * 43 * 3000 * 8);
    }
}
