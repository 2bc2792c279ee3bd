//! Route `estimate`: a file that the program has closed is read as for packing, and planned. Nothing is written.

use std::path::PathBuf;

use knarr_array::error::Result;
use knarr_codec::codec::FilterSet;
use knarr_config::FileRule;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::settings::Settings;
use knarr_routes::compress::{Forecast, forecast};
use serde::{Deserialize, Serialize};

use knarr_worker::Task;

/// Finds out what packing a file would give.
#[derive(Serialize, Deserialize)]
pub(crate) struct Estimate {
    #[serde(with = "knarr_array::path_bytes")]
    pub(in crate::launch) input: PathBuf,
    pub(in crate::launch) rule: FileRule,
    pub(in crate::launch) filters: Option<FilterSet>,
}

impl Task for Estimate {
    const NAME: &'static str = "estimate";
    type Answer = Forecast;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Forecast> {
        let Self { input, rule, filters } = self;
        forecast(engine, &input, &Settings { filters, ..rule.lenient_settings()? }, progress)
    }
}
