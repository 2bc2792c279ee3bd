//! Which of writes that overlap counts.
//!
//! Writing needs no messages: each rank counts the collective calls in the file, which are the same on all ranks. Of writes that
//! overlap, that after more of them counts, however late a rank is with an earlier one. Of independent writes between the same
//! calls, on one node the later one counts, by a clock that its processes share; nodes share none. Then that of the higher rank
//! counts, then the later one of a rank. HDF5 promises no more of writes without a collective call between them. In atomic mode
//! it does: then the clock of the one node counts, or the node that makes the file numbers the writes.

use std::ffi::c_int;

use knarr_array::error::{Error, Result};

/// How a call writes or reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parallel) enum How {
    Collective,
    Independent,
}

/// Writes after one collective call, at most, of ranks on several nodes.
const MOST: u64 = 1 << 32;
/// The same on one node: the time in units of [`TICK`], which is enough for 13 days.
const MOST_TICKS: u64 = 1 << 40;
/// Collective calls that are told apart there. After that many, the clock alone counts.
const MOST_CALLS: u64 = u64::MAX / MOST_TICKS;
/// Nanoseconds: shorter than a message between two ranks takes.
const TICK: u64 = 1 << 10;

/// What a rank knows of the order of writes in a file.
#[derive(Debug, Default)]
pub(in crate::parallel) struct Order {
    /// Number of collective calls. In atomic mode, as they were when that began.
    calls: u64,
    /// What the program asked for by `H5Fset_mpi_atomicity`.
    is_atomic: bool,
    /// From when on the clock counts, the same on all ranks. `None` if they are on several nodes.
    since: Option<u64>,
}

impl Order {
    /// Of a file whose ranks say that the clock of their node counts from `since` on; `None` if they are on several nodes.
    pub(in crate::parallel) fn new(since: Option<u64>) -> Self {
        Self { since, ..Self::default() }
    }

    /// A collective call begins.
    pub(in crate::parallel) fn calls(&mut self) {
        if !self.is_atomic {
            self.calls += 1;
        }
    }

    /// How many there were, the same on all ranks.
    pub(in crate::parallel) fn count(&self) -> u64 {
        self.calls
    }

    pub(in crate::parallel) fn is_atomic(&self) -> bool {
        self.is_atomic
    }

    /// Atomic mode begins or ends, by a collective call.
    pub(in crate::parallel) fn set_atomic(&mut self, is_atomic: bool) {
        self.calls += 1;
        self.is_atomic = is_atomic;
    }

    /// The number of a write. `next` gives one that is larger than all that any rank got for writes that have ended.
    ///
    /// # Errors
    /// Those of `next`; `Unsupported` if that gives too large a number.
    pub(in crate::parallel) fn number(&self, how: How, next: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let behind = match (how, self.since) {
            (How::Collective, _) if !self.is_atomic => 0,
            (_, Some(since)) => (1 + now().saturating_sub(since) / TICK).min(MOST_TICKS - 1),
            (_, None) if self.is_atomic => next().and_then(|next| {
                let most = || Error::unsupported("more than 4 billion writes in atomic mode");
                if next < MOST { Ok(next) } else { Err(most()) }
            })?,
            (_, None) => 1,
        };
        Ok(self.first().saturating_add(behind))
    }

    /// The number of a collective write of this call.
    fn first(&self) -> u64 {
        match self.since {
            Some(_) => self.calls.min(MOST_CALLS).saturating_mul(MOST_TICKS),
            None => self.calls.saturating_mul(MOST),
        }
    }

    /// The number of the last write that a read sees. Other ranks may be ahead of a collective one.
    pub(in crate::parallel) fn seen(&self, how: How) -> u64 {
        match how {
            How::Collective if !self.is_atomic => self.first(),
            _ => u64::MAX,
        }
    }
}

/// The time by a clock that all processes of a node share, in nanoseconds.
pub(in crate::parallel) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is a place for the result.
    let code: c_int = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    debug_assert_eq!(code, 0);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(order: &Order, how: How) -> u64 {
        order.number(how, || Err(Error::internal("nobody is to be asked"))).unwrap()
    }

    #[test]
    fn collective_calls_order_writes() {
        let mut order = Order::default();
        let mut numbers = vec![number(&order, How::Independent)];
        for _ in 0..3 {
            order.calls();
            numbers.extend([number(&order, How::Collective), number(&order, How::Independent)]);
        }
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        // A collective read sees what was written before, and nothing that is written after it.
        order.calls();
        let seen = order.seen(How::Collective);
        assert!(numbers.iter().all(|number| *number < seen) && seen < number(&order, How::Independent));
        assert_eq!(order.seen(How::Independent), u64::MAX);
    }

    #[test]
    fn on_one_node_a_late_rank_does_not_change_the_order_of_collective_writes() {
        let since = now();
        let [mut ahead, mut behind] = [Order::new(Some(since)), Order::new(Some(since))];
        behind.calls();
        ahead.calls();
        let early = number(&ahead, How::Independent);
        ahead.calls();
        let second = number(&ahead, How::Collective);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let late = number(&behind, How::Collective);
        let later = number(&behind, How::Independent);
        assert!(late < early && early < later && later < second);
        // A collective read of the first call sees neither what came after it nor what comes with the next one.
        assert!(behind.seen(How::Collective) < early);
        // Of a file with very many calls, time alone counts.
        let of = |calls| Order { calls, ..Order::new(Some(since)) };
        let most = number(&of(MOST_CALLS), How::Independent);
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(most < number(&of(MOST_CALLS + 1), How::Independent));
    }

    #[test]
    fn writes_in_atomic_mode_have_the_order_of_their_numbers() {
        let (mut ahead, mut behind) = (Order::default(), Order::default());
        let before = number(&ahead, How::Independent);
        ahead.set_atomic(true);
        behind.set_atomic(true);
        // The one rank is ahead by a collective call.
        ahead.calls();
        let first = ahead.number(How::Independent, || Ok(7)).unwrap();
        let second = behind.number(How::Collective, || Ok(8)).unwrap();
        ahead.set_atomic(false);
        assert!(before < first && first < second && second < number(&ahead, How::Collective));
        assert!(!ahead.is_atomic() && behind.is_atomic());
    }
}
