//! Pieces of work done by several threads, whose results are handed on in order by the calling one. What is under way is
//! bounded, and free of deadlock. Pieces are taken in order, too.
//!
//! [`in_order`] serves writers of files: the calling thread writes and does nothing else. [`beside_caller`] serves code
//! inside a program, whose thread works as well, and whose pieces may depend on those before them ([`Turns`]).

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::engine::Engine;
use knarr_array::error::{Error, ErrorKind, Result};

/// How much is done at a time.
pub struct Schedule<'a> {
    /// Who may interrupt.
    pub engine: &'a Engine,
    /// Threads that are started for the first lane.
    pub jobs: usize,
    /// Threads of each further lane, of which there are none where all pieces are done by the same threads.
    pub beside: &'a [usize],
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
    /// Whose threads do it: 0, or 1 and more for those that are [`Schedule::beside`]. Each lane takes its pieces in order, and
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
    hand_on: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let order = Schedule { jobs: order.jobs.max(1), ..order };
    run(order, Caller::HandsOn, || (), piece_of, |state: &mut S, number, _: &Turns| work(state, number), hand_on)
}

/// As [`in_order`], but the calling thread works, too, while no result waits for it: `jobs` threads are beside it, or as
/// many as can be started. The window is in pieces, and exact: when a piece is taken, all have been handed on but the
/// last so many before it. `started` is called once the threads were started.
///
/// # Errors
/// As for [`in_order`].
pub fn beside_caller<T: Send>(
    order: Schedule<'_>,
    started: impl FnOnce(),
    work: impl Fn(u64, &Turns) -> Result<T> + Sync,
    hand_on: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    run(
        order,
        Caller::WorksToo,
        started,
        |_| Piece::of(1),
        |(): &mut (), number, turns: &Turns| work(number, turns),
        hand_on,
    )
}

/// What the calling thread does.
#[derive(Clone, Copy, PartialEq)]
enum Caller {
    HandsOn,
    WorksToo,
}

fn run<S: Default, T: Send>(
    order: Schedule<'_>,
    caller: Caller,
    started: impl FnOnce(),
    piece_of: impl Fn(u64) -> Piece + Sync,
    work: impl Fn(&mut S, u64, &Turns) -> Result<T> + Sync,
    mut hand_on: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let engine = order.engine;
    let desk = OrderedQueue::new(order.window, order.total, 1 + order.beside.len());
    let work = |state: &mut S, number| engine.check_cancelled().and_then(|()| work(state, number, &desk.turns));
    std::thread::scope(|scope| {
        // Whatever happens here, no worker may wait for what will not come.
        let _open = Open(&desk);
        let (desk, work, piece_of) = (&desk, &work, &piece_of);
        for (lane, &threads) in std::iter::once(&order.jobs).chain(order.beside).enumerate() {
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
                    if number == 0 && caller == Caller::HandsOn {
                        let what = format!("no thread can be started: {error}");
                        return Err(Error::new(ErrorKind::Unsupported, what).hint("raise the limit on processes"));
                    }
                    break;
                }
            }
        }
        started();
        let mut state = S::default();
        loop {
            match desk.next(caller, piece_of)? {
                Next::HandOn(number, done) => {
                    hand_on(done)?;
                    desk.handed_on(number, piece_of(number).size);
                }
                Next::Work(number) => desk.put(number, work(&mut state, number)),
                Next::End => return Ok(()),
            }
        }
    })
}

