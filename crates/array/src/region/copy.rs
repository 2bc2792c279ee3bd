//! Copies of regions between arrays in memory, run by run.

/// Where a region lies in an array in memory. Its shape comes beside that: what is copied has one shape and two places.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// Shape of the array, in elements.
    pub shape: &'a [u64],
    /// First element of the region.
    pub start: &'a [u64],
}

/// Number in the array of the first element of a region of shape `count` whose elements follow each other there; `None`
/// if there are gaps.
pub fn one_run(place: Placed<'_>, count: &[u64]) -> Option<u64> {
    let Placed { shape, start } = place;
    let mut inner = count.iter().zip(shape).skip_while(|(count, _)| **count == 1).skip(1);
    let is_run = inner.all(|(count, extent)| count == extent);
    is_run.then(|| start.iter().zip(shape).fold(0, |at, (start, extent)| at * extent + start))
}

/// How many of the leading axes [`runs`] goes through, and the length of each of its runs.
fn run_of(a: Placed<'_>, b: Placed<'_>, count: &[u64]) -> (usize, u64) {
    // Trailing axes that are whole in both arrays, and one more, make one run.
    let (mut split, mut run) = (count.len(), 1);
    while split > 0 {
        split -= 1;
        run *= count[split];
        if count[split] != a.shape[split] || count[split] != b.shape[split] {
            break;
        }
    }
    (split, run)
}

/// Length of the runs of [`runs`], in elements; all have the same one.
pub fn run_length(a: Placed<'_>, b: Placed<'_>, count: &[u64]) -> u64 {
    run_of(a, b, count).1
}

/// Calls `f` with element offsets in `a` and `b` and a length for each run that is contiguous in both.
pub fn runs(a: Placed<'_>, b: Placed<'_>, count: &[u64], mut f: impl FnMut(u64, u64, u64)) {
    if count.contains(&0) {
        return;
    }
    let rank = count.len();
    let (split, run) = run_of(a, b, count);
    let strides = |shape: &[u64]| {
        let mut strides = vec![1u64; rank];
        for axis in (0..rank.saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1] * shape[axis + 1];
        }
        strides
    };
    let (strides_a, strides_b) = (strides(a.shape), strides(b.shape));
    let first =
        |placed: Placed<'_>, strides: &[u64]| -> u64 { placed.start.iter().zip(strides).map(|(s, t)| s * t).sum() };
    let (mut at_a, mut at_b) = (first(a, &strides_a), first(b, &strides_b));
    let mut index = vec![0u64; split];
    loop {
        f(at_a, at_b, run);
        let mut axis = split;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            at_a += strides_a[axis];
            at_b += strides_b[axis];
            if index[axis] < count[axis] {
                break;
            }
            at_a -= strides_a[axis] * count[axis];
            at_b -= strides_b[axis] * count[axis];
            index[axis] = 0;
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "offsets lie inside slices")]
fn span(start: u64, run: u64, size: usize) -> std::ops::Range<usize> {
    let start = start as usize * size;
    start..start + run as usize * size
}

/// Copies a region of shape `count` from one array to another, both of elements of `size` bytes. It lies inside both.
pub fn copy_region(source: &[u8], from: Placed<'_>, target: &mut [u8], to: Placed<'_>, count: &[u64], size: usize) {
    runs(from, to, count, |a, b, run| {
        target[span(b, run, size)].copy_from_slice(&source[span(a, run, size)]);
    });
}

/// Fills a region of shape `count` with one element.
pub fn fill_region(target: &mut [u8], to: Placed<'_>, count: &[u64], element: &[u8]) {
    runs(to, to, count, |_, at, run| fill(&mut target[span(at, run, element.len())], element));
}

/// Bytes that are copied at once where elements are repeated: they stay in the nearest cache.
const REPEATED: usize = 1 << 13;

/// Fills with one element. What is left behind the last whole one stays as it is, unless all bytes of the element are the same.
pub fn fill(target: &mut [u8], element: &[u8]) {
    let Some((&first, rest)) = element.split_first() else { return };
    if rest.iter().all(|&byte| byte == first) {
        return target.fill(first);
    }
    let size = element.len();
    let end = target.len() / size * size;
    let most = (REPEATED / size).max(1) * size;
    let mut filled = size.min(end);
    target[..filled].copy_from_slice(&element[..filled]);
    while filled < end {
        let more = filled.min(most).min(end - filled);
        target.copy_within(..more, filled);
        filled += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_copied_row_by_row() {
        let source: Vec<u8> = (0..24).collect();
        let mut target = vec![0u8; 4];
        let from = Placed { shape: &[2, 3, 4], start: &[0, 1, 2] };
        let to = Placed { shape: &[2, 1, 2], start: &[0, 0, 0] };
        copy_region(&source, from, &mut target, to, &[2, 1, 2], 1);
        assert_eq!(target, [6, 7, 18, 19]);
        fill_region(&mut target, Placed { shape: &[2, 2], start: &[0, 1] }, &[2, 1], &[9]);
        assert_eq!(target, [6, 9, 18, 9]);
        let mut whole = vec![0u8; 24];
        let all = Placed { shape: &[2, 3, 4], start: &[0, 0, 0] };
        copy_region(&source, all, &mut whole, all, &[2, 3, 4], 1);
        assert_eq!(whole, source);
    }

    #[test]
    fn every_element_is_filled() {
        for size in [1, 2, 3, 4, 8, 10_000] {
            let element: Vec<u8> = (1..=250).cycle().take(size).collect();
            for count in [0, 1, 2, 3, 5, 1000, 9000] {
                let mut target = vec![0; count * size + size / 2];
                fill(&mut target, &element);
                let (whole, rest) = target.split_at(count * size);
                assert!(whole.chunks_exact(size).all(|place| place == element), "{count} of {size}");
                assert!(rest.iter().all(|&byte| byte == 0));
            }
        }
        for element in [&[7; 4][..], &[0; 8]] {
            let mut target = [1; 64];
            fill(&mut target, element);
            assert_eq!(target, [element[0]; 64]);
        }
    }

    #[test]
    fn regions_without_gaps_are_one_run() {
        let shape = [3, 1, 4, 5];
        let axis =
            |extent: u64| (0..extent).flat_map(move |start| (1..=extent - start).map(move |count| (start, count)));
        for (a, b, c) in axis(3).flat_map(|a| axis(4).flat_map(move |b| axis(5).map(move |c| (a, b, c)))) {
            let (start, count) = ([a.0, 0, b.0, c.0], [a.1, 1, b.1, c.1]);
            let (place, packed) = (Placed { shape: &shape, start: &start }, Placed { shape: &count, start: &[0; 4] });
            let mut elements = Vec::new();
            runs(place, packed, &count, |at, _, length| elements.extend(at..at + length));
            let has_gaps = elements.windows(2).any(|pair| pair[0] + 1 != pair[1]);
            assert_eq!(one_run(place, &count), (!has_gaps).then_some(elements[0]), "{start:?} {count:?}");
        }
        assert_eq!(one_run(Placed { shape: &[], start: &[] }, &[]), Some(0));
    }

    #[test]
    fn a_scalar_is_one_run() {
        let mut target = [0u8; 2];
        copy_region(&[1, 2], Placed { shape: &[], start: &[] }, &mut target, Placed { shape: &[], start: &[] }, &[], 2);
        assert_eq!(target, [1, 2]);
    }
}
