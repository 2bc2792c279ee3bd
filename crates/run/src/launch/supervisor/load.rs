//! How many cores of the machine have nothing to do but what runs at a low priority.

use std::fs;
use std::time::{Duration, Instant};

/// The system counts in hundredths of a second: less time says little.
const LEAST: Duration = Duration::from_millis(300);

/// Looks at what the system has counted.
pub(super) struct Load {
    before: Option<(Instant, Counted)>,
    cores: f64,
}

/// Hundredths of a second of all cores.
#[derive(Clone, Copy)]
struct Counted {
    free: f64,
    all: f64,
}

impl Load {
    pub(super) fn new() -> Self {
        Self { before: counted().map(|counted| (Instant::now(), counted)), cores: 0.0 }
    }

    /// Cores that were idle since the last look, on average, or worked at a low priority, of `cores`.
    pub(super) fn idle_cores(&mut self, cores: usize) -> f64 {
        let now = Instant::now();
        if let Some((at, before)) = self.before
            && now.duration_since(at) >= LEAST
            && let Some(counted) = counted()
        {
            let all = counted.all - before.all;
            if all > 0.0 {
                self.cores = (counted.free - before.free) / all * cores as f64;
            }
            self.before = Some((now, counted));
        }
        self.cores
    }
}

/// Times since the machine was started: `cpu  user nice system idle iowait irq softirq steal …`.
fn counted() -> Option<Counted> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let times: Vec<f64> = text.lines().next()?.split_whitespace().skip(1).map_while(|time| time.parse().ok()).collect();
    let of = |index: usize| times.get(index).copied().unwrap_or(0.0);
    Some(Counted { free: of(1) + of(3) + of(4), all: times.iter().take(8).sum() })
}
