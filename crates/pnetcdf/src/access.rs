//! One access of a program to a variable, whatever function it called: which elements, and where they lie in memory.

use std::ffi::{c_int, c_void};

use knarr_array::region::Region;

use crate::codes::{EEDGE, EINVALCOORDS, ENEGATIVECNT, ENULLSTART, ESTRIDE, Offset};
use crate::element::Element;
use crate::variables::Variable;

/// The arguments that say which elements are meant, as the families of functions have them. Pointers are those of the
/// caller, to as many numbers as the variable has axes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// `var`: all elements.
    Whole,
    /// `var1`: one element.
    One(*const Offset),
    /// `vara`, `vars`, `varm`: what is null is not there.
    Part {
        start: *const Offset,
        count: *const Offset,
        stride: *const Offset,
        /// Distances of elements in memory, in elements.
        imap: *const Offset,
    },
    /// `varn`: several parts. A null `counts`, or a null in it, stands for one element.
    Several { number: c_int, starts: *const *const Offset, counts: *const *const Offset },
}

/// Where values lie in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) buffer: *mut c_void,
    pub(crate) kind: Kind,
}

/// What values are in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Elements of one type, one behind the other.
    Typed(Element),
    /// So many of an MPI datatype.
    Flexible { count: Offset, datatype: usize },
}

/// An access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) variable: c_int,
    pub(crate) shape: Shape,
    pub(crate) memory: Memory,
}

/// Elements of a variable that lie in memory one behind the other, or with distances of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) region: Region,
    /// Empty where all are 1.
    pub(crate) stride: Vec<u64>,
    /// Distances in memory, in elements; empty where elements follow each other.
    pub(crate) imap: Vec<u64>,
}

impl Part {
    pub(crate) fn len(&self) -> u64 {
        self.region.volume().unwrap_or(u64::MAX)
    }

    /// The first record that is not among its elements.
    pub(crate) fn records(&self) -> u64 {
        let (Some(&start), Some(&count)) = (self.region.start.first(), self.region.count.first()) else { return 0 };
        let stride = self.stride.first().copied().unwrap_or(1);
        if self.region.is_empty() { 0 } else { start + (count - 1) * stride + 1 }
    }
}

impl Access {
    /// The elements that are meant. `records` are those there are; `grows` allows later ones.
    ///
    /// # Safety
    /// The pointers are null or lead to as many numbers as the families of functions say.
    ///
    /// # Errors
    /// The code that PnetCDF has for elements that cannot be.
    pub(crate) unsafe fn parts(&self, variable: &Variable, records: u64, grows: bool) -> Result<Vec<Part>, c_int> {
        let axes = variable.shape.len();
        let limits = Limits { variable, records, grows };
        match self.shape {
            Shape::Whole => Ok(vec![Part {
                region: Region::whole(&variable.shape_now(records)),
                stride: Vec::new(),
                imap: Vec::new(),
            }]),
            Shape::One(start) => {
                // SAFETY: the caller's promise.
                let start = unsafe { numbers(start, axes) };
                limits.part(start.as_deref(), Some(&vec![1; axes]), None, None).map(|part| vec![part])
            }
            Shape::Part { start, count, stride, imap } => {
                // SAFETY: the caller's promise.
                let [start, count, stride, imap] =
                    [start, count, stride, imap].map(|from| unsafe { numbers(from, axes) });
                let part = limits.part(start.as_deref(), count.as_deref(), stride.as_deref(), imap.as_deref())?;
                Ok(vec![part])
            }
            Shape::Several { number, starts, counts } => {
                let number = usize::try_from(number).unwrap_or(0);
                if number > 0 && starts.is_null() {
                    return Err(ENULLSTART);
                }
                (0..number)
                    .map(|at| {
                        // SAFETY: there are `number` pointers, each to a number for each axis.
                        let start = unsafe { numbers(*starts.add(at), axes) };
                        let count = if counts.is_null() {
                            None
                        } else {
                            // SAFETY: as above.
                            unsafe { numbers(*counts.add(at), axes) }
                        };
                        limits.part(start.as_deref(), Some(&count.unwrap_or_else(|| vec![1; axes])), None, None)
                    })
                    .collect()
            }
        }
    }
}

/// So many numbers, if there are any.
///
/// # Safety
/// `from` is null or leads to as many.
unsafe fn numbers(from: *const Offset, count: usize) -> Option<Vec<Offset>> {
    if from.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(from, count) }.to_vec())
}

/// What a part is checked against.
struct Limits<'a> {
    variable: &'a Variable,
    records: u64,
    grows: bool,
}

