//! A rule: what matters for a family of files.

use knarr_array::error::Result;
use knarr_checkpoint::PackOptions;
use knarr_flow::settings::Settings;
use serde::{Deserialize, Serialize};

use super::checkpoint::CheckpointRule;
use super::compress::{CompressRule, When};
use super::restart::NamePattern;
use super::route::Route;
use super::transfer::TransferRule;

/// `[[file]]`: what all routes have, and what each of them asks for. The keys of routes that are not this one's say nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileRule {
    /// Pattern of file names with `*`, `?` and `{member}`; for the route `checkpoint` also with `{step}` and `{rank}`.
    pub pattern: NamePattern,
    /// Where the values go.
    pub route: Route,
    /// `[file.compress]`
    pub compress: CompressRule,
    /// `[file.checkpoint]`
    pub checkpoint: CheckpointRule,
    /// `[file.transfer]`
    pub transfer: TransferRule,
}

impl FileRule {
    /// The settings for files that are compressed.
    ///
    /// # Errors
    /// `Usage` for goals, chains, chunks or qualities that do not parse or contradict each other.
    pub fn settings(&self) -> Result<Settings> {
        self.compress.settings()
    }

    /// How restart files are merged and compressed into a set.
    ///
    /// # Errors
    /// `Usage` for a goal or expressions that make no sense, which reading the configuration refuses.
    pub fn pack_options(&self) -> Result<PackOptions> {
        self.checkpoint.pack_options()
    }

    /// True if files that match are compressed as the program writes them.
    pub fn compresses_writes(&self) -> bool {
        self.route == Route::Compress && self.compress.when() == When::Write
    }

    /// True if it asks for anything that could not be served.
    pub fn says_anything(&self) -> bool {
        self.compress.says_anything()
    }
}
