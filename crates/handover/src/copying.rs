//! Copying what puts have of the regions of a variable to where they are wanted. Many regions are read one after the other,
//! so nothing here takes memory of its own for each.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::fill;

use crate::gathered::{Beneath, Rank};
use crate::pattern::Answer;
use crate::put::{elements, span};
use crate::seen::Seen;
use crate::variable_puts::VariablePuts;
use crate::window::Window;

/// Elements that are wanted: from the first one along each axis on so many, at a distance.
#[derive(Clone, Copy)]
pub(crate) struct Lattice<'a> {
    pub(crate) start: &'a [u64],
    pub(crate) count: &'a [u64],
    /// Empty where all are 1.
    pub(crate) stride: &'a [u64],
}

impl Lattice<'_> {
    fn stride(&self, axis: usize) -> u64 {
        self.stride.get(axis).copied().unwrap_or(1)
    }

    /// The element with a number, row-major.
    pub(crate) fn element(&self, mut number: u64) -> Vec<u64> {
        let mut element = vec![0; self.count.len()];
        for axis in (0..self.count.len()).rev() {
            element[axis] = self.start[axis] + number % self.count[axis] * self.stride(axis);
            number /= self.count[axis];
        }
        element
    }
}

/// Elements along an axis that a box and what is wanted have both.
#[derive(Debug, Clone, Copy)]
struct Common {
    number: u64,
    /// Places along the axis among what is wanted, and in the box: the first one, and how far the next ones are.
    to: u64,
    to_step: u64,
    from: u64,
    from_step: u64,
}

/// Elements that begin at `start`, `count` of them, `stride` apart.
type Along = (u64, u64, u64);

/// What both have along an axis; `None` if that is nothing.
fn common(wanted: Along, put: Along) -> Option<Common> {
    let ((start, count, stride), (begin, number, step)) = (wanted, put);
    if stride == 1 && step == 1 {
        let (first, end) = (start.max(begin), (start + count).min(begin + number));
        return (first < end).then(|| Common {
            number: end - first,
            to: first - start,
            to_step: 1,
            from: first - begin,
            from_step: 1,
        });
    }
    let apart = gcd(stride, step);
    let (to_step, from_step) = (step / apart, stride / apart);
    // The first that is wanted and not in front of the box: one of the next few is an element of the box, or none is.
    let first = begin.saturating_sub(start).div_ceil(stride);
    let behind = begin + span(number, step);
    let to = (first..count.min(first.saturating_add(to_step)))
        .take_while(|to| start + to * stride < behind)
        .find(|to| (start + to * stride - begin) % step == 0)?;
    let from = (start + to * stride - begin) / step;
    let number = (count - to).div_ceil(to_step).min((number - from).div_ceil(from_step));
    Some(Common { number, to, to_step, from, from_step })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// An axis over which runs lie apart: how many, how far the next one is among what is wanted and in the box, and which one it
/// is at the moment.
#[derive(Debug, Clone, Copy)]
struct Outer {
    number: u64,
    to: u64,
    from: u64,
    at: u64,
}

/// Runs of bytes that are copied. They are alike, and equally far apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    /// Twice the number of the rank, and 1 more for its second file of values.
    file: usize,
    /// The first byte of the first run there, and where it is wanted.
    from: u64,
    to: usize,
    /// Bytes of a run.
    len: usize,
    runs: u64,
    /// How far the next run is.
    from_step: u64,
    to_step: usize,
}

/// The files of values of all ranks.
pub(crate) struct Source<'g> {
    ranks: &'g [Rank],
    /// Of each file.
    windows: Vec<Window>,
    /// Runs that lie close together, with what is between them.
    close: Vec<u8>,
}

/// Runs with gaps of so many bytes, at most, are read together.
const CLOSE: u64 = 4096;
/// Bytes that are read together then.
const AT_ONCE: u64 = 1 << 18;

/// Copies runs of `len` bytes that are `from_step` bytes apart to places that are `to_step` bytes apart.
fn spread(from: &[u8], from_step: usize, to: &mut [u8], to_step: usize, len: usize) {
    /// Of a length that the compiler knows.
    fn of<const N: usize>(from: &[u8], from_step: usize, to: &mut [u8], to_step: usize) {
        for (from, to) in from.chunks(from_step).zip(to.chunks_mut(to_step)) {
            if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
                *to = *from;
            }
        }
    }
    match len {
        1 => of::<1>(from, from_step, to, to_step),
        2 => of::<2>(from, from_step, to, to_step),
        4 => of::<4>(from, from_step, to, to_step),
        8 => of::<8>(from, from_step, to, to_step),
        _ => {
            for (from, to) in from.chunks(from_step).zip(to.chunks_mut(to_step)) {
                if let (Some(from), Some(to)) = (from.get(..len), to.get_mut(..len)) {
                    to.copy_from_slice(from);
                }
            }
        }
    }
}