impl Limits<'_> {
    /// Checks in the order in which PnetCDF does (`check_start_count_stride` in `dispatchers/var_getput.m4`).
    fn part(
        &self,
        start: Option<&[Offset]>,
        count: Option<&[Offset]>,
        stride: Option<&[Offset]>,
        imap: Option<&[Offset]>,
    ) -> Result<Part, c_int> {
        let axes = self.variable.shape.len();
        if axes == 0 {
            return Ok(Part { region: Region::new([], []), stride: Vec::new(), imap: Vec::new() });
        }
        // PnetCDF tells those who give none of coordinates and edges that are wrong.
        let start = start.ok_or(EINVALCOORDS)?;
        let extents = self.variable.shape_now(self.records);
        let first = |axis: usize, least: u64| {
            let begin = start.get(axis).and_then(|&begin| u64::try_from(begin).ok()).ok_or(EINVALCOORDS)?;
            let is_open = self.grows && axis == 0 && self.variable.is_record;
            let is_inside = is_open || begin < extents[axis] || (begin == extents[axis] && least == 0);
            if is_inside { Ok(begin) } else { Err(EINVALCOORDS) }
        };
        // Without a look at the counts first: which error comes first must not depend on them.
        let counted = |axis: usize| count.and_then(|count| count.get(axis)).copied();
        let starts = (0..axes)
            .map(|axis| first(axis, u64::try_from(counted(axis).unwrap_or(1)).unwrap_or(1)))
            .collect::<Result<Vec<u64>, c_int>>()?;
        let count = count.ok_or(EEDGE)?;
        let strides = stride.map_or_else(|| vec![1; axes], <[Offset]>::to_vec);
        let mut counts = Vec::with_capacity(axes);
        for axis in 0..axes {
            let n = u64::try_from(count[axis]).map_err(|_| ENEGATIVECNT)?;
            let stride = u64::try_from(strides[axis]).ok().filter(|&stride| stride > 0).ok_or(ESTRIDE)?;
            let span = if n == 0 { Some(0) } else { (n - 1).checked_mul(stride).and_then(|span| span.checked_add(1)) };
            let end = span.and_then(|span| starts[axis].checked_add(span)).ok_or(EEDGE)?;
            let is_open = self.grows && axis == 0 && self.variable.is_record;
            if !is_open && end > extents[axis] {
                return Err(EEDGE);
            }
            counts.push(n);
        }
        let stride: Vec<u64> = strides.iter().map(|&stride| u64::try_from(stride).unwrap_or(1)).collect();
        let stride = if stride.iter().all(|&stride| stride == 1) { Vec::new() } else { stride };
        let imap = imap.map(|imap| imap.iter().map(|&n| u64::try_from(n).unwrap_or(0)).collect::<Vec<u64>>());
        let imap = imap.filter(|imap| *imap != dense(&counts)).unwrap_or_default();
        Ok(Part { region: Region::new(starts, counts), stride, imap })
    }
}

/// Distances of elements that follow each other, in elements.
pub(crate) fn dense(count: &[u64]) -> Vec<u64> {
    let mut distances = vec![1; count.len()];
    for axis in (1..count.len()).rev() {
        distances[axis - 1] = distances[axis] * count[axis];
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(is_record: bool) -> Variable {
        Variable { element: Element::F32, shape: vec![4, 6], is_record, fill: vec![0; 4], may_fill: false }
    }

    fn part(
        grows: bool,
        records: u64,
        start: [Offset; 2],
        count: [Offset; 2],
        stride: [Offset; 2],
    ) -> Result<Part, c_int> {
        let memory = Memory { buffer: std::ptr::null_mut(), kind: Kind::Typed(Element::F32) };
        let shape = Shape::Part {
            start: start.as_ptr(),
            count: count.as_ptr(),
            stride: stride.as_ptr(),
            imap: std::ptr::null(),
        };
        // SAFETY: the arrays have two numbers each.
        let parts =
            unsafe { Access { variable: 0, shape, memory }.parts(&variable(grows || records < 4), records, grows) };
        parts.map(|mut parts| parts.remove(0))
    }

    #[test]
    fn arguments_are_checked_as_pnetcdf_does() {
        let one = [1, 1];
        assert_eq!(part(false, 4, [4, 0], [1, 1], one), Err(EINVALCOORDS));
        assert_eq!(part(false, 4, [-1, 0], [1, 1], one), Err(EINVALCOORDS));
        assert_eq!(part(false, 4, [4, 0], [0, 1], one).map(|part| part.len()), Ok(0));
        assert_eq!(part(false, 4, [2, 0], [3, 1], one), Err(EEDGE));
        assert_eq!(part(false, 4, [0, 0], [-1, 1], one), Err(ENEGATIVECNT));
        assert_eq!(part(false, 4, [0, 0], [1, 1], [1, 0]), Err(ESTRIDE));
        assert_eq!(part(false, 4, [0, 1], [4, 3], [1, 2]).map(|part| part.stride), Ok(vec![1, 2]));
        assert_eq!(part(false, 4, [0, 1], [4, 4], [1, 2]), Err(EEDGE));
        // Records may be added, but not beyond what can be counted.
        assert_eq!(part(true, 2, [9, 0], [3, 6], [2, 1]).map(|part| part.records()), Ok(14));
        assert_eq!(part(true, 2, [Offset::MAX, 0], [Offset::MAX, 6], [3, 1]), Err(EEDGE));
        assert_eq!(part(false, 2, [2, 0], [1, 6], one), Err(EINVALCOORDS));
    }
}
