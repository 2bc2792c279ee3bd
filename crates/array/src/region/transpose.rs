//! Arrays whose axes lie in another order than they are indexed.

/// Replaces the contents of `out` by the elements of an array of `shape`, row-major. `input` holds them row-major with the
/// axes in `order`: its slowest axis is number `order[0]`. Elements have `size` bytes.
pub fn row_major(input: &[u8], order: &[usize], shape: &[usize], size: usize, out: &mut Vec<u8>) {
    out.clear();
    out.resize(input.len(), 0);
    // Distance, in elements of the input, between neighbours along each axis of the array.
    let mut strides = vec![0; shape.len()];
    let mut stride = 1;
    for &axis in order.iter().rev() {
        strides[axis] = stride;
        stride *= shape[axis];
    }
    // Axes of one element move nothing, and would make rows short.
    let mut axes: Vec<(usize, usize)> = shape.iter().copied().zip(strides).filter(|(n, _)| *n != 1).collect();
    let (row, step) = axes.pop().unwrap_or((1, 1));
    if row == 0 || size == 0 {
        return;
    }
    let mut index = vec![0; axes.len()];
    let mut start = 0;
    for target in out.chunks_exact_mut(row * size) {
        match size {
            1 => spread::<1>(input, start, step, target),
            2 => spread::<2>(input, start, step, target),
            4 => spread::<4>(input, start, step, target),
            8 => spread::<8>(input, start, step, target),
            _ => {
                let elements = input.chunks_exact(size).skip(start).step_by(step);
                target.chunks_exact_mut(size).zip(elements).for_each(|(to, from)| to.copy_from_slice(from));
            }
        }
        for (index, (n, stride)) in index.iter_mut().zip(&axes).rev() {
            *index += 1;
            start += stride;
            if *index < *n {
                break;
            }
            start -= stride * n;
            *index = 0;
        }
    }
}

/// Fills a row with every `step`th element from number `start` on.
fn spread<const N: usize>(input: &[u8], start: usize, step: usize, row: &mut [u8]) {
    let elements = input.as_chunks::<N>().0.get(start..).unwrap_or_default();
    row.as_chunks_mut::<N>().0.iter_mut().zip(elements.iter().step_by(step)).for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_where_their_indices_say() {
        let shape = [3, 1, 4, 5];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
            for size in [1, 2, 3, 4, 8] {
                let elements: usize = shape.iter().product();
                let input: Vec<u8> = (0..elements * size).map(|at| u8::try_from(at % 251).unwrap()).collect();
                let mut out = vec![9; 7];
                row_major(&input, &order, &shape, size, &mut out);
                assert_eq!(out.len(), input.len());
                for element in 0..elements {
                    let index = [element / 20, 0, element / 5 % 4, element % 5];
                    let at = order.iter().fold(0, |at, &axis| at * shape[axis] + index[axis]);
                    assert_eq!(out[element * size..][..size], input[at * size..][..size], "{order:?} {size} {index:?}");
                }
            }
        }
    }

    #[test]
    fn scalars_and_empty_arrays_stay() {
        let mut out = vec![9; 7];
        row_major(&[1, 2], &[], &[], 2, &mut out);
        assert_eq!(out, [1, 2]);
        row_major(&[], &[1, 0], &[3, 0], 2, &mut out);
        assert!(out.is_empty());
    }
}
