//! What calls of a program take: the time during which at least one of its threads is inside of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time that was spent in calls so far.
#[derive(Debug, Clone, Default)]
pub struct Blocked(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    inside: usize,
    /// Since when somebody is inside.
    since: Option<Instant>,
    before: Duration,
}

/// A call; it ends when this is dropped.
pub struct Inside(Blocked);

impl Blocked {
    /// A call begins.
    pub fn enter(&self) -> Inside {
        let mut state = self.state();
        state.inside += 1;
        state.since.get_or_insert_with(Instant::now);
        Inside(self.clone())
    }

    /// The time until now, of which nothing is left.
    pub fn take(&self) -> Duration {
        let mut state = self.state();
        let now = Instant::now();
        let current = state.since.map(|since| now.saturating_duration_since(since)).unwrap_or_default();
        state.since = state.since.map(|_| now);
        std::mem::take(&mut state.before) + current
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.inside -= 1;
        if state.inside == 0 {
            let spent = state.since.take().map(|since| since.elapsed()).unwrap_or_default();
            state.before += spent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAP: Duration = Duration::from_millis(30);

    #[test]
    fn threads_at_once_count_once_and_what_is_between_calls_does_not() {
        let blocked = Blocked::default();
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _inside = blocked.enter();
                    std::thread::sleep(NAP);
                });
            }
        });
        let passed = begin.elapsed();
        std::thread::sleep(20 * NAP);
        let spent = blocked.take();
        assert!(spent >= NAP && spent <= passed, "{spent:?} of {passed:?}");
        assert_eq!(blocked.take(), Duration::ZERO);
    }

    #[test]
    fn a_call_that_goes_on_is_counted_up_to_now() {
        let blocked = Blocked::default();
        let inside = blocked.enter();
        std::thread::sleep(NAP);
        let begin = Instant::now();
        assert!(blocked.take() >= NAP);
        std::thread::sleep(NAP);
        drop(inside);
        let spent = blocked.take();
        assert!(spent >= NAP && spent <= begin.elapsed(), "{spent:?}");
    }
}
