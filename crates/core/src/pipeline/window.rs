//! The window of chunks that are under way: bounded in bytes, written in order, free of deadlock.

use std::sync::{Condvar, Mutex, PoisonError};

/// Admits chunks so that what is read, encoded and waiting to be written stays within a number of bytes.
/// The chunk that is written next is always admitted, so the window cannot block itself.
pub(super) struct Window {
    state: Mutex<State>,
    changed: Condvar,
    capacity: u64,
}

struct State {
    used: u64,
    /// Index of the chunk that is written next.
    next: u64,
    closed: bool,
}

impl Window {
    pub(super) fn new(capacity: u64) -> Self {
        Self { state: Mutex::new(State { used: 0, next: 0, closed: false }), changed: Condvar::new(), capacity }
    }

    /// Waits until the chunk `index` of `bytes` may start. False once the window is closed.
    pub(super) fn admit(&self, index: u64, bytes: u64) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.closed && index != state.next && state.used + bytes > self.capacity {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.used += bytes;
        !state.closed
    }

    /// The chunk `index` of `bytes` was written.
    pub(super) fn written(&self, index: u64, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.used = state.used.saturating_sub(bytes);
        state.next = index + 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Lets every waiting worker go: the operation failed or was interrupted.
    pub(super) fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.changed.notify_all();
    }
}
