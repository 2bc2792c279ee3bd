//! Copying from the files of values of all ranks, on this node and on others.

use knarr_array::error::{Error, Result};
use knarr_array::region::fill;

use crate::gather::moves::{Answer, Beneath};
use crate::gather::rank_values::{Rank, Values, read_error};
use crate::gather::runs::Move;
use crate::gather::window::Window;
use crate::remote::asking::{Asking, Part, in_order};
use crate::remote::remote_values::Of;

/// Runs with gaps of so many bytes, at most, are read together, so many bytes at once.
const GAP: u64 = 4096;
const AT_ONCE: u64 = 1 << 18;

/// The files of values of all ranks.
pub(crate) struct Source<'g> {
    ranks: &'g [Rank],
    /// Of each file.
    windows: Vec<Window>,
    /// Runs that lie close together, with what is between them.
    close: Vec<u8>,
    /// What the values are, if it is known.
    of: Option<Of>,
    /// Moves wait if some of the values are on other nodes.
    asking: Option<Asking>,
}

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
    /// Of the values of one variable, if it is known which.
    pub(crate) fn new(ranks: &'g [Rank], of: Option<Of>) -> Self {
        let mut windows = Vec::new();
        windows.resize_with(2 * ranks.len(), Window::default);
        let asking = ranks.iter().any(Rank::is_remote).then(Asking::default);
        Self { ranks, windows, close: Vec::new(), of, asking }
    }

    /// Where the values of a rank lie that begin at an offset: the file, as in a [`Move`], and the byte there.
    pub(crate) fn place(&self, rank: usize, offset: u64) -> Option<(usize, u64)> {
        let (file, begin) = self.ranks.get(rank)?.place(offset);
        Some((2 * rank + file, begin))
    }

    /// Checks that a move leads from bytes that are there to some of `bytes` bytes, each of them once.
    ///
    /// # Errors
    /// `Usage`.
    pub(crate) fn check(&self, one: Move, bytes: usize) -> Result<()> {
        let Move { file, from, to, len, runs, from_step, to_step } = one;
        let end = |first: u64, step: u64| {
            let last = runs.checked_sub(1)?.checked_mul(step)?.checked_add(first)?;
            last.checked_add(len as u64)
        };
        let is_there =
            values(self.ranks, file).zip(end(from, from_step)).is_some_and(|(values, end)| end <= values.length);
        let has_room = end(to as u64, to_step as u64).is_some_and(|end| end <= bytes as u64);
        let is_apart = runs == 1 || to_step >= len && from_step >= len as u64;
        if is_there && has_room && is_apart && len > 0 {
            Ok(())
        } else {
            Err(Error::usage("a move that leads nowhere"))
        }
    }

    /// Copies from the files to `out`, which is the same for all moves. Moves may wait for [`Source::finish`].
    ///
    /// # Errors
    /// `Read`; `Corrupt` if the values became shorter; those of links.
    pub(crate) fn read(&mut self, one: Move, out: &mut [u8]) -> Result<()> {
        let Some(asking) = &mut self.asking else { return self.copy(one, out) };
        if asking.push(one) { self.finish(out) } else { Ok(()) }
    }

    /// Makes the moves that wait.
    ///
    /// # Errors
    /// As for [`Source::read`].
    pub(crate) fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        let Some(pieces) = self.asking.as_mut().map(Asking::take) else { return Ok(()) };
        let (ranks, of) = (self.ranks, self.of);
        let remote = |part: &Part| match values(ranks, part.file).and_then(Values::remote) {
            Some(remote) => remote.ask(&part.runs, part.bytes, of),
            None => Ok(Vec::new()),
        };
        in_order(&pieces, remote, |piece, found| {
            let mut left: Vec<&[u8]> = found.iter().map(Vec::as_slice).collect();
            for &(part, one) in &piece.moves {
                if values(ranks, one.file).is_some_and(|values| values.remote().is_none()) {
                    self.copy(one, out)?;
                    continue;
                }
                let left = left.get_mut(part).ok_or_else(|| Error::internal("values that were not asked for"))?;
                let count = usize::try_from(one.bytes()).unwrap_or(usize::MAX);
                let parts = left.split_at_checked(count);
                let (here, rest) = parts.ok_or_else(|| Error::internal("fewer bytes than were asked for"))?;
                let (_, end) = one.run(one.runs.saturating_sub(1));
                let place = out.get_mut(one.to..end.saturating_add(one.len)).ok_or_else(too_many)?;
                spread(here, one.len, place, one.to_step.max(one.len), one.len);
                *left = rest;
            }
            Ok(())
        })
    }

    /// Copies from a file of this node.
    fn copy(&mut self, one: Move, out: &mut [u8]) -> Result<()> {
        let Move { file, from, to, len, runs, from_step, to_step } = one;
        let (values, window) = values(self.ranks, file)
            .zip(self.windows.get_mut(file))
            .ok_or_else(|| Error::internal("values in no file"))?;
        // Runs that lie close together come with what is between them.
        let gap = from_step.saturating_sub(len as u64);
        let at_once = if runs > 1 && gap <= GAP { (AT_ONCE / from_step.max(1)).max(1) } else { 1 };
        let (mut from, mut to, mut left) = (from, to, runs);
        while left > 0 {
            let here = left.min(at_once);
            // From the first run to the last one, here and there.
            let apart = usize::try_from(here - 1).unwrap_or(usize::MAX);
            let end = to.saturating_add(apart.saturating_mul(to_step)).saturating_add(len);
            let place = out.get_mut(to..end).ok_or_else(too_many)?;
            let read = if here == 1 {
                window.read(values, from, place)
            } else {
                let bytes = usize::try_from((here - 1) * from_step).unwrap_or(usize::MAX).saturating_add(len);
                self.close.resize(bytes, 0);
                let read = values.read_exact_at(&mut self.close, from);
                let from_step = usize::try_from(from_step).unwrap_or(usize::MAX);
                spread(&self.close, from_step, place, to_step, len);
                read
            };
            read.map_err(|error| read_error(&error))?;
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
        answer.moves.iter().try_for_each(|&one| self.read(one, out))?;
        self.finish(out)
    }
}

/// A file of values, as in a [`Move`].
fn values(ranks: &[Rank], file: usize) -> Option<&Values> {
    ranks.get(file / 2)?.values(file % 2)
}

fn too_many() -> Error {
    Error::internal("a region of more elements than it has")
}
