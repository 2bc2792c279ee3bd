//! Plans: what was decided for each variable and why. Pure data, printable, saved beside the result.

use serde::{Deserialize, Serialize};

use crate::array::DType;
use crate::chain::ChainSpec;
use crate::codec::Reader;
use crate::features::Features;
use crate::goal::{Goal, Merits};
use crate::predictor::Pace;
use crate::quality::{Bound, Observed, Quality};

/// Version of the plan format.
pub const VERSION: u32 = 1;

/// What was decided for a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Format version.
    pub version: u32,
    /// Program and version that decided.
    pub program: String,
    /// Input the plan was made for, as the user named it.
    pub input: String,
    /// Goal of the choice.
    pub goal: Goal,
    /// Most demanding reader that was allowed.
    pub portable: Reader,
    /// Machine of the profile that speeds and energy come from.
    pub profile: String,
    /// Where energy figures come from: `counter` or `model`.
    pub energy_source: String,
    /// One entry per variable, in file order.
    pub variables: Vec<VariablePlan>,
}

/// What was decided for one variable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariablePlan {
    /// Absolute path in the file.
    pub path: String,
    /// Element type.
    pub dtype: DType,
    /// Extents, slowest first.
    pub shape: Vec<u64>,
    /// Size of the values in bytes when not compressed.
    pub raw_bytes: u64,
    /// What happens to the variable.
    pub action: Action,
}

/// What happens to a variable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Copied as it is stored, with the reason.
    Copy(String),
    /// Encoded anew.
    Encode(Box<Choice>),
}

/// The chain chosen for a variable, with what led to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Chunk shape, slowest first.
    pub chunk: Vec<u64>,
    /// The chosen chain.
    pub chain: ChainSpec,
    /// For lossy chains: the lossless one that chunks fall back to where the bound would fail.
    pub fallback: Option<ChainSpec>,
    /// What was promised.
    pub quality: Quality,
    /// The promise resolved for this variable; absent if lossless.
    pub bound: Option<Bound>,
    /// What a reader needs.
    pub reader: Reader,
    /// Expected merits of the chosen chain.
    pub expected: Merits,
    /// Why this chain, in one sentence.
    pub reason: String,
    /// What analysis found.
    pub features: Features,
    /// Chains considered, best first.
    pub candidates: Vec<Candidate>,
    /// Bytes of samples that were analysed and encoded on trial.
    pub sample_bytes: u64,
    /// Seconds spent choosing, all of analysis and trials. Not part of the choice.
    #[serde(default)]
    pub seconds: f64,
}

/// A chain that was considered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The chain.
    pub chain: ChainSpec,
    /// Merits under the tried ratio, or under the predicted one if it was not tried.
    pub merits: Merits,
    /// Ratio that prediction expected.
    pub predicted_ratio: f64,
    /// Factors on the times of the profile that this data is expected to need.
    #[serde(default)]
    pub pace: Pace,
    /// Ratio measured on the samples; absent if the chain was not tried.
    pub tried_ratio: Option<f64>,
    /// Score under the goal; larger is better.
    pub score: f64,
    /// Why it was dropped, if it was: does not hold the bound on the samples, failed.
    pub dropped: Option<String>,
    /// Errors observed on the samples, for lossy chains.
    pub observed: Option<Observed>,
}

impl Candidate {
    /// True if it was tried and serves.
    pub fn is_usable(&self) -> bool {
        self.tried_ratio.is_some() && self.dropped.is_none()
    }
}

impl Plan {
    /// The plan of the variable at `path`.
    pub fn variable(&self, path: &str) -> Option<&VariablePlan> {
        self.variables.iter().find(|variable| variable.path == path)
    }
}
