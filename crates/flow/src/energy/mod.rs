//! Energy of work that was done: counted where the machine's counters can be read, modelled elsewhere, and which of
//! both is always said.

mod clock;
mod counter;
mod site;

pub use clock::{Stopwatch, thread_seconds};
pub use counter::{Counter, measured_power};
pub use site::{Site, Yearly};

use serde::{Deserialize, Serialize};

use knarr_choose::profile::Power;

/// Processor time of the phases of a run, in seconds of one core.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Phases {
    /// Reading stored bytes.
    pub read: f64,
    /// Decoding what was read.
    pub decode: f64,
    /// Analysing, trying candidates.
    pub choose: f64,
    /// Encoding.
    pub encode: f64,
    /// Decoding and comparing what was encoded.
    pub prove: f64,
    /// Writing, without what the system does later.
    pub write: f64,
}

impl Phases {
    /// Names and values, in the order of the work.
    pub fn each(&self) -> [(&'static str, f64); 6] {
        [
            ("read", self.read),
            ("decode", self.decode),
            ("choose", self.choose),
            ("encode", self.encode),
            ("prove", self.prove),
            ("write", self.write),
        ]
    }

    /// All phases together.
    pub fn sum(&self) -> f64 {
        self.each().iter().map(|(_, seconds)| seconds).sum()
    }

    fn map(&self, mut value: impl FnMut(&'static str, f64) -> f64) -> Self {
        let [read, decode, choose, encode, prove, write] = self.each().map(|(name, seconds)| value(name, seconds));
        Self { read, decode, choose, encode, prove, write }
    }
}

/// Energy of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// `counter`: what all processor packages took during the run, other programs included, divided among the phases by
    /// their processor time. `model`: processor time and bytes that were moved, by the figures of the profile.
    pub source: String,
    /// Joules of the whole run.
    pub joules: f64,
    /// Joules per GB (1e9 bytes) of raw values; 0 without values.
    pub joules_per_gb: f64,
    /// Joules of each phase.
    pub phases: Phases,
    /// Processor time of each phase, in seconds of one core.
    pub seconds: Phases,
}

/// What a run moved, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Raw values.
    pub raw: u64,
    /// Read from storage.
    pub read: u64,
    /// Written to storage.
    pub written: u64,
}

impl Energy {
    /// The energy of a run: `counted` joules where a counter showed them, or the model of `power`.
    #[expect(clippy::cast_precision_loss, reason = "bytes of files")]
    pub fn of(seconds: &Phases, moved: Moved, power: &Power, counted: Option<f64>) -> Self {
        let all = seconds.sum();
        let phases = match counted {
            Some(joules) if all > 0.0 => seconds.map(|_, seconds| joules * seconds / all),
            _ => seconds.map(|name, seconds| {
                let bytes = match name {
                    "read" => moved.read,
                    "write" => moved.written,
                    _ => 0,
                };
                seconds * power.watts_per_core + bytes as f64 / 1e9 * power.joules_per_gb
            }),
        };
        let joules = phases.sum();
        let source = if counted.is_some() && all > 0.0 { "counter" } else { "model" };
        let joules_per_gb = if moved.raw == 0 { 0.0 } else { joules / (moved.raw as f64 / 1e9) };
        Self { source: source.to_owned(), joules, joules_per_gb, phases, seconds: *seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: Phases = Phases { read: 1.0, decode: 2.0, choose: 0.5, encode: 4.0, prove: 2.0, write: 0.5 };
    const MOVED: Moved = Moved { raw: 2_000_000_000, read: 1_000_000_000, written: 500_000_000 };

    #[test]
    fn the_model_counts_processor_time_and_bytes() {
        let power = Power { source: "model".to_owned(), watts_per_core: 10.0, joules_per_gb: 20.0 };
        let energy = Energy::of(&SECONDS, MOVED, &power, None);
        assert_eq!((energy.source.as_str(), energy.joules, energy.joules_per_gb), ("model", 130.0, 65.0));
        assert_eq!((energy.phases.read, energy.phases.encode, energy.phases.write), (30.0, 40.0, 15.0));
    }

    #[test]
    fn counted_joules_are_divided_by_processor_time() {
        let energy = Energy::of(&SECONDS, MOVED, &Power::model(), Some(50.0));
        assert_eq!((energy.source.as_str(), energy.joules, energy.phases.encode), ("counter", 50.0, 20.0));
    }

    #[test]
    fn nothing_done_takes_nothing() {
        let energy = Energy::of(&Phases::default(), Moved::default(), &Power::model(), Some(3.0));
        assert_eq!((energy.source.as_str(), energy.joules, energy.joules_per_gb), ("model", 0.0, 0.0));
    }
}