impl<'g> Source<'g> {
    pub(crate) fn new(ranks: &'g [Rank]) -> Self {
        let mut windows = Vec::new();
        windows.resize_with(2 * ranks.len(), Window::default);
        Self { ranks, windows, close: Vec::new() }
    }

    fn read(&mut self, one: Move, out: &mut [u8]) -> Result<()> {
        let Move { file, from, to, len, runs, from_step, to_step } = one;
        let values = self.ranks.get(file / 2).and_then(|rank| rank.values(file % 2));
        let (values, window) =
            values.zip(self.windows.get_mut(file)).ok_or_else(|| Error::internal("values in no file"))?;
        // Runs that lie close together come with what is between them.
        let gap = from_step.saturating_sub(len as u64);
        let at_once = if runs > 1 && gap <= CLOSE { (AT_ONCE / from_step.max(1)).max(1) } else { 1 };
        let (mut from, mut to, mut left) = (from, to, runs);
        while left > 0 {
            let here = left.min(at_once);
            let place = out.get_mut(to..).ok_or_else(|| Error::internal("a region of more elements than it has"))?;
            let read = if here == 1 {
                let place = place.get_mut(..len).unwrap_or_default();
                window.read(&values.file, values.length, from, place)
            } else {
                let bytes = usize::try_from((here - 1) * from_step).unwrap_or(usize::MAX).saturating_add(len);
                self.close.resize(bytes, 0);
                let read = FileExt::read_exact_at(&values.file, &mut self.close, from);
                let from_step = usize::try_from(from_step).unwrap_or(usize::MAX);
                spread(&self.close, from_step, place, to_step, len);
                read
            };
            read.map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => Error::corrupt("the file became shorter while it was read"),
                _ => Error::new(ErrorKind::Read, error.to_string()),
            })?;
            left -= here;
            from += here * from_step;
            to = to.saturating_add(usize::try_from(here).unwrap_or(usize::MAX).saturating_mul(to_step));
        }
        Ok(())
    }

    /// Fills `out` with what the same question had as its answer before.
    ///
    /// # Errors
    /// `Read`; `Corrupt` if the values became shorter.
    pub(crate) fn replay(&mut self, answer: &Answer, beneath: Beneath<'_>, out: &mut [u8]) -> Result<()> {
        match beneath {
            Beneath::Fill(element) if answer.fills => fill(out, element),
            _ => {}
        }
        answer.moves.iter().try_for_each(|&one| self.read(one, out))
    }
}

/// Copies regions of one variable.
pub(crate) struct Copying<'g> {
    source: Source<'g>,
    puts: &'g VariablePuts,
    /// Number and place of each box that meets the region.
    near: Vec<(u32, u32)>,
    end: Vec<u64>,
    both: Vec<Common>,
    outer: Vec<Outer>,
    seen: Seen,
}

impl<'g> Copying<'g> {
    pub(crate) fn new(ranks: &'g [Rank], puts: &'g VariablePuts) -> Self {
        let (near, end, both, outer) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { source: Source::new(ranks), puts, near, end, both, outer, seen: Seen::default() }
    }

    /// Boxes whose extents meet what is wanted, the earliest first.
    fn look(&mut self, wanted: Lattice<'_>) {
        let Self { puts, near, end, .. } = self;
        near.clear();
        end.clear();
        end.extend(
            (0..wanted.count.len()).map(|axis| wanted.start[axis] + span(wanted.count[axis], wanted.stride(axis))),
        );
        if !wanted.count.contains(&0) {
            puts.boxes.meeting(wanted.start, end, |number, place| near.push((number, place)));
        }
        near.sort_unstable();
    }

    /// True if some of the elements were put.
    pub(crate) fn is_any_put(&mut self, wanted: Lattice<'_>) -> bool {
        self.look(wanted);
        (0..self.near.len()).any(|at| self.meet(wanted, self.near[at]))
    }

