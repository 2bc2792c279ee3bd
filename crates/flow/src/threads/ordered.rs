//! Pieces of work done by several threads, whose results are handed on in order by the calling one. What is under way is
//! bounded, and free of deadlock. Pieces are taken in order, too.
//!
//! [`in_order`] serves writers of files: the calling thread writes and does nothing else.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::threads::engine::Engine;
use knarr_array::error::{Error, ErrorKind, Result};

/// How much is done at a time.
pub struct Schedule<'a> {
    /// Who may interrupt.
    pub engine: &'a Engine,
    /// Threads that are started for the first lane.
    pub jobs: usize,
    /// Threads of each further lane, of which there are none where all pieces are done by the same threads.
    pub extra_lanes: &'a [usize],
    /// What may be under way; the piece that is handed on next always may.
    pub window: u64,
    /// Number of pieces.
    pub total: u64,
}

/// What is known of a piece before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// What it takes while it is under way.
    pub size: u64,
    /// Whose threads do it: 0, or 1 and more for those that are [`Schedule::extra_lanes`]. Each lane takes its pieces in order, and
    /// none waits for another one as long as the window has room.
    pub lane: usize,
}

impl Piece {
    /// A piece of the first lane.
    pub fn of(size: u64) -> Self {
        Self { size, lane: 0 }
    }
}

/// Calls `work` for every number below the total on worker threads, each with a state of its own, and `hand_on` with
/// the results, in the order of the numbers whatever order they come in. The window is in bytes: from the piece that is
/// handed on next to the last one that is under way.
///
/// # Errors
/// The first error of `work` that is heard of or of `hand_on`, or `Interrupted`; `Unsupported` if no thread can be
/// started.
pub fn in_order<S: Default, T: Send>(
    order: Schedule<'_>,
    piece_of: impl Fn(u64) -> Piece + Sync,
    work: impl Fn(&mut S, u64) -> Result<T> + Sync,
    mut hand_on: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let order = Schedule { jobs: order.jobs.max(1), ..order };
    let engine = order.engine;
    let desk = OrderedQueue::new(order.window, order.total, 1 + order.extra_lanes.len());
    let work = |state: &mut S, number| engine.check_cancelled().and_then(|()| work(state, number));
    std::thread::scope(|scope| {
        // Whatever happens here, no worker may wait for what will not come.
        let _open = Open(&desk);
        let (desk, work, piece_of) = (&desk, &work, &piece_of);
        for (lane, &threads) in std::iter::once(&order.jobs).chain(order.extra_lanes).enumerate() {
            for number in 0..threads {
                let worker = move || {
                    let _at_work = AtWork(desk);
                    let mut state = S::default();
                    while let Some(number) = desk.claim(lane, piece_of) {
                        desk.put(number, work(&mut state, number));
                    }
                };
                desk.lock().workers += 1;
                if let Err(error) = std::thread::Builder::new().name("knarr".to_owned()).spawn_scoped(scope, worker) {
                    desk.lock().workers -= 1;
                    // Nobody else does the pieces of the lane.
                    if number == 0 {
                        let what = format!("no thread can be started: {error}");
                        return Err(Error::new(ErrorKind::Unsupported, what).hint("raise the limit on processes"));
                    }
                    break;
                }
            }
        }
        while let Some((number, done)) = desk.next()? {
            hand_on(done)?;
            desk.handed_on(number, piece_of(number).size);
        }
        Ok(())
    })
}

/// Where workers put their results, and where the calling thread takes them. Each waits only for what it needs: a worker
/// for room, the caller for the piece that is next. A channel would wake the caller for every piece, on the processor
/// of a worker that still holds the channel's lock.
struct OrderedQueue<T> {
    state: Mutex<State<T>>,
    /// The next piece is there, or none will come.
    ready: Condvar,
    /// There is room, or the next piece is another one.
    room: Condvar,
    capacity: u64,
    total: u64,
}

struct State<T> {
    /// How much was handed on.
    handed_on: u64,
    /// What each lane claims next, and the number of the piece that is handed on next.
    unclaimed: Vec<Unclaimed>,
    next: u64,
    done: BTreeMap<u64, T>,
    failed: Option<Error>,
    workers: usize,
    closed: bool,
}

