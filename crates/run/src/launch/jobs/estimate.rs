//! Route `estimate`: a file that the program has closed is read as for packing, and planned. Nothing is written.

use std::path::PathBuf;

use knarr_array::error::Result;
use knarr_array::table;
use knarr_choose::plan::{Action, VariablePlan};
use knarr_codec::codec::FilterSet;
use knarr_config::FileRule;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::settings::Settings;
use knarr_routes::compress::{Forecast, expected_bytes, forecast, notes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::launch::jobs::closed::{Closed, ClosedJob};
use crate::launch::outcome::{Outcome, Told};
use knarr_worker::Task;

/// Finds out what packing a file would give.
#[derive(Serialize, Deserialize)]
pub(crate) struct Estimate {
    #[serde(with = "knarr_array::path_bytes")]
    input: PathBuf,
    rule: FileRule,
    filters: Option<FilterSet>,
}

impl Task for Estimate {
    const NAME: &'static str = "estimate";
    type Answer = Forecast;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Forecast> {
        let Self { input, rule, filters } = self;
        forecast(engine, &input, &Settings { filters, ..rule.lenient_settings()? }, progress)
    }
}

/// Tells what packing the file would give.
pub(in crate::launch::jobs) fn estimate(job: &ClosedJob, file: &Closed<'_>) -> Result<Outcome> {
    let task = Estimate { input: job.path.clone(), rule: file.rule.clone(), filters: file.filters };
    Ok(job.ask_of(&task, file)?.map_or_else(
        |outcome| outcome,
        |forecast| {
            let (words, more) = (in_words(&forecast), document(&forecast));
            let (path, forecast) = (job.path.clone(), Some(forecast));
            Outcome::Told(Box::new(Told { path, outcome: "estimated", words, more, forecast }))
        },
    ))
}

/// What would become of one file.
fn in_words(forecast: &Forecast) -> String {
    if forecast.output_bytes >= forecast.input_bytes {
        return "compressing would not make it smaller".to_owned();
    }
    format!(
        "would be about {} ({}x) in about {:.2} s: {}",
        table::bytes(forecast.output_bytes),
        table::ratio(forecast.input_bytes, forecast.output_bytes),
        forecast.seconds,
        notes::chains(&forecast.plan)
    )
}

/// What the document of a run says of one file, besides its names and its size.
fn document(forecast: &Forecast) -> Value {
    let variable = |planned: &VariablePlan| {
        let (chain, reason, ratio) = match &planned.action {
            Action::Copy(why) => (None, why, None),
            Action::Encode(choice) => (Some(choice.chain.to_string()), &choice.reason, Some(choice.expected.ratio)),
        };
        json!({
            "name": planned.path.trim_start_matches('/'), "chain": chain, "reason": reason,
            "raw_bytes": planned.raw_bytes, "expected_ratio": ratio, "expected_bytes": expected_bytes(planned),
        })
    };
    json!({
        "expected_bytes": forecast.file_bytes(), "expected_seconds": forecast.seconds,
        "variables": forecast.plan.variables.iter().map(variable).collect::<Vec<_>>(),
    })
}
