//! Where chunks of an extensible array belong.
//!
//! HDF5 1.10 and later index the chunks of a dataset with one unlimited dimension by an extensible array, whose
//! entries are numbered with the unlimited dimension slowest, whichever it is (`H5D__earray_idx_insert`). While
//! `H5Dchunk_iter` goes through them it counts positions in the order of the dimensions all the same
//! (`H5D__earray_idx_iterate_cb`, up to HDF5 2.2): unless the unlimited dimension is the first one, it reports chunks
//! at the places of others.

/// Corrects the offsets that `H5Dchunk_iter` reports for one dataset.
#[derive(Debug)]
pub(in crate::sys) struct Correction {
    chunk: Vec<u64>,
    /// Most chunks along each dimension; any number for the unlimited one.
    most: Vec<u64>,
    unlimited: usize,
    corrected: Vec<u64>,
}

impl Correction {
    /// For a dataset that has an extensible array, or would get one; `None` where what is reported is right.
    pub(in crate::sys) fn of(chunk: &[u64], max_shape: &[Option<u64>]) -> Option<Self> {
        let mut all = max_shape.iter().enumerate().filter(|(_, max)| max.is_none()).map(|(axis, _)| axis);
        // With several, the index is a B-tree.
        let (Some(unlimited @ 1..), None) = (all.next(), all.next()) else { return None };
        let most = max_shape.iter().zip(chunk).map(|(max, c)| max.unwrap_or(0).div_ceil((*c).max(1)).max(1)).collect();
        Some(Self { chunk: chunk.to_vec(), most, unlimited, corrected: Vec::new() })
    }

    /// The offset of the chunk that was reported at `offset`; `None` if it has no place.
    pub(in crate::sys) fn apply(&mut self, offset: &[u64]) -> Option<&[u64]> {
        // The unlimited dimension never overflows while positions are counted: those before it stay 0.
        let mut number = 0u64;
        for ((at, c), most) in offset.iter().zip(&self.chunk).zip(&self.most).skip(self.unlimited) {
            number = number.checked_mul(*most)?.checked_add(at / (*c).max(1))?;
        }
        self.corrected.clear();
        self.corrected.resize(self.chunk.len(), 0);
        let limited = (0..self.chunk.len()).rev().filter(|axis| *axis != self.unlimited);
        for axis in limited {
            let most = *self.most.get(axis)?;
            *self.corrected.get_mut(axis)? = number % most;
            number /= most;
        }
        *self.corrected.get_mut(self.unlimited)? = number;
        for (position, c) in self.corrected.iter_mut().zip(&self.chunk) {
            *position = position.checked_mul(*c)?;
        }
        Some(&self.corrected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the library reports for the `number`th chunk: a count in the order of the dimensions.
    fn reported(number: u64, chunk: &[u64], max_shape: &[Option<u64>]) -> Vec<u64> {
        let (mut left, mut offset) = (number, vec![0; chunk.len()]);
        for axis in (0..chunk.len()).rev() {
            let most = max_shape[axis].map_or(u64::MAX, |max| max.div_ceil(chunk[axis]));
            offset[axis] = left % most * chunk[axis];
            left /= most;
        }
        offset
    }

    #[test]
    fn the_unlimited_dimension_is_the_slowest() {
        let (chunk, max_shape) = ([32, 5, 7], [Some(70), None, Some(14)]);
        let mut correction = Correction::of(&chunk, &max_shape).unwrap();
        let mut number = 0;
        for j in 0..3 {
            for i in 0..3 {
                for k in 0..2 {
                    let offset = reported(number, &chunk, &max_shape);
                    assert_eq!(correction.apply(&offset), Some([i * 32, j * 5, k * 7].as_slice()), "chunk {number}");
                    number += 1;
                }
            }
        }
    }

    #[test]
    fn offsets_of_a_first_unlimited_dimension_are_right() {
        assert!(Correction::of(&[2, 2], &[None, Some(6)]).is_none());
        assert!(Correction::of(&[2, 2], &[Some(6), Some(6)]).is_none());
        assert!(Correction::of(&[2, 2, 2], &[Some(6), None, None]).is_none());
    }

    #[test]
    fn a_chunk_beyond_all_numbers_has_no_place() {
        let mut correction = Correction::of(&[1, 1, 1], &[Some(1), None, Some(u64::MAX)]).unwrap();
        assert_eq!(correction.apply(&[0, u64::MAX, 0]), None);
    }
}