    /// Fills the bytes `here` of `out`, which are just the room, with the elements wanted. Returns the number of the first one
    /// that was not put, if there is no fill value. What was done is added to `answer`.
    ///
    /// # Errors
    /// `Read`; `Corrupt` for puts that make no sense.
    pub(crate) fn copy(
        &mut self,
        wanted: Lattice<'_>,
        beneath: Beneath<'_>,
        out: &mut [u8],
        here: Range<usize>,
        mut answer: Option<&mut Answer>,
    ) -> Result<Option<u64>> {
        if !self.puts.has_axes(wanted.count.len()) {
            return Err(Error::corrupt("puts of another number of axes than the variable has"));
        }
        self.look(wanted);
        let covers = |&(number, place): &(u32, u32)| {
            let ((start, end), of) = (self.puts.boxes.at(place), self.puts.of(number));
            let mut axes = start.iter().zip(end).zip(wanted.start.iter().zip(&self.end));
            axes.all(|((begin, end), (first, behind))| begin <= first && behind <= end)
                && of.is_some_and(|(put, _)| put.is_dense())
        };
        // What lies beneath a box that covers all is not seen.
        let covering = self.near.iter().rposition(covers);
        let is_traced = covering.is_none() && matches!(beneath, Beneath::Nothing(_));
        if is_traced {
            self.seen.begin(elements(wanted.count));
        }
        if let (None, Beneath::Fill(element)) = (covering, beneath) {
            let place =
                out.get_mut(here.clone()).ok_or_else(|| Error::internal("a region of more elements than it has"))?;
            fill(place, element);
            answer.as_deref_mut().into_iter().for_each(|answer| answer.fills = true);
        }
        for at in covering.unwrap_or(0)..self.near.len() {
            let near = self.near[at];
            if self.meet(wanted, near) {
                let size = beneath.size();
                self.moves(wanted, near, size, |source, seen, one, (to, run, step)| {
                    if is_traced {
                        (0..one.runs).for_each(|number| seen.put(to + number * step, run));
                    }
                    let one = Move { to: here.start.saturating_add(one.to), ..one };
                    answer.as_deref_mut().into_iter().for_each(|answer| answer.moves.push(one));
                    source.read(one, out)
                })?;
            }
        }
        Ok(if is_traced { self.seen.first_missing() } else { None })
    }

    /// Finds what a box has of the elements wanted. False if that is nothing.
    fn meet(&mut self, wanted: Lattice<'_>, (number, place): (u32, u32)) -> bool {
        let ((start, end), of) = (self.puts.boxes.at(place), self.puts.of(number));
        let Some((put, _)) = of else { return false };
        self.both.clear();
        for axis in 0..start.len() {
            let (count, stride) = put.along(axis, end[axis] - start[axis]);
            let is_wanted = (wanted.start[axis], wanted.count[axis], wanted.stride(axis));
            match common(is_wanted, (start[axis], count, stride)) {
                Some(both) => self.both.push(both),
                None => return false,
            }
        }
        true
    }

    /// Calls `each` for the elements that [`Copying::meet`] has found, run by run: how they are copied to the beginning of what
    /// is wanted, and the number of the first element of the first run, the elements of a run, and how far the next run is.
    ///
    /// # Errors
    /// `Corrupt` for a put of elements of another size; those of `each`.
    fn moves(
        &mut self,
        wanted: Lattice<'_>,
        (number, place): (u32, u32),
        size: usize,
        mut each: impl FnMut(&mut Source<'g>, &mut Seen, Move, (u64, u64, u64)) -> Result<()>,
    ) -> Result<()> {
        let Self { source, puts, both, outer, seen, .. } = self;
        let ((start, end), of) = (puts.boxes.at(place), puts.of(number));
        let (put, offset) = of.ok_or_else(|| Error::internal("a box of no put"))?;
        if put.size != size {
            return Err(Error::corrupt("a put of elements of another size"));
        }
        let rank = source.ranks.get(put.rank).ok_or_else(|| Error::internal("values of no rank"))?;
        let (file, begin) = rank.place(offset);
        let file = 2 * put.rank + file;
        // In elements: how far one along an axis is from the next, where it is wanted and in the box, from the last axis on.
        let (mut far_to, mut far_from, mut run) = (1, 1, 1);
        let (mut to, mut from) = (0, 0);
        outer.clear();
        for axis in (0..both.len()).rev() {
            let both = both[axis];
            to += both.to * far_to;
            from += both.from * far_from;
            let (step_to, step_from) = (both.to_step * far_to, both.from_step * far_from);
            if outer.is_empty() && (both.number == 1 || step_to == run && step_from == run) {
                run *= both.number;
            } else if both.number > 1 {
                outer.push(Outer { number: both.number, to: step_to, from: step_from, at: 0 });
            }
            far_to *= wanted.count[axis];
            far_from *= put.along(axis, end[axis] - start[axis]).0;
        }
        // The runs of the innermost axis are one move.
        let inner = outer.first().copied().unwrap_or(Outer { number: 1, to: 0, from: 0, at: 0 });
        let outer = outer.get_mut(1..).unwrap_or_default();
        let bytes = |elements: u64| usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(size);
        loop {
            let one = Move {
                file,
                from: begin + from * size as u64,
                to: bytes(to),
                len: bytes(run),
                runs: inner.number,
                from_step: inner.from * size as u64,
                to_step: bytes(inner.to),
            };
            each(source, seen, one, (to, run, inner.to))?;
            // The next ones, as an odometer goes.
            let Some(turned) = outer.iter().position(|outer| outer.at + 1 < outer.number) else { return Ok(()) };
            for outer in &mut outer[..turned] {
                to -= outer.at * outer.to;
                from -= outer.at * outer.from;
                outer.at = 0;
            }
            let outer = &mut outer[turned];
            outer.at += 1;
            to += outer.to;
            from += outer.from;
        }
    }
}
