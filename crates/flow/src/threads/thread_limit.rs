//! How many threads may work at the moment. The limit may change while they work, because a program runs beside them that at
//! times only waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often a thread that may not work looks whether it may, if nobody tells it.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A number of threads that all clones share. With 0 the work pauses.
#[derive(Debug, Clone)]
pub struct ThreadLimit(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    threads: AtomicUsize,
    waiting: Mutex<()>,
    changed: Condvar,
}

impl Default for ThreadLimit {
    /// As many as there are.
    fn default() -> Self {
        let (threads, waiting, changed) = (AtomicUsize::new(usize::MAX), Mutex::default(), Condvar::new());
        Self(Arc::new(Shared { threads, waiting, changed }))
    }
}

impl ThreadLimit {
    /// So many from now on. Those that are at work finish the piece that they have.
    pub fn set(&self, threads: usize) {
        self.0.threads.store(threads, Ordering::Relaxed);
        self.wake();
    }

    /// How many at the moment.
    pub fn get(&self) -> usize {
        self.0.threads.load(Ordering::Relaxed)
    }

    /// Thread number `number` waits until it may work, or `is_over`.
    pub(crate) fn await_turn(&self, number: usize, is_over: impl Fn() -> bool) {
        if number < self.get() {
            return;
        }
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while number >= self.get() && !is_over() {
            waiting = self.0.changed.wait_timeout(waiting, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Threads that wait look whether it is over.
    pub(crate) fn wake(&self) {
        // One that has just looked is waiting when this lock is had.
        drop(self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.changed.notify_all();
    }
}
