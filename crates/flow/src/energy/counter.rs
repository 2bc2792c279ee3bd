//! The energy counters that Linux offers (RAPL), where they can be read.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_choose::profile::Power;

/// Where the kernel shows the counters.
const POWERCAP: &str = "/sys/class/powercap";
/// Time at rest, and time with one busy core. The counters move every millisecond or so.
const INTERVAL: Duration = Duration::from_millis(1500);
/// What a core can add, in watts; outside of it something else was measured.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.2..=60.0;

/// The energy model of this machine: watts per busy core from its counters, or [`Power::model`] where they do not
/// exist, may not be read, or say something implausible (another program was running).
pub fn measured_power() -> Power {
    let packages = packages(Path::new(POWERCAP));
    let model = Power::model();
    let (Some(idle), Some(busy)) = (watts(&packages, std::thread::sleep), watts(&packages, spin)) else { return model };
    let added = busy - idle;
    if PLAUSIBLE.contains(&added) {
        let watts_per_core = (added * 100.0).round() / 100.0;
        return Power { source: "counter".to_owned(), watts_per_core, ..model };
    }
    model
}

/// The counters of all processor packages since a moment.
#[derive(Debug)]
pub struct Counter {
    packages: Vec<PathBuf>,
    begin: Vec<u64>,
}

impl Counter {
    /// Begins to count; `None` where the machine shows no counters or they may not be read.
    pub fn begin() -> Option<Self> {
        Self::of(packages(Path::new(POWERCAP)))
    }

    fn of(packages: Vec<PathBuf>) -> Option<Self> {
        let begin = counts(&packages).filter(|counts| !counts.is_empty())?;
        Some(Self { packages, begin })
    }

    /// Joules since then, of all that the machine did. A counter that wrapped around twice misses a turn: packages do
    /// so after minutes to hours under full load.
    pub fn joules(&self) -> Option<f64> {
        let now = counts(&self.packages)?;
        let mut microjoules = 0;
        for ((package, &before), after) in self.packages.iter().zip(&self.begin).zip(now) {
            microjoules += spent(before, after, read(package, "max_energy_range_uj"))?;
        }
        #[expect(clippy::cast_precision_loss, reason = "counters of a run")]
        Some(microjoules as f64 / 1e6)
    }
}

/// The counters of whole packages, `intel-rapl:0`; those below them, `intel-rapl:0:1`, are parts of these.
fn packages(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let package = name.to_str().and_then(|name| name.strip_prefix("intel-rapl:"));
            package.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        })
        .map(|entry| entry.path())
        .collect()
}

fn read(package: &Path, name: &str) -> Option<u64> {
    std::fs::read_to_string(package.join(name)).ok()?.trim().parse().ok()
}

fn counts(packages: &[PathBuf]) -> Option<Vec<u64>> {
    packages.iter().map(|package| read(package, "energy_uj")).collect()
}

/// Mean power of all packages while `work` goes on; `None` if a counter cannot be read.
fn watts(packages: &[PathBuf], work: fn(Duration)) -> Option<f64> {
    let counter = Counter::of(packages.to_vec())?;
    let begin = Instant::now();
    work(INTERVAL);
    Some(counter.joules()? / begin.elapsed().as_secs_f64())
}

/// What a counter went on by. Counters wrap around at their range.
fn spent(before: u64, after: u64, range: Option<u64>) -> Option<u64> {
    after.checked_sub(before).or_else(|| range?.checked_sub(before)?.checked_add(after))
}

/// Keeps this core busy.
fn spin(duration: Duration) {
    let begin = Instant::now();
    let mut state = 1u64;
    while begin.elapsed() < duration {
        for _ in 0..100_000 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_count_and_wrapping_is_seen_through() {
        let root = std::env::temp_dir().join(format!("knarr-power-{}", std::process::id()));
        for name in ["intel-rapl:0", "intel-rapl:0:1", "intel-rapl-mmio:0", "intel-rapl:12"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
            std::fs::write(root.join(name).join("energy_uj"), "5000000\n").unwrap();
        }
        let mut found = packages(&root);
        found.sort();
        assert_eq!(found, [root.join("intel-rapl:0"), root.join("intel-rapl:12")]);
        assert_eq!(watts(&found, |_| {}), Some(0.0));
        assert_eq!(watts(&[root.join("none")], |_| {}), None);
        assert_eq!(watts(&[], |_| {}), None);
        assert_eq!((spent(5, 8, None), spent(8, 5, Some(10)), spent(8, 5, None)), (Some(3), Some(7), None));
        std::fs::remove_dir_all(root).unwrap();
    }
}
