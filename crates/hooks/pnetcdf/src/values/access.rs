//! One access of a program to a variable, whatever function it called: which elements, and where they lie in memory.

use std::ffi::{c_int, c_void};

use knarr_array::region::{Region, Regions};

use crate::codes::{EEDGE, EINVALCOORDS, ENEGATIVECNT, ENULLSTART, ESTRIDE, Offset};
use crate::values::element::Element;
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
    /// These boxes, which a datatype for the file led to (`vard`).
    Boxes(*const Regions),
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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Elements {
    /// One region, or several without distances of any kind.
    pub(crate) regions: Regions,
    /// Distance along each axis; empty where all are 1.
    pub(crate) stride: Vec<u64>,
    /// Distances in memory, in elements; empty where elements follow each other.
    pub(crate) imap: Vec<i64>,
}

impl Elements {
    /// How many there are; saturates.
    pub(crate) fn len(&self) -> u64 {
        self.regions.volume().unwrap_or(u64::MAX)
    }

    /// Number of them along each axis of the one region.
    pub(crate) fn count(&self) -> &[u64] {
        self.regions.get(0).1
    }

    /// The first record that is behind all of them.
    pub(crate) fn records(&self) -> u64 {
        let stride = self.stride.first().copied().unwrap_or(1);
        let behind = |(start, count): (&[u64], &[u64])| match (start.first(), count.first()) {
            (Some(start), Some(n)) if !count.contains(&0) => start + (n - 1) * stride + 1,
            _ => 0,
        };
        self.regions.iter().map(behind).max().unwrap_or(0)
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
    pub(crate) unsafe fn elements(&self, variable: &Variable, records: u64, grows: bool) -> Result<Elements, c_int> {
        let axes = variable.shape.len();
        let extents = variable.shape_now(records);
        let is_open = grows && variable.is_record;
        let mut limits = Limits { extents: &extents, is_open, first: Vec::new(), counts: Vec::new() };
        let ones = vec![1; axes];
        let mut elements = Elements { regions: Regions::new(axes), ..Elements::default() };
        match self.shape {
            Shape::Whole => elements.regions = Regions::from(&Region::whole(&extents)),
            Shape::One(start) => {
                // SAFETY: the caller's promise.
                let start = unsafe { numbers(start, axes) };
                limits.check(start, Some(&ones), None, &mut elements.regions)?;
            }
            Shape::Part { start, count, stride, imap } => {
                // SAFETY: the caller's promise.
                let [start, count, stride, imap] =
                    [start, count, stride, imap].map(|from| unsafe { numbers(from, axes) });
                limits.check(start, count, stride, &mut elements.regions)?;
                // They were checked.
                let stride = stride.unwrap_or_default().iter().map(|&n| u64::try_from(n).unwrap_or(1));
                let (stride, imap) = (stride.collect::<Vec<_>>(), imap.unwrap_or_default());
                elements.stride = if stride.iter().all(|&stride| stride == 1) { Vec::new() } else { stride };
                elements.imap = if imap == offsets(&dense(elements.count())) { Vec::new() } else { imap.to_vec() };
            }
            Shape::Boxes(boxes) => {
                // SAFETY: the caller's promise: they are there.
                for (start, count) in unsafe { &*boxes }.iter() {
                    let [start, count] = [start, count].map(offsets);
                    limits.check(Some(&start), Some(&count), None, &mut elements.regions)?;
                }
            }
            Shape::Several { number, starts, counts } => {
                let number = usize::try_from(number).unwrap_or(0);
                if number > 0 && starts.is_null() {
                    return Err(ENULLSTART);
                }
                elements.regions = Regions::with_capacity(axes, number);
                for at in 0..number {
                    // SAFETY: there are `number` pointers, each to a number for each axis.
                    let (start, count) = unsafe {
                        let count = if counts.is_null() { None } else { numbers(*counts.add(at), axes) };
                        (numbers(*starts.add(at), axes), count)
                    };
                    limits.check(start, Some(count.unwrap_or(&ones)), None, &mut elements.regions)?;
                }
            }
        }
        Ok(elements)
    }
}

/// Numbers as PnetCDF has them.
fn offsets(numbers: &[u64]) -> Vec<Offset> {
    numbers.iter().map(|&number| Offset::try_from(number).unwrap_or(Offset::MAX)).collect()
}

/// So many numbers, if there are any.
///
/// # Safety
/// `from` is null or leads to as many, which stay as they are.
unsafe fn numbers<'a>(from: *const Offset, count: usize) -> Option<&'a [Offset]> {
    // SAFETY: the caller's promise.
    if from.is_null() { None } else { Some(unsafe { std::slice::from_raw_parts(from, count) }) }
}

/// What regions are checked against.
struct Limits<'a> {
    extents: &'a [u64],
    /// Later records than there are may be meant.
    is_open: bool,
    /// First element and number of elements along each axis of the region that is checked.
    first: Vec<u64>,
    counts: Vec<u64>,
}

impl Limits<'_> {
    /// Checks a region in the order in which PnetCDF does (`check_start_count_stride` in `dispatchers/var_getput.m4`), and
    /// adds it to `regions`.
    fn check(
        &mut self,
        start: Option<&[Offset]>,
        count: Option<&[Offset]>,
        stride: Option<&[Offset]>,
        regions: &mut Regions,
    ) -> Result<(), c_int> {
        let axes = self.extents.len();
        if axes == 0 {
            regions.push(&[], &[]);
            return Ok(());
        }
        // PnetCDF tells those who give none of coordinates and edges that are wrong.
        let start = start.ok_or(EINVALCOORDS)?;
        let may_grow = self.is_open;
        let is_open = |axis: usize| may_grow && axis == 0;
        // Without a look at the counts first: which error comes first must not depend on them.
        self.first.clear();
        for axis in 0..axes {
            let least = count.and_then(|count| u64::try_from(count[axis]).ok()).unwrap_or(1);
            let begin = u64::try_from(start[axis]).map_err(|_| EINVALCOORDS)?;
            let extent = self.extents[axis];
            if !is_open(axis) && begin >= extent && !(begin == extent && least == 0) {
                return Err(EINVALCOORDS);
            }
            self.first.push(begin);
        }
        let count = count.ok_or(EEDGE)?;
        self.counts.clear();
        for axis in 0..axes {
            let n = u64::try_from(count[axis]).map_err(|_| ENEGATIVECNT)?;
            let stride = stride.map_or(1, |stride| stride[axis]);
            let stride = u64::try_from(stride).ok().filter(|&stride| stride > 0).ok_or(ESTRIDE)?;
            let span = if n == 0 { Some(0) } else { (n - 1).checked_mul(stride).and_then(|span| span.checked_add(1)) };
            let end = span.and_then(|span| self.first[axis].checked_add(span)).ok_or(EEDGE)?;
            if !is_open(axis) && end > self.extents[axis] {
                return Err(EEDGE);
            }
            self.counts.push(n);
        }
        regions.push(&self.first, &self.counts);
        Ok(())
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
    ) -> Result<Elements, c_int> {
        let memory = Memory { buffer: std::ptr::null_mut(), kind: Kind::Typed(Element::F32) };
        let shape = Shape::Part {
            start: start.as_ptr(),
            count: count.as_ptr(),
            stride: stride.as_ptr(),
            imap: std::ptr::null(),
        };
        // SAFETY: the arrays have two numbers each.
        unsafe { Access { variable: 0, shape, memory }.elements(&variable(grows || records < 4), records, grows) }
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
