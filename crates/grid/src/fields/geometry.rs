//! How an array of any rank is laid out as planes of rows for prediction.

use crate::{Error, Result};

/// Cells added around each plane so that neighbours exist everywhere: columns left and right, rows above and below.
pub(crate) const SIDE: usize = 2;
const ABOVE: usize = 2;
const BELOW: usize = 1;

/// Planes × rows × columns view of an array, and its padded working layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) planes: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Distance in planes to the same place one step earlier along the next slower axis; 0 when there is none.
    pub(crate) period: usize,
    /// Length of a short last axis that is moved to the front (vertices of cells, vector parts), or 1.
    pub(crate) components: usize,
}

impl Geometry {
    /// Chooses the layout for a shape with at least one element.
    pub(crate) fn new(shape: &[usize]) -> Self {
        let mut dims: Vec<usize> = shape.iter().copied().filter(|&d| d != 1).collect();
        let mut components = 1;
        if dims.len() >= 2
            && let Some(&last) = dims.last()
            && last <= 8
            && dims.iter().rev().skip(1).product::<usize>() >= 32
        {
            components = last;
            dims.pop();
            dims.insert(0, last);
        }
        let (planes, rows, cols, period) = match *dims.as_slice() {
            [] => (1, 1, 1, 0),
            [n] => (1, 1, n, 0),
            // Two components of a line are two planes, so that each sees all of the other.
            [c, n] if components > 1 => (c, 1, n, 0),
            [r, c] => (1, r, c, 0),
            [p, r, c] => (p, r, c, 0),
            [ref slow @ .., k, r, c] => (slow.iter().product::<usize>() * k, r, c, k),
        };
        Self { planes, rows, cols, period, components }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.planes * self.rows * self.cols
    }

    /// Elements of one plane.
    pub(crate) fn area(&self) -> usize {
        self.rows * self.cols
    }

    /// Distance between rows of the padded layout.
    pub(crate) fn stride(&self) -> usize {
        self.cols + 2 * SIDE
    }

    /// Distance between planes of the padded layout.
    pub(crate) fn plane_stride(&self) -> usize {
        (self.rows + ABOVE + BELOW) * self.stride()
    }

    /// Length of the padded layout, or an error when it does not fit the address space.
    pub(crate) fn padded_len(&self) -> Result<usize> {
        let row = self.cols.checked_add(2 * SIDE);
        let rows = self.rows.checked_add(ABOVE + BELOW);
        row.zip(rows)
            .and_then(|(a, b)| a.checked_mul(b))
            .and_then(|a| a.checked_mul(self.planes))
            .filter(|&n| n <= isize::MAX as usize / 16)
            .ok_or(Error::TooLarge)
    }

    /// Index of an element in the padded layout.
    #[inline(always)]
    pub(crate) fn padded(&self, plane: usize, row: usize, col: usize) -> usize {
        plane * self.plane_stride() + (row + ABOVE) * self.stride() + col + SIDE
    }

    /// Copies values from storage order to plane order.
    pub(crate) fn gather<T: Copy>(&self, stored: &[T]) -> Vec<T> {
        if self.components == 1 {
            return stored.to_vec();
        }
        (0..self.components).flat_map(|c| stored.iter().skip(c).step_by(self.components).copied()).collect()
    }

    /// Inverse of [`Geometry::gather`].
    pub(crate) fn scatter<T: Copy + Default>(&self, planes: Vec<T>) -> Vec<T> {
        if self.components == 1 {
            return planes;
        }
        let mut out = vec![T::default(); planes.len()];
        let each = (planes.len() / self.components).max(1);
        for (c, part) in planes.chunks_exact(each).enumerate() {
            out.iter_mut().skip(c).step_by(self.components).zip(part).for_each(|(o, &v)| *o = v);
        }
        out
    }
}

/// Fills the cells around the elements of a padded buffer as rows and planes are completed, the same way on both
/// sides of the codec, so that predictors never need to test for edges.
pub(crate) struct Edges {
    geometry: Geometry,
}

impl Edges {
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self { geometry }
    }

    /// Rows above a plane repeat the first row of the previous plane, or `start` in the first plane.
    pub(crate) fn begin_plane<T: Copy>(&self, b: &mut [T], plane: usize, start: T) {
        let g = &self.geometry;
        let (stride, at) = (g.stride(), plane * g.plane_stride());
        if plane == 0 {
            b[at..at + ABOVE * stride].fill(start);
        } else {
            let from = at - g.plane_stride() + ABOVE * stride;
            for r in 0..ABOVE {
                b.copy_within(from..from + stride, at + r * stride);
            }
        }
    }

    /// Cells left of a row repeat the first value of the row above.
    #[inline(always)]
    pub(crate) fn begin_row<T: Copy>(&self, b: &mut [T], at: usize) {
        let v = b[at - self.geometry.stride()];
        b[at - 2] = v;
        b[at - 1] = v;
    }

    /// Cells right of a row repeat its last value.
    #[inline(always)]
    pub(crate) fn end_row<T: Copy>(&self, b: &mut [T], at: usize) {
        let end = at + self.geometry.cols;
        let v = b[end - 1];
        b[end] = v;
        b[end + 1] = v;
    }

    /// The row below a plane repeats its last row.
    pub(crate) fn end_plane<T: Copy>(&self, b: &mut [T], plane: usize) {
        let g = &self.geometry;
        let at = g.padded(plane, g.rows, 0) - SIDE;
        b.copy_within(at - g.stride()..at, at);
    }
}