/// What the calling thread does next.
enum Next<T> {
    HandOn(u64, T),
    Work(u64),
    End,
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
    turns: Turns,
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
        let (ready, room, turns) = (Condvar::new(), Condvar::new(), Turns::default());
        Self { state: Mutex::new(state), ready, room, turns, capacity, total }
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
        if has_failed {
            self.turns.end();
        }
        if wakes {
            self.ready.notify_one();
        }
    }

    /// What the calling thread does next: it hands on before it works, for others wait for that. The end also if no
    /// worker is left to bring what is next.
    fn next(&self, caller: Caller, piece_of: &impl Fn(u64) -> Piece) -> Result<Next<T>> {
        let mut state = self.lock();
        loop {
            if let Some(error) = state.failed.take() {
                return Err(error);
            }
            let number = state.next;
            if let Some(done) = state.done.remove(&number) {
                return Ok(Next::HandOn(number, done));
            }
            if number == self.total {
                return Ok(Next::End);
            }
            if caller == Caller::WorksToo
                && let Claim::Piece(number) = self.claim_from(&mut state, 0, piece_of)
            {
                return Ok(Next::Work(number));
            }
            if state.workers == 0 {
                return Ok(Next::End);
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
        self.turns.end();
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

/// What of the work on pieces is done one after the other, in their order, whatever threads they are on.
#[derive(Default)]
pub struct Turns {
    state: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    /// Number of the piece whose turn it is.
    number: u64,
    over: bool,
}

impl Turns {
    /// Runs `work` of the piece `number` after that of all pieces before it, each of which must take its turn.
    ///
    /// # Errors
    /// Those of `work`; `Internal` if another piece failed, whose error is the one that counts.
    pub fn take<U>(&self, number: u64, work: impl FnOnce() -> Result<U>) -> Result<U> {
        let mut state = self.lock();
        while state.number != number && !state.over {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.over {
            return Err(Error::internal("work was stopped"));
        }
        drop(state);
        let result = work();
        self.lock().number += 1;
        self.changed.notify_all();
        result
    }

    fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        Schedule { engine, jobs, beside: &[], window, total }
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
        for (beside, window) in [([1, 1, 1], 300), ([3, 1, 2], 0), ([2, 2, 2], 10_000)] {
            let (next, mut seen, far) = (AtomicU64::new(0), Vec::new(), AtomicU64::new(0));
            in_order(
                Schedule { beside: &beside, ..order(&engine, 2, window, 200) },
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

    #[test]
    fn a_calling_thread_that_works_hands_on_in_order_with_any_number_of_others() {
        let engine = engine();
        for jobs in [0, 1, 7] {
            let (under_way, most, turns_taken) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(Vec::new()));
            let (mut seen, mut was_started) = (Vec::new(), false);
            let work = |number, turns: &Turns| {
                most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                turns.take(number, || {
                    turns_taken.lock().unwrap().push(number);
                    Ok(())
                })?;
                uneven(number);
                Ok(number)
            };
            let hand_on = |number| {
                under_way.fetch_sub(1, Ordering::SeqCst);
                seen.push(number);
                Ok(())
            };
            beside_caller(order(&engine, jobs, 5, 200), || was_started = true, work, hand_on).unwrap();
            let all: Vec<u64> = (0..200).collect();
            assert!(was_started && seen == all && *turns_taken.lock().unwrap() == all);
            assert!(most.into_inner() <= 5);
        }
    }

    #[test]
    fn a_piece_is_taken_after_all_but_the_window_were_handed_on() {
        let engine = engine();
        let handed = AtomicU64::new(0);
        let work = |number, _: &Turns| {
            assert!(number < handed.load(Ordering::SeqCst) + 4);
            uneven(number);
            Ok(())
        };
        let hand_on = |()| {
            handed.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        beside_caller(order(&engine, 4, 4, 300), || (), work, hand_on).unwrap();
    }

    #[test]
    fn pieces_are_under_way_at_the_same_time() {
        let engine = engine();
        let (begun, both) = (AtomicU64::new(0), Mutex::new(false));
        let work = |_, _: &Turns| {
            begun.fetch_add(1, Ordering::SeqCst);
            let begin = std::time::Instant::now();
            while begun.load(Ordering::SeqCst) < 2 && begin.elapsed().as_secs() < 60 {
                std::thread::yield_now();
            }
            *both.lock().unwrap() |= begun.load(Ordering::SeqCst) >= 2 && begin.elapsed().as_secs() < 60;
            Ok(())
        };
        beside_caller(order(&engine, 1, 2, 2), || (), work, |()| Ok(())).unwrap();
        assert!(both.into_inner().unwrap());
    }

    #[test]
    fn errors_and_panics_end_a_calling_thread_that_works() {
        let engine = engine();
        let fails = |at| move |number| if number == at { Err(Error::usage("no")) } else { Ok(number) };
        for jobs in [0, 3] {
            let mut handed = 0;
            let in_turn = |number, turns: &Turns| turns.take(number, || fails(20)(number));
            let hand_on = |_| {
                handed += 1;
                Ok(())
            };
            let failed = beside_caller(order(&engine, jobs, 4, 50), || (), in_turn, hand_on).unwrap_err();
            assert!(failed.to_string() == "no" && handed <= 20, "{failed} after {handed}");
            let plain = |number, _: &Turns| Ok(number);
            let hand_on = |number| fails(7)(number).map(drop);
            assert!(beside_caller(order(&engine, jobs, 4, 50), || (), plain, hand_on).is_err());
            let panics = |number, turns: &Turns| {
                turns.take(number, || if number == 9 { panic!("on purpose") } else { Ok(number) })
            };
            let run = || beside_caller(order(&engine, jobs, 4, 50), || (), panics, |_| Ok(()));
            let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            assert!(!matches!(run, Ok(Ok(()))), "a panic is no success, on whatever thread");
        }
    }
}
