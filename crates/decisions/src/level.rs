//! The levels among which the planner chooses for a file of route `stage`, the fastest first.

use knarr_array::goal::Goal;
use serde::{Deserialize, Serialize};

/// How well a file is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EncodingLevel {
    /// Goal `speed`.
    Speed,
    /// Goal `balanced`.
    Balanced,
    /// Goal `ratio`.
    Ratio,
}

impl EncodingLevel {
    /// All of them, in this order.
    pub const ALL: [Self; 3] = [Self::Speed, Self::Balanced, Self::Ratio];

    /// Its number in this order.
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The goal by which chains are chosen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Speed => "speed",
            Self::Balanced => "balanced",
            Self::Ratio => "ratio",
        }
    }

    /// The same.
    pub fn goal(self) -> Goal {
        self.name().parse().unwrap_or_else(|_| Goal::balanced())
    }
}
