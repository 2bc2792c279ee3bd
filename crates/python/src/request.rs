//! What a Python call asks for, as JSON from the Python half.

use knarr_array::error::{Error, Result};
use knarr_array::libver::Release;
use knarr_array::quality::Quality;
use knarr_choose::predictor::Predictor;
use knarr_codec::codec::ReaderLevel;
use knarr_config::VariableRule;
use knarr_flow::engine::{Engine, parse_size};
use knarr_flow::pack::Packer;
use knarr_flow::settings::Settings;
use knarr_routes::compress::{named_plan, read_plan};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Settings and resources of one call. Unknown keys are errors.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Request {
    goal: Option<String>,
    portable: Option<ReaderLevel>,
    quality: Quality,
    chain: Option<String>,
    chunks: Option<String>,
    variables: BTreeMap<String, VariableRule>,
    pub(crate) jobs: Option<usize>,
    max_mem: Option<String>,
    model: Option<PathBuf>,
    plan: Option<PathBuf>,
    verify: Option<bool>,
    low: Option<Release>,
    high: Option<Release>,
    pub(crate) force: bool,
}

impl Request {
    pub(crate) fn parse(json: &str) -> Result<Self> {
        // Where in the JSON it is means nothing to the caller, who wrote none.
        serde_json::from_str(json).map_err(|error| {
            let text = error.to_string();
            Error::usage(text.split_once(" at line ").map_or(text.as_str(), |(what, _)| what))
        })
    }

    pub(crate) fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::default();
        if let Some(goal) = &self.goal {
            settings.goal = goal.parse()?;
        }
        settings.portable = self.portable;
        settings.libver = settings.libver.with(self.low, self.high)?;
        settings.quality = self.quality;
        settings.chain = self.chain.as_deref().map(str::parse).transpose()?;
        if let Some(chunks) = &self.chunks {
            settings.chunks = chunks.parse()?;
        }
        settings.verify = self.verify.unwrap_or(true);
        for (name, variable) in &self.variables {
            settings.rules.push(variable.resolve(name).map_err(|error| error.at_variable(name))?);
        }
        settings.check_qualities()?;
        if let Some(path) = &self.plan {
            let plan = read_plan(&named_plan(path))?;
            settings.goal = plan.goal.clone();
            settings.portable = Some(plan.portable);
            settings.plan = Some(Arc::new(plan));
        }
        Ok(settings)
    }

    /// What packs arrays as asked.
    pub(crate) fn packer(&self) -> Result<Packer> {
        let Settings { goal, quality, chain, .. } = self.settings()?;
        Ok(Packer { engine: self.engine()?, goal, quality, chain })
    }

    pub(crate) fn engine(&self) -> Result<Engine> {
        let mut engine = Engine::new(knarr_native::codecs()?);
        engine.jobs = self.jobs.unwrap_or(engine.jobs).max(1);
        engine.stores = Some(knarr_s3::stores());
        if let Some(size) = &self.max_mem {
            engine.max_mem = parse_size(size).map_err(|error| error.at("max_mem"))?;
        }
        if let Some(path) = &self.model {
            engine.predictor = Arc::new(Predictor::read(path)?);
        }
        Ok(engine)
    }
}
