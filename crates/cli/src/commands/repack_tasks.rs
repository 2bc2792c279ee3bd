//! What is done with one input of `knarr repack`, here or in a process of its own.

use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::settings::{Name, Settings};
use knarr_flow::store::Source;
use knarr_formats::output;
use knarr_routes::compress::{Forecast, RepackOptions, Repacked, forecast_source, repack_source};
use knarr_worker::Task;
use serde::{Deserialize, Serialize};

use crate::arguments::args::{CompressionOptions, Inputs, Repack};
use crate::arguments::inputs::Opener;
use crate::arguments::request::Request;
use crate::printing::terminal::print_notes;

/// One input and its output, with all that was asked for: what another process needs, too.
#[derive(Serialize, Deserialize)]
pub(crate) struct One {
    #[serde(with = "knarr_array::path_bytes")]
    pub(crate) input: PathBuf,
    #[serde(with = "knarr_array::path_bytes")]
    pub(crate) output: PathBuf,
    inputs: Inputs,
    variable: Vec<String>,
    compression: CompressionOptions,
    #[serde(with = "knarr_array::path_bytes::option")]
    plan: Option<PathBuf>,
    force: bool,
    verify: bool,
    /// Names that it lacks are those of another input.
    is_of_many: bool,
    command: String,
    when: String,
}

impl One {
    pub(crate) fn new(arguments: &Repack, input: &Path, output: &Path, is_of_many: bool) -> Self {
        Self {
            input: input.to_owned(),
            output: output.to_owned(),
            inputs: arguments.inputs.clone(),
            variable: arguments.variable.clone(),
            compression: arguments.compression.clone(),
            plan: arguments.plan.clone(),
            force: arguments.force,
            verify: !arguments.no_verify,
            is_of_many,
            command: crate::report::command_line(),
            when: knarr_flow::provenance::today(),
        }
    }

    fn request(&self) -> Result<Request> {
        Request::new(&self.compression)?.by_plan(self.plan.as_deref())
    }

    fn settings(&self, request: &Request) -> Result<Settings> {
        let settings = request.settings(&self.input)?;
        Ok(Settings { verify: self.verify, names_of_many: self.is_of_many, ..settings })
    }

    /// The variables that were asked for, or all.
    fn open(&self, engine: &Engine) -> Result<Box<dyn Source>> {
        let source = Opener::new(engine, &self.inputs)?.open_watched(&self.input)?;
        if self.variable.is_empty() {
            return Ok(source);
        }
        // Variables of one file have one number of records where all of them are seen.
        knarr_formats::select(knarr_formats::whole_records(source), &self.variable)
            .map_err(|error| error.at(self.input.display().to_string()))
    }

    fn repack(&self, engine: &Engine, progress: &dyn Progress) -> Result<Repacked> {
        let options = RepackOptions {
            replaces: self.force.into(),
            command: self.command.clone(),
            when: self.when.clone(),
            save_plan: true,
            ..RepackOptions::default()
        };
        let request = self.request()?;
        repack_source(engine, self.open(engine)?, &self.output, &self.settings(&request)?, &options, progress)
            .map_err(|error| request.blame(error, &self.input))
    }

    fn plan(&self, engine: &Engine, progress: &dyn Progress) -> Result<Forecast> {
        let source = self.open(engine)?;
        print_notes(output::of(&self.output).map_or_else(|_| Vec::new(), |kind| kind.names_lost(source.as_ref())));
        let request = self.request()?;
        forecast_source(engine, source, &self.output, &self.settings(&request)?, progress)
            .map_err(|error| request.blame(error, &self.input))
    }

    /// Names in its settings that it has not.
    fn lacking(&self, engine: &Engine) -> Result<Vec<(Name, Error)>> {
        let source = Opener::new(engine, &self.inputs)?.open(&self.input)?;
        Ok(self.settings(&self.request()?)?.lacking(source.model()))
    }
}

/// Repacks it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Repacking(pub(crate) One);

impl Task for Repacking {
    const NAME: &'static str = "repack";
    type Answer = Repacked;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Repacked> {
        self.0.repack(engine, progress)
    }
}

/// Plans it, and says what to expect.
#[derive(Serialize, Deserialize)]
pub(crate) struct Planning(pub(crate) One);

impl Task for Planning {
    const NAME: &'static str = "plan";
    type Answer = Forecast;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Forecast> {
        self.0.plan(engine, progress)
    }
}

/// Finds names in its settings that it has not.
#[derive(Serialize, Deserialize)]
pub(crate) struct Lacking(pub(crate) One);

impl Task for Lacking {
    const NAME: &'static str = "lacking";
    type Answer = Vec<(Name, Error)>;

    fn run(self, engine: &Engine, _progress: &dyn Progress) -> Result<Vec<(Name, Error)>> {
        self.0.lacking(engine)
    }
}
