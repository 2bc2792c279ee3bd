//! Waiting for the launcher. A process that waited inside of MPI would keep its core busy, and Knarr encodes on these cores.
//! So each rank waits by itself, asleep, before it calls MPI.

use std::time::{Duration, Instant};

use knarr_capture::Event;
use knarr_capture::program::Run;

/// Between two looks, at least and at most.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(50);
/// How often the launcher hears that this process waits.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Waits until something is over, or the launcher is gone. The launcher works with all threads meanwhile.
pub(crate) fn await_launcher(run: &Run, is_over: impl Fn() -> bool) {
    let begin = Instant::now();
    let mut told: Option<Instant> = None;
    while !is_over() && run.is_alive() {
        if told.is_none_or(|told| told.elapsed() > TELL_EVERY) {
            run.notify(Event::Waits(true));
            told = Some(Instant::now());
        }
        // Many ranks look, so they look less often the longer they wait.
        std::thread::sleep((begin.elapsed() / 8).clamp(LOOK_EVERY, LONGEST));
    }
    if told.is_some() {
        run.notify(Event::Waits(false));
    }
}
