//! What is done with a program's file in a process of its own: the program may open it again at any moment, and what
//! reads it then may crash.

use std::path::PathBuf;

use knarr_array::error::Result;
use knarr_codec::codec::FilterSet;
use knarr_config::FileRule;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::Replaces;
use knarr_flow::settings::Settings;
use knarr_routes::compress::{RepackOptions, Repacked, pack};
use rustix::fs::Mode;
use rustix::process::umask;
use serde::{Deserialize, Serialize};

use knarr_worker::Task;

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
        let options = RepackOptions { replaces: Replaces::Anything, command, when, ..RepackOptions::default() };
        let settings = Settings { filters, ..rule.lenient_settings()? };
        pack(engine, &input, &output, &settings, &options, progress)
    }
}

/// What was made.
#[derive(Serialize, Deserialize)]
pub(crate) struct Made {
    pub(in crate::launch::jobs) repacked: Repacked,
    /// It is a file in place of a Zarr store.
    pub(in crate::launch::jobs) is_file: bool,
    /// It waits in a tier.
    pub(in crate::launch::jobs) is_staged: bool,
    /// What it is known by in its place, if a copy of it is to stay in a tier.
    pub(in crate::launch::jobs) placed: Option<String>,
}

/// Has this process deny new files the permissions that the program denies them, until it is dropped.
pub(in crate::launch::jobs) struct Mask(Mode);

impl Mask {
    pub(in crate::launch::jobs) fn of_program(mask: u32) -> Self {
        Self(umask(Mode::from_bits_truncate(mask)))
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        umask(self.0);
    }
}