/// The piece that a lane looks at next.
#[derive(Clone, Copy, Default)]
struct Unclaimed {
    number: u64,
    /// How much the pieces before it are, of all lanes.
    before: u64,
}

/// What comes of looking for a piece.
enum Claim {
    Piece(u64),
    /// There is one, and no room for it yet.
    NoRoom,
    NoneLeft,
}

impl<T> OrderedQueue<T> {
    fn new(capacity: u64, total: u64, lanes: usize) -> Self {
        let unclaimed = vec![Unclaimed::default(); lanes];
        let (handed_on, next, done) = (0, 0, BTreeMap::new());
        let state = State { handed_on, unclaimed, next, done, failed: None, workers: 0, closed: false };
        let (ready, room) = (Condvar::new(), Condvar::new());
        Self { state: Mutex::new(state), ready, room, capacity, total }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece of a lane for a worker, which waits until it may start; none if there is none left or the desk is closed.
    fn claim(&self, lane: usize, piece_of: &impl Fn(u64) -> Piece) -> Option<u64> {
        let mut state = self.lock();
        while !state.closed {
            match self.claim_from(&mut state, lane, piece_of) {
                Claim::Piece(number) => return Some(number),
                Claim::NoneLeft => return None,
                Claim::NoRoom => state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
        None
    }

    /// The next piece of a lane, if it may start now; the one that is handed on next always may.
    fn claim_from(&self, state: &mut State<T>, lane: usize, piece_of: &impl Fn(u64) -> Piece) -> Claim {
        let (next, handed_on) = (state.next, state.handed_on);
        let Some(at) = state.unclaimed.get_mut(lane) else { return Claim::NoneLeft };
        while at.number < self.total {
            let Piece { size, lane: its } = piece_of(at.number);
            let (number, end) = (at.number, at.before.saturating_add(size));
            if its == lane && number != next && end.saturating_sub(handed_on) > self.capacity {
                return Claim::NoRoom;
            }
            *at = Unclaimed { number: number + 1, before: end };
            if its == lane {
                return Claim::Piece(number);
            }
        }
        Claim::NoneLeft
    }

    fn put(&self, number: u64, done: Result<T>) {
        let has_failed = done.is_err();
        let mut state = self.lock();
        let wakes = has_failed || number == state.next;
        match done {
            Ok(done) => drop(state.done.insert(number, done)),
            Err(error) => drop(state.failed.get_or_insert(error)),
        }
        drop(state);
        if wakes {
            self.ready.notify_one();
        }
    }

    /// What the calling thread hands on next, with its number; none at the end, or if no worker is left to bring it.
    fn next(&self) -> Result<Option<(u64, T)>> {
        let mut state = self.lock();
        loop {
            if let Some(error) = state.failed.take() {
                return Err(error);
            }
            let number = state.next;
            if let Some(done) = state.done.remove(&number) {
                return Ok(Some((number, done)));
            }
            if number == self.total || state.workers == 0 {
                return Ok(None);
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn handed_on(&self, number: u64, size: u64) {
        let mut state = self.lock();
        state.handed_on = state.handed_on.saturating_add(size);
        state.next = number + 1;
        drop(state);
        self.room.notify_all();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.room.notify_all();
    }
}

/// A worker, as long as it runs. One that panics takes its piece along, so the others must not wait for room.
struct AtWork<'a, T>(&'a OrderedQueue<T>);

impl<T> Drop for AtWork<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
        self.0.lock().workers -= 1;
        self.0.ready.notify_one();
    }
}

/// Closes the desk in the end.
struct Open<'a, T>(&'a OrderedQueue<T>);

impl<T> Drop for Open<'_, T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use knarr_codec::codec::CodecList;

    fn engine() -> Engine {
        Engine::new(CodecList::pure())
    }

    fn order(engine: &Engine, jobs: usize, window: u64, total: u64) -> Schedule<'_> {
        Schedule { engine, jobs, extra_lanes: &[], window, total }
    }

