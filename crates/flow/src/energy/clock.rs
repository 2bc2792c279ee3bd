//! Processor time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of the calling thread so far, in seconds: time in which other programs have the core does not count.
pub fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "a thread's seconds are far below 2^52")]
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9;
    seconds
}

/// Processor time that threads spend on one thing, all together.
#[derive(Debug, Default)]
pub struct Stopwatch(AtomicU64);

impl Stopwatch {
    /// Does `work` and counts its time.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let begin = thread_seconds();
        let result = work();
        let spent = Duration::try_from_secs_f64(thread_seconds() - begin).unwrap_or_default();
        self.0.fetch_add(u64::try_from(spent.as_nanos()).unwrap_or(0), Ordering::Relaxed);
        result
    }

    /// Seconds so far.
    pub fn seconds(&self) -> f64 {
        Duration::from_nanos(self.0.load(Ordering::Relaxed)).as_secs_f64()
    }
}
