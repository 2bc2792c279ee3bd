//! What is done with a program's file in a process of its own: the program may open it again at any moment, and what
//! reads it then may crash.

use std::collections::BTreeSet;
use std::path::PathBuf;

use knarr_array::error::Result;
use knarr_capture::Prescription;
use knarr_codec::codec::FilterSet;
use knarr_config::FileRule;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::Replaces;
use knarr_flow::settings::Settings;
use knarr_routes::compress::{Encoded, Pipeline, RepackOptions, Repacked, encoded, pack, pipelines};
use serde::{Deserialize, Serialize};

use crate::worker::Task;

/// Writes what a file holds to another one, packed.
#[derive(Serialize, Deserialize)]
pub(crate) struct PackFile {
    #[serde(with = "knarr_array::path_bytes")]
    pub(in crate::launch) input: PathBuf,
    #[serde(with = "knarr_array::path_bytes")]
    pub(in crate::launch) output: PathBuf,
    pub(in crate::launch) rule: FileRule,
    pub(in crate::launch) filters: Option<FilterSet>,
    pub(in crate::launch) command: String,
    pub(in crate::launch) when: String,
}

impl Task for PackFile {
    const NAME: &'static str = "pack file";
    type Answer = Repacked;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Repacked> {
        let Self { input, output, rule, filters, command, when } = self;
        // The plan is saved when the program has ended.
        let options =
            RepackOptions { replaces: Replaces::Anything, command, when, save_plan: false, classic_above: None };
        let settings = Settings { filters, ..rule.lenient_settings()? };
        pack(engine, &input, &output, &settings, &options, progress)
    }
}

/// Looks at a file that was compressed as it was written.
#[derive(Serialize, Deserialize)]
pub(crate) struct Look {
    #[serde(with = "knarr_array::path_bytes")]
    pub(in crate::launch) path: PathBuf,
    /// Number of the rule.
    pub(in crate::launch) number: usize,
    pub(in crate::launch) rule: FileRule,
    pub(in crate::launch) filters: Option<FilterSet>,
    /// Datasets that were compressed as they were written; the others the program has compressed by itself, or nobody.
    pub(in crate::launch) compressed: BTreeSet<String>,
    /// Whether to find the chains that would have suited it, for the next files of its rule.
    pub(in crate::launch) learn: bool,
}

/// What was found.
#[derive(Serialize, Deserialize)]
pub struct Found {
    /// How its datasets are stored, and what that took.
    pub encoded: Encoded,
    pub(in crate::launch) learnt: Vec<Prescription>,
}

impl Task for Look {
    const NAME: &'static str = "look";
    type Answer = Found;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Found> {
        let Self { path, number, rule, filters, compressed, learn } = self;
        let settings = Settings { filters, ..rule.lenient_settings()? };
        let encoded = encoded(engine, &path, |variable| compressed.contains(variable))?;
        let suited = if learn { pipelines(engine, &path, &settings, progress)? } else { Vec::new() };
        let learnt = suited.into_iter().map(|Pipeline { path, dtype, chain, filters }| Prescription {
            rule: number,
            variable: path,
            dtype,
            chain,
            filters,
            asked: false,
        });
        Ok(Found { encoded, learnt: learnt.collect() })
    }
}
