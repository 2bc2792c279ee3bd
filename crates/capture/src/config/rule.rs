//! A rule: what matters for a family of files.

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_checkpoint::PackOptions;
use knarr_flow::settings::Settings;
use serde::{Deserialize, Serialize};

use super::checkpoint::CheckpointRule;
use super::compress::{CompressRule, Output, When};
use super::restart::NamePattern;
use super::transfer::{InFlight, Keep, TransferRule};

/// Where the values of a family of files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// A standard file with chosen chains.
    #[default]
    Compress,
    /// Untouched.
    File,
    /// Packed with those of other ranks into a set.
    Checkpoint,
    /// Into the memory of programs that read the file.
    Transfer,
}

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

    /// Refuses values that make no sense, and keys that the route would not heed.
    pub(super) fn check(&self) -> Result<()> {
        self.settings()?;
        if self.route == Route::Checkpoint {
            return self.check_checkpoint();
        }
        self.check_other()?;
        if self.route == Route::Transfer { self.check_transfer() } else { Ok(()) }
    }

    fn check_transfer(&self) -> Result<()> {
        if self.compresses_writes() || self.compress.when.is_some() || self.compress.wait.is_some() {
            return Err(refuse("'when' and 'wait' say nothing of transfers").hint("remove them"));
        }
        let is_kept = self.transfer.keep() != Keep::No;
        if self.transfer.in_flight() == InFlight::Bound {
            if !self.compress.has_bounds() {
                return Err(refuse("in_flight = \"bound\" without a bound: no value could lose anything").hint(
                    "state one, such as variables.T.max_rel_error = 1e-3, or write in_flight = \"auto\", which loses nothing",
                ));
            }
            if !is_kept && (self.compress.says_more_than_bounds() || self.compress.output.is_some()) {
                return Err(refuse(
                    "no file is kept of the transfer: goals, formats, chains and chunks say nothing of it; bounds do",
                )
                .hint("remove them, or set keep = true or keep = \"late\""));
            }
        } else if !is_kept && (self.compress.says_anything() || self.compress.output.is_some()) {
            let hint = "remove them, or set keep = true or keep = \"late\"; with in_flight = \"bound\" bounds hold on the way \
                        to other nodes";
            return Err(
                refuse("no file is kept of the transfer: goals, bounds and formats say nothing of it").hint(hint)
            );
        }
        self.transfer.check()
    }

    fn check_checkpoint(&self) -> Result<()> {
        if self.transfer.says_anything() {
            return Err(refuse(
                "from, to, publish, every, exclude, replay, in_flight, timeout, rendezvous and keep = true are for route \"transfer\"",
            )
            .hint("remove them; 'keep' is the number of sets that stay"));
        }
        let CompressRule { when, portable, low, high, output, wait, variables, .. } = &self.compress;
        if variables.as_ref().is_some_and(|variables| !variables.is_empty()) {
            return Err(refuse("checkpoints keep every byte: they take no settings of variables")
                .hint("remove 'variables', or choose the route \"compress\""));
        }
        let says_of_files = portable.is_some() || low.is_some() || high.is_some();
        let says_of_files = says_of_files || output.is_some() || wait.is_some();
        if when.is_some_and(|when| when != When::Close) || says_of_files {
            return Err(refuse(
                "checkpoints are packed once they are written, into sets: 'when', 'portable', 'low', 'high', 'output' and \
                 'wait' say nothing of them",
            )
            .hint("remove them, or choose the route \"compress\""));
        }
        if self.checkpoint.ranks.is_some() && self.pattern.restart_files().is_some_and(|files| !files.names.has_rank())
        {
            return Err(refuse("a pattern without {rank} stands for one file in each step: it takes no 'ranks'")
                .hint("remove 'ranks', or write where the rank stands: restart_{step}_{rank}.h5"));
        }
        self.checkpoint.check()
    }

    fn check_other(&self) -> Result<()> {
        let CompressRule { goal, portable, low, high, output, variables, .. } = &self.compress;
        let asks = goal.is_some() || portable.is_some() || low.is_some() || high.is_some();
        // Bounds may be meant for the way of the values.
        let asks = asks || variables.as_ref().is_some_and(|variables| !variables.is_empty());
        let is_lost_in_flight = self.transfer.in_flight() == InFlight::Bound;
        let asks = if is_lost_in_flight { self.compress.says_more_than_bounds() } else { asks };
        if *output == Some(Output::Classic) && asks {
            return Err(refuse(
                "output = \"classic\" keeps values as they are: goals, bounds and readers say nothing of it",
            )
            .hint("remove them, or choose \"netcdf4\" or \"zarr\""));
        }
        if self.pattern.restart_files().is_some() {
            return Err(refuse("{step} and {rank} are for route \"checkpoint\"").hint("write * in their place"));
        }
        if self.route != Route::Transfer && self.transfer.says_anything() {
            return Err(refuse(
                "from, to, publish, every, exclude, replay, in_flight, timeout, rendezvous and keep = true are for route \"transfer\"",
            )
            .hint("add route = \"transfer\", or remove them"));
        }
        if self.checkpoint.says_anything() {
            return Err(refuse(
                "group_size, scheme, block_size, similar, bundle_below, copies, ranks, sets, keep, remove_originals and \
                 settle are for route \"checkpoint\"",
            )
            .hint("add route = \"checkpoint\", or remove them"));
        }
        Ok(())
    }
}

fn refuse(message: &str) -> Error {
    Error::new(ErrorKind::Config, message)
}
