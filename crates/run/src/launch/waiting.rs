//! Which processes of the program wait for Knarr. As long as one does, the cores of its ranks are idle: all threads may work.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A process that waits says so every second. One that says nothing any more was killed.
const SILENT_WHEN_KILLED: Duration = Duration::from_secs(3);

/// The processes that wait, and when each has said so last.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeMap<u32, Instant>);

impl Waiting {
    /// A process waits, or no longer.
    pub(super) fn on_wait(&mut self, process: u32, waits: bool) {
        if waits {
            self.0.insert(process, Instant::now());
        } else {
            self.0.remove(&process);
        }
    }

    /// True if some process waits.
    pub(super) fn is_any(&mut self) -> bool {
        self.0.retain(|_, said| said.elapsed() < SILENT_WHEN_KILLED);
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_wait_until_they_say_otherwise_or_nothing() {
        let mut waiting = Waiting::default();
        assert!(!waiting.is_any());
        waiting.on_wait(1, true);
        waiting.on_wait(2, true);
        waiting.on_wait(1, false);
        assert!(waiting.is_any());
        waiting.on_wait(2, false);
        assert!(!waiting.is_any());
        waiting.0.insert(3, Instant::now() - SILENT_WHEN_KILLED);
        assert!(!waiting.is_any());
    }
}
