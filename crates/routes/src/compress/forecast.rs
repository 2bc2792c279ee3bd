//! What a plan is expected to give and to take, for who wants to know before anything is written.

use std::collections::HashMap;

use knarr_array::model::Variable;
use knarr_choose::plan::{Action, Plan, VariablePlan};
use knarr_flow::energy::Phases;
use knarr_flow::settings::Settings;
use knarr_flow::store::Source;
use knarr_formats::output::OutputKind;
use serde::{Deserialize, Serialize};

use super::repacked::read_bytes;

/// A plan, and what carrying it out is expected to come to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Forecast {
    /// What would be done.
    pub plan: Plan,
    /// Bytes of the input.
    pub input_bytes: u64,
    /// Bytes that the output would take: values, and for HDF5 what finds their chunks and what else the input holds.
    pub output_bytes: u64,
    /// Processor time of choosing, which is over, and of encoding and proving, by the figures of the profile, in seconds of
    /// one core. Reading and writing depend on the disk and are not in it.
    pub seconds: f64,
}

impl Forecast {
    /// What to expect of `plan`, which was made for `source` and an output of this kind by `settings`.
    pub fn of(plan: Plan, source: &dyn Source, kind: &dyn OutputKind, settings: &Settings) -> Self {
        let variables = &source.model().variables;
        let by_path: HashMap<&str, &Variable> =
            variables.iter().map(|variable| (variable.path.as_str(), variable)).collect();
        let stored = |variable: &Variable| variable.stored_bytes.unwrap_or_else(|| variable.raw_bytes());
        let of = |planned: &VariablePlan| {
            let variable = by_path.get(&*planned.path);
            match (&planned.action, expected_bytes(planned)) {
                (Action::Encode(choice), Some(bytes)) => {
                    let index = |variable: &&Variable| kind.index_bytes(variable, &choice.chunk, settings.libver);
                    bytes + variable.map_or(0, index)
                }
                _ => variable.map_or(planned.raw_bytes, |variable| stored(variable)),
            }
        };
        let input_bytes = read_bytes(source);
        let besides = kind.bytes_besides(input_bytes, variables.iter().map(stored).sum());
        let output_bytes = besides + plan.variables.iter().map(of).sum::<u64>();
        Self { input_bytes, output_bytes, seconds: phases(&plan).sum(), plan }
    }

    /// Bytes of the file as it would be; `route = "compress"` leaves a file that would not get smaller.
    pub fn file_bytes(&self) -> u64 {
        self.output_bytes.min(self.input_bytes)
    }
}

/// Bytes that the values of a variable would take; `None` if they are copied as they are stored.
#[expect(clippy::cast_precision_loss, reason = "a forecast")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes are far below 2^63")]
pub fn expected_bytes(variable: &VariablePlan) -> Option<u64> {
    let Action::Encode(choice) = &variable.action else { return None };
    Some((variable.raw_bytes as f64 / choice.expected.ratio.max(0.1)).round() as u64)
}

#[expect(clippy::cast_precision_loss, reason = "a forecast")]
fn phases(plan: &Plan) -> Phases {
    let mut phases = Phases::default();
    for variable in &plan.variables {
        if let Action::Encode(choice) = &variable.action {
            let megabytes = variable.raw_bytes as f64 / 1e6;
            phases.choose += choice.seconds;
            phases.encode += megabytes / choice.expected.encode;
            phases.prove += megabytes / choice.expected.decode;
        }
    }
    phases
}
