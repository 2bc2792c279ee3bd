//! A line of tasks that threads work off together: taken in order, handed over in order, a bounded number under way.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use knarr_array::error::{Error, Result};
use knarr_array::guard::guarded;

/// The line. Results are of type `T`.
pub(super) struct Line<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    total: u64,
    window: u64,
}

struct State<T> {
    /// Number of the next task that is taken, of the next whose turn it is, and of the next that is handed over.
    taken: u64,
    turn: u64,
    handed: u64,
    done: BTreeMap<u64, T>,
    stopped: Option<Error>,
}

/// What the calling thread does next.
enum Next<T> {
    HandOver(T),
    Work(u64),
    End(Result<()>),
}

impl<T: Send> Line<T> {
    /// `total` tasks, of which `window` at most, and at least one, are taken and not handed over.
    pub(super) fn new(total: u64, window: u64) -> Self {
        let state = State { taken: 0, turn: 0, handed: 0, done: BTreeMap::new(), stopped: None };
        Self { state: Mutex::new(state), changed: Condvar::new(), total, window: window.max(1) }
    }

    /// Does all tasks with `work`, on this thread and on `helpers` others, or as many as can be started, and gives the
    /// results to `hand_over` on this thread. `started` is called once the other threads were started.
    ///
    /// # Errors
    /// The first error of `work` or `hand_over`; nothing is handed over after it.
    pub(super) fn run(
        &self,
        helpers: usize,
        started: impl FnOnce(),
        work: impl Fn(u64) -> Result<T> + Sync,
        mut hand_over: impl FnMut(T) -> Result<()>,
    ) -> Result<()> {
        std::thread::scope(|scope| {
            // However this thread leaves, the others must not wait for it.
            let _leave = Leave(self);
            for _ in 0..helpers {
                let helper = || {
                    let _leave = Leave(self);
                    while let Some(index) = self.take() {
                        // A panic of another thread is no more printed than one of the caller's.
                        self.finish(index, guarded(|| work(index)));
                    }
                };
                if std::thread::Builder::new().name("knarr".to_owned()).spawn_scoped(scope, helper).is_err() {
                    break;
                }
            }
            started();
            loop {
                match self.next() {
                    Next::HandOver(result) => match hand_over(result) {
                        Ok(()) => self.handed_over(),
                        Err(error) => self.stop(error),
                    },
                    Next::Work(index) => self.finish(index, work(index)),
                    Next::End(result) => return result,
                }
            }
        })
    }

    /// Runs `work` of the task `index` after that of all tasks before it.
    ///
    /// # Errors
    /// Those of `work`; `Internal` if the line was stopped.
    pub(super) fn in_turn<U>(&self, index: u64, work: impl FnOnce() -> Result<U>) -> Result<U> {
        let mut state = self.lock();
        while state.turn != index && state.stopped.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(error) = &state.stopped {
            return Err(error.clone());
        }
        drop(state);
        let result = work();
        self.lock().turn += 1;
        self.changed.notify_all();
        result
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task, for a helper; `None` at the end.
    fn take(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.stopped.is_some() || state.taken == self.total {
                return None;
            }
            if let Some(index) = self.take_from(&mut state) {
                return Some(index);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn take_from(&self, state: &mut State<T>) -> Option<u64> {
        let index = state.taken;
        (index < self.total && index < state.handed + self.window).then(|| {
            state.taken += 1;
            index
        })
    }

    /// What is to be done by the thread that hands over: that first, for others wait for it.
    fn next(&self) -> Next<T> {
        let mut state = self.lock();
        loop {
            if let Some(error) = &state.stopped {
                return Next::End(Err(error.clone()));
            }
            if state.handed == self.total {
                return Next::End(Ok(()));
            }
            let next = state.handed;
            if let Some(result) = state.done.remove(&next) {
                return Next::HandOver(result);
            }
            if let Some(index) = self.take_from(&mut state) {
                return Next::Work(index);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, index: u64, result: Result<T>) {
        match result {
            Ok(result) => {
                self.lock().done.insert(index, result);
                self.changed.notify_all();
            }
            Err(error) => self.stop(error),
        }
    }

    fn handed_over(&self) {
        self.lock().handed += 1;
        self.changed.notify_all();
    }

    fn stop(&self, error: Error) {
        self.lock().stopped.get_or_insert(error);
        self.changed.notify_all();
    }
}

/// Lets all threads go when one of them panics.
struct Leave<'a, T: Send>(&'a Line<T>);

impl<T: Send> Drop for Leave<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(Error::internal("a thread that encodes panicked"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn results_come_in_order_for_any_number_of_threads() {
        for helpers in [0, 1, 7] {
            let line = Line::new(200, 5);
            let (under_way, most, turns) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(Vec::new()));
            let mut handed = Vec::new();
            let mut was_started = false;
            let work = |index| {
                most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                line.in_turn(index, || {
                    turns.lock().unwrap().push(index);
                    Ok(())
                })?;
                Ok(index)
            };
            let hand_over = |index| {
                under_way.fetch_sub(1, Ordering::SeqCst);
                handed.push(index);
                Ok(())
            };
            line.run(helpers, || was_started = true, work, hand_over).unwrap();
            let all: Vec<u64> = (0..200).collect();
            assert!(was_started && handed == all && *turns.lock().unwrap() == all);
            assert!(most.into_inner() <= 5);
        }
    }

    #[test]
    fn tasks_are_under_way_at_the_same_time() {
        let (begun, both) = (AtomicU64::new(0), Mutex::new(false));
        let work = |index| {
            begun.fetch_add(1, Ordering::SeqCst);
            let begin = std::time::Instant::now();
            while index < 2 && begun.load(Ordering::SeqCst) < 2 && begin.elapsed().as_secs() < 60 {
                std::thread::yield_now();
            }
            *both.lock().unwrap() |= index < 2 && begun.load(Ordering::SeqCst) >= 2 && begin.elapsed().as_secs() < 60;
            Ok(index)
        };
        Line::new(2, 2).run(1, || (), work, |_| Ok(())).unwrap();
        assert!(both.into_inner().unwrap());
    }

    #[test]
    fn errors_and_panics_end_all_threads() {
        let fails = |at| move |index| if index == at { Err(Error::internal("no")) } else { Ok(index) };
        for helpers in [0, 3] {
            let mut handed = Vec::new();
            let line = Line::new(50, 4);
            let in_turn = |index| line.in_turn(index, || fails(20)(index));
            let hand_over = |index| {
                handed.push(index);
                Ok(())
            };
            assert!(line.run(helpers, || (), in_turn, hand_over).is_err());
            assert!(handed.len() <= 20);
            assert!(Line::new(50, 4).run(helpers, || (), Ok, |index| fails(7)(index).map(drop)).is_err());
            let panics = |index: u64| if index == 9 { panic!("on purpose") } else { Ok(index) };
            let run = || Line::new(50, 4).run(helpers, || (), panics, |_| Ok(()));
            assert!(!matches!(std::panic::catch_unwind(run), Ok(Ok(()))), "a panic is no success, on whatever thread");
        }
    }
}
