//! Progress: a bar on a terminal, now and then a line elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use knarr_flow::engine::Progress;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nothing is shown before this: short work needs no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
/// Where there is no terminal, a line comes this often.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows how far an operation on `name` is, on standard error.
pub(crate) struct Bar {
    name: String,
    terminal: bool,
    state: Mutex<State>,
    done: AtomicU64,
}

struct State {
    bar: Option<ProgressBar>,
    phase: String,
    total: u64,
    begin: Instant,
    last_line: Instant,
}

impl Bar {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        let now = Instant::now();
        let state = State { bar: None, phase: String::new(), total: 0, begin: now, last_line: now };
        Self {
            name: name.into(),
            terminal: std::io::stderr().is_terminal(),
            state: Mutex::new(state),
            done: AtomicU64::new(0),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.state.lock().unwrap_or_else(PoisonError::into_inner).bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn begin(&self, phase: &str, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
        state.phase = phase.to_owned();
        state.total = bytes;
        state.begin = Instant::now();
        self.done.store(0, Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.begin.elapsed() < SHOWN_AFTER {
            return;
        }
        if self.terminal {
            if state.bar.is_none() {
                let bar = ProgressBar::with_draw_target(Some(state.total), ProgressDrawTarget::stderr());
                let style = "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
                if let Ok(style) = ProgressStyle::with_template(style) {
                    bar.set_style(style);
                }
                bar.set_prefix(format!("{}: {}", self.name, state.phase));
                state.bar = Some(bar);
            }
            if let Some(bar) = &state.bar {
                bar.set_position(done);
            }
        } else if state.last_line.elapsed() >= LINE_EVERY {
            state.last_line = Instant::now();
            let percent = (100 * done).checked_div(state.total).unwrap_or(100);
            errln!("knarr: {}: {} {percent} %", self.name, state.phase);
        }
    }
}
