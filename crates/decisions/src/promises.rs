//! What a run has promised of files that wait in tiers, and when it held:
//!
//! - *accepted*: the file is closed, and its values survive the program and the launcher;
//! - *local*: it is synced in a tier, whole or as it was handed over, and survives a restart of the node;
//! - *durable*: it is in its place, synced, under its name.
//!
//! A file that finds no room in a tier becomes durable without being local.

use std::collections::BTreeMap;

/// How long files took at most after they were accepted, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latencies {
    /// Until they were local; `None` if none was.
    pub local: Option<f64>,
    /// Until they were durable; `None` if none was.
    pub durable: Option<f64>,
}

/// The promises of a run. Times are seconds since any moment.
#[derive(Debug, Default)]
pub struct Promises {
    /// When files were accepted that are not durable, by their generations, and whether they are local.
    accepted: BTreeMap<u64, (f64, bool)>,
    latencies: Latencies,
}

impl Promises {
    /// A file was accepted.
    pub fn accepted(&mut self, generation: u64, at: f64) {
        self.accepted.insert(generation, (at, false));
    }

    /// A file is local: encoded, or as it was handed over.
    pub fn local(&mut self, generation: u64, at: f64) {
        if let Some((accepted, is_local @ false)) = self.accepted.get_mut(&generation) {
            *is_local = true;
            longest(&mut self.latencies.local, at - *accepted);
        }
    }

    /// A file is durable.
    pub fn durable(&mut self, generation: u64, at: f64) {
        if let Some((accepted, _)) = self.accepted.remove(&generation) {
            longest(&mut self.latencies.durable, at - accepted);
        }
    }

    /// Those of the slowest files by now.
    pub fn latencies(&self) -> Latencies {
        self.latencies
    }
}

fn longest(longest: &mut Option<f64>, seconds: f64) {
    *longest = Some(longest.map_or(seconds, |before| before.max(seconds)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_file_counts() {
        let mut promises = Promises::default();
        assert_eq!(promises.latencies(), Latencies::default());
        promises.accepted(1, 1.0);
        promises.accepted(2, 2.0);
        promises.local(2, 2.5);
        promises.local(1, 3.0);
        promises.local(1, 3.5);
        promises.durable(1, 4.0);
        assert_eq!(promises.latencies(), Latencies { local: Some(2.0), durable: Some(3.0) });
        // Of others nothing was promised.
        promises.durable(7, 100.0);
        promises.local(1, 100.0);
        assert_eq!(promises.latencies(), Latencies { local: Some(2.0), durable: Some(3.0) });
    }
}
