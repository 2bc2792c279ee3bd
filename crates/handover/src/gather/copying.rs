//! Copying what puts have of the regions of a variable to where they are wanted. Many regions are read one after the other,
//! so nothing here takes memory of its own for each.

use std::ops::Range;

use knarr_array::error::{Error, Result};
use knarr_array::region::fill;

use crate::gather::moves::{Answer, Beneath};
use crate::gather::rank_values::Rank;
use crate::gather::runs::Move;
use crate::gather::seen::Seen;
use crate::gather::source::Source;
use crate::gather::variable_puts::VariablePuts;
use crate::log::put::{elements, span};
use crate::remote::remote_values::Of;

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

/// An axis over which runs lie apart: how many, how far the next one is among what is wanted and in the box, in bytes, and
/// which one it is at the moment.
#[derive(Debug, Clone, Copy)]
struct Outer {
    number: u64,
    to: u64,
    from: u64,
    at: u64,
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
    pub(crate) fn new(ranks: &'g [Rank], variable: usize, puts: &'g VariablePuts) -> Self {
        let (near, end, both, outer) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let of = Of { variable, dtype: puts.dtype() };
        Self { source: Source::new(ranks, Some(of)), puts, near, end, both, outer, seen: Seen::default() }
    }

    /// Makes the copies that wait for more of them.
    ///
    /// # Errors
    /// As for [`Copying::copy`].
    pub(crate) fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        self.source.finish(out)
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

    /// The place among those that are near of the last box that covers all: what lies beneath is not seen.
    fn covering(&self, wanted: Lattice<'_>) -> Option<usize> {
        self.near.iter().rposition(|&(number, place)| {
            let ((start, end), of) = (self.puts.boxes.at(place), self.puts.of(number));
            let mut axes = start.iter().zip(end).zip(wanted.start.iter().zip(&self.end));
            axes.all(|((begin, end), (first, behind))| begin <= first && behind <= end)
                && of.is_some_and(|(put, _)| put.is_dense())
        })
    }

    /// How [`Copying::copy`] copies the elements wanted, of so many bytes each, to memory that has just the room for them.
    ///
    /// # Errors
    /// `Corrupt` for puts that make no sense.
    pub(crate) fn plan(&mut self, wanted: Lattice<'_>, size: usize) -> Result<Answer> {
        self.look(wanted);
        let covering = self.covering(wanted);
        let mut answer = Answer { moves: Vec::new(), fills: covering.is_none() };
        for at in covering.unwrap_or(0)..self.near.len() {
            let near = self.near[at];
            if self.intersect(wanted, near) {
                self.moves(wanted, near, size, |_, _, one| {
                    answer.moves.push(one);
                    Ok(())
                })?;
            }
        }
        Ok(answer)
    }

    /// The ranks from which [`Copying::copy`] copies the elements wanted, in no order, some of them several times.
    pub(crate) fn ranks(&mut self, wanted: Lattice<'_>) -> Vec<usize> {
        self.look(wanted);
        let mut ranks = Vec::new();
        for at in self.covering(wanted).unwrap_or(0)..self.near.len() {
            let near = self.near[at];
            if self.intersect(wanted, near) {
                ranks.extend(self.puts.of(near.0).map(|(put, _)| put.rank));
            }
        }
        ranks
    }

    /// True if some of the elements were put.
    pub(crate) fn is_any_put(&mut self, wanted: Lattice<'_>) -> bool {
        self.look(wanted);
        (0..self.near.len()).any(|at| self.intersect(wanted, self.near[at]))
    }

    /// Fills the bytes `here` of `out`, which are just the room, with the elements wanted; some may wait for
    /// [`Copying::finish`]. Returns the number of the first one
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
        let covering = self.covering(wanted);
        let is_traced = covering.is_none() && matches!(beneath, Beneath::Nothing(_));
        // Elements are seen, or each of their bytes where puts have only some of them.
        let size = beneath.size() as u64;
        let (unit, units) = if self.puts.has_parts() { (1, size) } else { (size.max(1), 1) };
        if is_traced {
            self.seen.begin(elements(wanted.count).saturating_mul(units));
        }
        if let (None, Beneath::Fill(element)) = (covering, beneath) {
            let place =
                out.get_mut(here.clone()).ok_or_else(|| Error::internal("a region of more elements than it has"))?;
            fill(place, element);
            answer.as_deref_mut().into_iter().for_each(|answer| answer.fills = true);
        }
        for at in covering.unwrap_or(0)..self.near.len() {
            let near = self.near[at];
            if self.intersect(wanted, near) {
                self.moves(wanted, near, beneath.size(), |source, seen, one| {
                    if is_traced {
                        let run = |number| one.run(number).1 as u64 / unit;
                        (0..one.runs).for_each(|number| seen.put(run(number), one.len as u64 / unit));
                    }
                    let one = Move { to: here.start.saturating_add(one.to), ..one };
                    answer.as_deref_mut().into_iter().for_each(|answer| answer.moves.push(one));
                    source.read(one, out)
                })?;
            }
        }
        Ok(if is_traced { self.seen.first_missing().map(|missing| missing / units.max(1)) } else { None })
    }

    /// Finds what a box has of the elements wanted. False if that is nothing.
    fn intersect(&mut self, wanted: Lattice<'_>, (number, place): (u32, u32)) -> bool {
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

    /// Calls `each` for the elements that [`Copying::intersect`] has found, run by run: how they are copied to the beginning of what
    /// is wanted.
    ///
    /// # Errors
    /// `Corrupt` for a put of elements of another size; those of `each`.
    fn moves(
        &mut self,
        wanted: Lattice<'_>,
        (number, place): (u32, u32),
        size: usize,
        mut each: impl FnMut(&mut Source<'g>, &mut Seen, Move) -> Result<()>,
    ) -> Result<()> {
        let Self { source, puts, both, outer, seen, .. } = self;
        let ((start, end), of) = (puts.boxes.at(place), puts.of(number));
        let (put, offset) = of.ok_or_else(|| Error::internal("a box of no put"))?;
        if put.size != size {
            return Err(Error::corrupt("a put of elements of another size"));
        }
        let (file, begin) = source.place(put.rank, offset).ok_or_else(|| Error::internal("values of no rank"))?;
        for (to, from, run) in put.parts() {
            // In bytes: how far an element along an axis is from the next, where it is wanted and in the box, from the last
            // axis on. Elements of which all bytes were put follow each other, and make longer runs.
            let (mut far_to, mut far_from) = (size as u64, put.width);
            let (mut to, mut from, mut run) = (to, from, run);
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
            let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
            loop {
                let one = Move {
                    file,
                    from: begin + from,
                    to: bytes(to),
                    len: bytes(run),
                    runs: inner.number,
                    from_step: inner.from,
                    to_step: bytes(inner.to),
                };
                each(source, seen, one)?;
                // The next ones, as an odometer goes.
                let Some(turned) = outer.iter().position(|outer| outer.at + 1 < outer.number) else { break };
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
        Ok(())
    }
}