    /// Some take longer than those that follow.
    fn uneven(number: u64) {
        std::thread::sleep(Duration::from_micros(number * 7919 % 300));
    }

    #[test]
    fn results_are_handed_on_in_order_and_no_more_is_under_way_than_the_window_holds() {
        let engine = engine();
        // Even where the window is smaller than a piece, one is under way.
        for (jobs, window) in [(1, 0), (1, 100), (4, 0), (4, 25), (4, 1000), (0, 100)] {
            let under_way = AtomicU64::new(0);
            let mut seen = Vec::new();
            in_order(
                order(&engine, jobs, window, 200),
                |_| Piece::of(10),
                |_: &mut (), number| {
                    let now = under_way.fetch_add(10, Ordering::SeqCst) + 10;
                    assert!(now <= window.max(10) + 10, "{now} bytes with a window of {window}");
                    uneven(number);
                    Ok(number)
                },
                |number| {
                    under_way.fetch_sub(10, Ordering::SeqCst);
                    seen.push(number);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(seen, (0..200).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_of_either_side_ends_it_with_workers_that_wait_for_room() {
        let engine = engine();
        let failing = |at: u64, at_work: bool| {
            let mut seen = 0;
            let result = in_order(
                order(&engine, 4, 20, 1000),
                |_| Piece::of(10),
                |_: &mut (), number| {
                    uneven(number);
                    if at_work && number == at { Err(Error::usage("no")) } else { Ok(number) }
                },
                |number| {
                    seen = number + 1;
                    if number == at { Err(Error::usage("no")) } else { Ok(()) }
                },
            );
            (result.unwrap_err().to_string(), seen)
        };
        for at in [0, 1, 50] {
            assert_eq!(failing(at, false), ("no".to_owned(), at + 1));
            let (error, seen) = failing(at, true);
            assert!(error == "no" && seen <= at, "{error}, {seen} of {at}");
        }
    }

    #[test]
    fn lanes_go_on_beside_each_other_within_the_window() {
        let engine = engine();
        // The second lane has long runs of pieces; the third one's last piece is the last of all.
        let lane_of = |number: u64| usize::from(number % 40 > 25) + 2 * usize::from(number == 199);
        for (extra_lanes, window) in [([1, 1, 1], 300), ([3, 1, 2], 0), ([2, 2, 2], 10_000)] {
            let (next, mut seen, far) = (AtomicU64::new(0), Vec::new(), AtomicU64::new(0));
            in_order(
                Schedule { extra_lanes: &extra_lanes, ..order(&engine, 2, window, 200) },
                |number| Piece { size: 10, lane: lane_of(number) },
                |lane: &mut Option<usize>, number| {
                    assert_eq!(*lane.get_or_insert(lane_of(number)), lane_of(number), "a thread serves one lane");
                    let ahead = number - next.load(Ordering::SeqCst);
                    assert!(ahead * 10 <= window, "{ahead} pieces ahead with a window of {window}");
                    far.fetch_max(ahead, Ordering::SeqCst);
                    uneven(number);
                    Ok(number)
                },
                |number| {
                    seen.push(number);
                    next.store(number + 1, Ordering::SeqCst);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(seen, (0..200).collect::<Vec<_>>());
            // The first lane has 26 pieces in a row; the second one does not wait for them.
            assert!(window < 300 || far.into_inner() >= 10, "lanes wait for each other");
        }
    }

    #[test]
    fn an_interrupt_ends_it() {
        let engine = engine();
        let result = in_order(
            order(&engine, 2, 100, u64::MAX),
            |_| Piece::of(10),
            |_: &mut (), number| Ok(number),
            |number| {
                engine.cancel.store(number > 20, Ordering::Relaxed);
                Ok(())
            },
        );
        assert_eq!(result.unwrap_err().kind(), knarr_array::error::ErrorKind::Interrupted);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_worker_that_panics_is_not_waited_for() {
        let engine = engine();
        let _ = in_order(
            order(&engine, 2, 20, 1000),
            |_| Piece::of(10),
            |_: &mut (), number| {
                assert!(number != 30, "broken");
                Ok(number)
            },
            |_| Ok(()),
        );
    }
}
