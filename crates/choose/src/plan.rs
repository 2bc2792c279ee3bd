//! Plans: what was decided for each variable and why. Pure data, printable, saved beside the result.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use std::path::Path;

use crate::features::Features;
use crate::form::Form;
use crate::profile::SpeedFactors;
use knarr_array::array::DType;
use knarr_array::goal::{Goal, Merits};
use knarr_array::quality::{Bound, Observed, Quality};
use knarr_array::table::{self, Align};
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::ReaderLevel;

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
    /// The file that the input was; `None` for stores and generated data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_file: Option<FileState>,
    /// What the chains are for.
    #[serde(default)]
    pub destination: Form,
    /// Goal of the choice.
    pub goal: Goal,
    /// Most demanding reader that was allowed.
    pub portable: ReaderLevel,
    /// Machine of the profile that speeds and energy come from.
    pub profile: String,
    /// Where energy figures come from: `counter` or `model`.
    pub energy_source: String,
    /// One entry per variable, in file order.
    pub variables: Vec<VariablePlan>,
    /// Names in the settings that nothing in the file has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<String>,
    /// Why all that was asked of single variables was left out, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// What tells a file from what it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Size.
    pub bytes: u64,
    /// Seconds and nanoseconds of the last change since 1970.
    pub modified: (u64, u32),
}

impl FileState {
    /// The state of the file at `path`, if it is one.
    pub fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        let since = found.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Self { bytes: found.len(), modified: (since.as_secs(), since.subsec_nanos()) })
    }
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
    /// Settings that it cannot have, in words, and why: it is written without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<String>,
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
    pub reader: ReaderLevel,
    /// Expected merits of the chosen chain.
    pub expected: Merits,
    /// Why this chain, in one sentence.
    pub reason: String,
    /// Limits of the goal that no chain meets, in words: the nearest was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// What more demanding readers would allow, least demanding first; empty where that was not looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wider: Vec<Wider>,
    /// What analysis found.
    pub features: Features,
    /// Chains considered, best first; empty where the choice is that of a variable that looks alike.
    pub candidates: Vec<Candidate>,
    /// Bytes of samples that were analysed and encoded on trial.
    pub sample_bytes: u64,
    /// Processor time spent choosing, in seconds, all of analysis and trials. Not part of the choice.
    #[serde(default)]
    pub seconds: f64,
}

impl Choice {
    /// The same choice, which says that it misses these limits, if any.
    #[must_use]
    pub fn missing(mut self, missed: Option<String>) -> Self {
        if let Some(limits) = &missed {
            self.reason.push_str(&format!("; no chain meets {limits}: the nearest was taken"));
        }
        Self { missed, ..self }
    }

    /// The whole choice for people, `reader` being what opens it in words, in indented lines: chain, what was found in the data, and every candidate; only the
    /// first where nothing was to choose.
    pub fn explained(&self, reader: &str) -> String {
        let features = &self.features;
        let list = |values: &[f64]| values.iter().map(|value| format!("{value:.1}")).collect::<Vec<_>>().join(" ");
        let range = features.range.map_or("-".to_owned(), |(low, high)| format!("{low} to {high}"));
        let percent = |fraction: f64| format!("{:.1} %", fraction * 100.0);
        let what = [
            format!("  chain    {}", self.chain),
            format!("  chunks   {}", table::shape(&self.chunk)),
            format!("  quality  {}", self.quality),
            format!("  reader   {reader}"),
            format!("  why      {}", self.reason),
        ];
        if features.elements == 0 {
            return what.join("\n") + "\n  data     not looked at: there was nothing to choose\n";
        }
        let found = [
            format!(
                "  data     {:?}, {} elements looked at, range {range}, fill {}, repeats {}, distinct {}, \
                 trailing zero bits {}",
                features.class,
                features.elements,
                percent(features.fill),
                percent(features.repeats),
                percent(features.distinct),
                features.trailing_zeros
            ),
            format!(
                "           entropy per byte plane {}, of differences {}",
                list(&features.plane_entropy),
                list(&features.delta_entropy)
            ),
            format!("           bits of difference per axis {}", list(&features.axis_bits)),
            format!("  choosing took {:.1} ms on {} of samples", self.seconds * 1e3, table::bytes(self.sample_bytes)),
        ];
        let what = what.join("\n") + "\n" + &found.join("\n") + "\n";
        if self.candidates.is_empty() {
            return what;
        }
        let header = [
            ("  candidate", Align::Left),
            ("score", Align::Right),
            ("predicted", Align::Right),
            ("tried", Align::Right),
            ("encode", Align::Right),
            ("decode", Align::Right),
            ("J/GB", Align::Right),
            ("", Align::Left),
        ];
        let rows: Vec<Vec<String>> = self.candidates.iter().map(Candidate::cells).collect();
        what + &table::render(&header, &rows)
    }
}

/// What the goal would choose for readers that need more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Wider {
    /// What these readers need.
    pub reader: ReaderLevel,
    /// Expected ratio.
    pub ratio: f64,
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
    pub pace: SpeedFactors,
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

    /// A row of the table of candidates.
    fn cells(&self) -> Vec<String> {
        vec![
            format!("  {}", self.chain),
            format!("{:.3}", self.score),
            format!("{:.2}", self.predicted_ratio),
            self.tried_ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            format!("{:.0} MB/s", self.merits.encode),
            format!("{:.0} MB/s", self.merits.decode),
            format!("{:.0}", self.merits.energy),
            self.dropped.as_ref().map(|why| format!("dropped: {why}")).unwrap_or_default(),
        ]
    }
}

impl Plan {
    /// The plans of the variables, by path.
    pub fn by_path(&self) -> HashMap<&str, &VariablePlan> {
        self.variables.iter().map(|variable| (variable.path.as_str(), variable)).collect()
    }

    /// The choices for the variables that are encoded anew.
    pub fn choices(&self) -> impl Iterator<Item = &Choice> {
        self.variables.iter().filter_map(|variable| match &variable.action {
            Action::Encode(choice) => Some(choice.as_ref()),
            Action::Copy(_) => None,
        })
    }

    /// Share of the bytes of encoded variables that would be saved if `reader` were allowed, as far as it was looked at.
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
    pub fn saved_for(&self, reader: ReaderLevel) -> f64 {
        let (mut now, mut then) = (0.0, 0.0);
        for variable in &self.variables {
            if let Action::Encode(choice) = &variable.action {
                let size = |ratio: f64| variable.raw_bytes as f64 / ratio.max(f64::MIN_POSITIVE);
                let wider = choice.wider.iter().find(|wider| wider.reader == reader);
                now += size(choice.expected.ratio);
                then += size(wider.map_or(choice.expected.ratio, |wider| wider.ratio));
            }
        }
        if now > 0.0 { 1.0 - then / now } else { 0.0 }
    }
}
