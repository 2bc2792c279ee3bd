//! Routes: where the values of a family of files go, and what each is asked for. One file for each route has its row of
//! [`Traits`], and the type of its own keys if it has any; here are the routes that there are.

mod checkpoint;
mod compress;
mod estimate;
mod stage;
mod traits;
mod transfer;

pub use checkpoint::CheckpointRule;
pub use compress::{CompressRule, Output, VariableRule, Wait, When};
pub use stage::{Least, StageRule};
pub use traits::Traits;
pub use transfer::{InFlight, Publish, TransferRule, WhenLate};

use knarr_array::error::Result;
use serde::{Deserialize, Serialize};

use super::restart::NamePattern;
use super::tier::TierRule;

/// Where the values of a family of files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// A standard file with chosen chains.
    #[default]
    Compress,
    /// Untouched; it is told what `compress` would make of the file.
    Estimate,
    /// Untouched.
    File,
    /// Packed with those of other ranks into a set.
    Checkpoint,
    /// Into the memory of programs that read the file.
    Transfer,
    /// A standard file, which waits in fast tiers on its way to its place.
    Stage,
}

impl Route {
    /// All of them.
    pub(super) const ALL: [Self; 6] =
        [Self::Compress, Self::Estimate, Self::File, Self::Checkpoint, Self::Transfer, Self::Stage];

    /// The row of this route.
    pub fn traits(self) -> &'static Traits {
        match self {
            Self::Compress => &compress::COMPRESS,
            Self::Estimate => &estimate::ESTIMATE,
            Self::File => &traits::UNTOUCHED,
            Self::Checkpoint => &checkpoint::CHECKPOINT,
            Self::Transfer => &transfer::TRANSFER,
            Self::Stage => &stage::STAGE,
        }
    }
}

/// The table of keys that only one route has, by the name of that route: `[file.transfer]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnKeys {
    /// The route has none.
    #[default]
    None,
    /// `[file.checkpoint]`
    Checkpoint(CheckpointRule),
    /// `[file.transfer]`
    Transfer(TransferRule),
    /// `[file.stage]`
    Stage(StageRule),
}

impl OwnKeys {
    /// Refuses values that make no sense, alone or beside those of `compress`.
    pub(super) fn check(&self, pattern: &NamePattern, compress: &CompressRule, tiers: &[TierRule]) -> Result<()> {
        match self {
            Self::None => compress.check(),
            Self::Checkpoint(keys) => keys.check(pattern),
            Self::Transfer(keys) => keys.check(pattern, compress),
            Self::Stage(keys) => keys.check(compress, tiers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_names_that_rules_have() {
        for route in Route::ALL {
            let row = route.traits();
            assert_eq!(serde_json::to_value(route).unwrap(), row.word);
            // Only what is told of can be done when it is closed, and only that can be replaced.
            assert!(row.is_told || !row.is_done_when_closed, "{route:?}");
            assert!(row.is_done_when_closed || !row.may_be_replaced, "{route:?}");
            let all = (compress::COMPRESS.compress)();
            assert!((row.compress)().iter().all(|key| all.contains(key)), "{route:?}");
        }
    }
}
