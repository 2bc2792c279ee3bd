//! What is copied from a file of values, as messages to other nodes have it, too.

use serde::{Deserialize, Serialize};

/// Runs of bytes that are copied. They are alike, and equally far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Numbers", into = "Numbers")]
pub(crate) struct Move {
    /// Twice the number of the rank, and 1 more for its second file of values.
    pub(crate) file: usize,
    /// The first byte of the first run there, and where it is wanted.
    pub(crate) from: u64,
    pub(crate) to: usize,
    /// Bytes of a run.
    pub(crate) len: usize,
    pub(crate) runs: u64,
    /// How far the next run is.
    pub(crate) from_step: u64,
    pub(crate) to_step: usize,
}

impl Move {
    /// Bytes of all runs; saturates.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.saturating_mul(self.len as u64)
    }

    /// Where the run with a number begins, and where it is wanted; saturates.
    pub(crate) fn run(&self, number: u64) -> (u64, usize) {
        let to = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(self.to_step);
        (self.from.saturating_add(number.saturating_mul(self.from_step)), self.to.saturating_add(to))
    }
}

/// A [`Move`] in messages, in the order of its fields.
type Numbers = (usize, u64, usize, usize, u64, u64, usize);

impl From<Move> for Numbers {
    fn from(one: Move) -> Self {
        let Move { file, from, to, len, runs, from_step, to_step } = one;
        (file, from, to, len, runs, from_step, to_step)
    }
}

impl From<Numbers> for Move {
    fn from((file, from, to, len, runs, from_step, to_step): Numbers) -> Self {
        Self { file, from, to, len, runs, from_step, to_step }
    }
}
