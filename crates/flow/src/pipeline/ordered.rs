//! Pieces of work done by many threads, whose results are handed on in order by the calling one. What is under way is
//! bounded in bytes, and free of deadlock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::engine::Engine;
use knarr_array::error::{Error, Result};

/// How much is done at a time.
pub struct Schedule<'a> {
    /// Who may interrupt.
    pub engine: &'a Engine,
    /// Worker threads.
    pub jobs: usize,
    /// Bytes that may be under way; the piece that is handed on next always may.
    pub window: u64,
    /// Number of pieces.
    pub total: u64,
}

/// Calls `work` for every number below the total on worker threads, each with a state of its own, and `hand_on` with
/// the results, in the order of the numbers whatever order they come in. `bytes_of` says what a piece takes while it is
/// under way.
///
/// # Errors
/// The first error of `work` that is heard of or of `hand_on`, or `Interrupted`.
pub fn in_order<S: Default, T: Send>(
    order: Schedule<'_>,
    bytes_of: impl Fn(u64) -> u64 + Sync,
    work: impl Fn(&mut S, u64) -> Result<T> + Sync,
    mut hand_on: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let Schedule { engine, jobs, window, total } = order;
    let jobs = jobs.max(1);
    let next = AtomicU64::new(0);
    let desk = OrderedQueue::new(window, jobs);
    std::thread::scope(|scope| {
        // Whatever happens here, no worker may wait for what will not come.
        let _open = Open(&desk);
        for _ in 0..jobs {
            let (next, desk, work, bytes_of) = (&next, &desk, &work, &bytes_of);
            scope.spawn(move || {
                let _at_work = AtWork(desk);
                let mut state = S::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total || !desk.admit(number, bytes_of(number)) {
                        return;
                    }
                    desk.put(number, engine.check_cancelled().and_then(|()| work(&mut state, number)));
                }
            });
        }
        for number in 0..total {
            let Some(done) = desk.take(number)? else { break };
            hand_on(done)?;
            desk.handed_on(number, bytes_of(number));
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
}

struct State<T> {
    /// Bytes under way.
    used: u64,
    /// Number of the piece that is handed on next.
    next: u64,
    done: BTreeMap<u64, T>,
    failed: Option<Error>,
    workers: usize,
    closed: bool,
}

impl<T> OrderedQueue<T> {
    fn new(capacity: u64, workers: usize) -> Self {
        let state = State { used: 0, next: 0, done: BTreeMap::new(), failed: None, workers, closed: false };
        Self { state: Mutex::new(state), ready: Condvar::new(), room: Condvar::new(), capacity }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the piece `number` of `bytes` may start; the one that is handed on next always may. False once the
    /// desk is closed.
    fn admit(&self, number: u64, bytes: u64) -> bool {
        let mut state = self.lock();
        while !state.closed && number != state.next && state.used + bytes > self.capacity {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.used += bytes;
        !state.closed
    }

    fn put(&self, number: u64, done: Result<T>) {
        let mut state = self.lock();
        let wakes = done.is_err() || number == state.next;
        match done {
            Ok(done) => drop(state.done.insert(number, done)),
            Err(error) => drop(state.failed.get_or_insert(error)),
        }
        drop(state);
        if wakes {
            self.ready.notify_one();
        }
    }

    /// Waits for the piece `number`; none if no worker is left to bring it.
    fn take(&self, number: u64) -> Result<Option<T>> {
        let mut state = self.lock();
        loop {
            if let Some(error) = state.failed.take() {
                return Err(error);
            }
            let done = state.done.remove(&number);
            if done.is_some() || state.workers == 0 {
                return Ok(done);
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn handed_on(&self, number: u64, bytes: u64) {
        let mut state = self.lock();
        state.used = state.used.saturating_sub(bytes);
        state.next = number + 1;
        drop(state);
        self.room.notify_all();
    }
}

/// A worker, as long as it runs. One that panics takes its piece along, so the others must not wait for room.
struct AtWork<'a, T>(&'a OrderedQueue<T>);

impl<T> Drop for AtWork<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.workers -= 1;
        state.closed |= std::thread::panicking();
        drop(state);
        self.0.ready.notify_one();
        self.0.room.notify_all();
    }
}

/// Closes the desk in the end.
struct Open<'a, T>(&'a OrderedQueue<T>);

impl<T> Drop for Open<'_, T> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::*;
    use knarr_codec::codec::CodecList;

    fn engine() -> Engine {
        Engine::new(CodecList::pure())
    }

    fn order(engine: &Engine, jobs: usize, window: u64, total: u64) -> Schedule<'_> {
        Schedule { engine, jobs, window, total }
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
                |_| 10,
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
                |_| 10,
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
    fn an_interrupt_ends_it() {
        let engine = engine();
        let result = in_order(
            order(&engine, 2, 100, u64::MAX),
            |_| 10,
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
            |_| 10,
            |_: &mut (), number| {
                assert!(number != 30, "broken");
                Ok(number)
            },
            |_| Ok(()),
        );
    }
}
