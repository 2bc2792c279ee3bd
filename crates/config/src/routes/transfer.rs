//! What the route `transfer` can be asked for: `[file.transfer]`.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use knarr_array::error::Result;
use serde::{Deserialize, Deserializer, Serialize};

use super::compress::CompressRule;
use super::traits::{Traits, UNTOUCHED, keys_of};
use crate::misread::refuse;
use crate::restart::{NamePattern, Time};

/// Components hand over what a rule says that they transfer: see `Snapshot::part`.
pub(super) const TRANSFER: Traits = Traits {
    word: "transfer",
    does: "hands values to the programs that read them",
    // A file that is kept of a transfer is compressed.
    compress: || &["goal", "portable", "low", "high", "output", "variables"],
    own: keys_of::<TransferRule>,
    not_repacked: Some("it is for 'knarr run'"),
    ..UNTOUCHED
};

/// What becomes of a session that a reader has not taken and will not take any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenLate {
    /// It waits for a reader of that name, however long.
    Wait,
    /// A file is made of it.
    #[default]
    Keep,
    /// Its values are discarded.
    Discard,
}

/// When values become visible to the components that read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Publish {
    /// When the writer closes the file.
    #[default]
    Close,
    /// Also at each `dtf_transfer`.
    Transfer,
    /// Also at each collective call that syncs the file.
    Sync,
    /// Also at each collective call that waits for requests.
    Wait,
}

/// How values cross the network to a component on another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InFlight {
    /// Compressed without loss, where that is faster as measured.
    #[default]
    Auto,
    /// The same, and values of variables with a bound may lose something within it.
    Bound,
    /// As they are.
    Raw,
}

/// Directory beside the configuration file in which components meet.
const RENDEZVOUS: &str = ".knarr-transfer";
/// How long one side waits for the other.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(180);
/// Names of components are short: they are names of directories.
const LONGEST_NAME: usize = 64;

/// `[file.transfer]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct TransferRule {
    /// The component that writes the file.
    pub from: Option<String>,
    /// The components that read it.
    pub to: Option<Vec<String>>,
    /// Whether a file is made, too, when the readers have had a session.
    #[serde(default, deserialize_with = "file")]
    pub keep: Option<bool>,
    /// What becomes of sessions that a reader does not take.
    pub when_late: Option<WhenLate>,
    /// When values become visible.
    pub publish: Option<Publish>,
    /// Readers get each session whose number is a multiple of this.
    pub every: Option<NonZeroU64>,
    /// Readers remember what was put and read in a session, for later ones that are alike.
    pub replay: Option<bool>,
    /// The components of `to` write the file, too, after the one of `from` has closed it.
    pub write_only: Option<bool>,
    /// Names of files that are not meant, though the pattern of the rule matches.
    pub exclude: Option<Vec<NamePattern>>,
    /// How values cross the network.
    pub in_flight: Option<InFlight>,
    /// How long one side waits for the other, from the last sign of life on.
    pub timeout: Option<Time>,
    /// Directory in which components meet, relative to the configuration file.
    pub rendezvous: Option<PathBuf>,
}

/// `keep`, which another route has, too.
fn file<'de, D: Deserializer<'de>>(value: D) -> Result<Option<bool>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "true or false; for route \"checkpoint\": a number of sets")]
    enum Keep {
        File(bool),
    }
    Ok(Option::<Keep>::deserialize(value)?.map(|Keep::File(keep)| keep))
}

impl TransferRule {
    /// The component that writes the file.
    pub fn from(&self) -> &str {
        self.from.as_deref().unwrap_or_default()
    }

    /// The components that read it.
    pub fn to(&self) -> &[String] {
        self.to.as_deref().unwrap_or_default()
    }

    /// Whether a file is made, too, when the readers have had a session.
    pub fn keep(&self) -> bool {
        self.keep.unwrap_or(false)
    }

    /// What becomes of sessions that a reader does not take.
    pub fn when_late(&self) -> WhenLate {
        self.when_late.unwrap_or_default()
    }

    /// True if files may be made of sessions.
    pub fn may_make_files(&self) -> bool {
        self.keep() || self.when_late() == WhenLate::Keep
    }

    /// When values become visible.
    pub fn publish(&self) -> Publish {
        self.publish.unwrap_or_default()
    }

    /// True if readers remember what was put and read in a session.
    pub fn replay(&self) -> bool {
        self.replay.unwrap_or(false)
    }

    /// True if the components of `to` write the file, too: they get one on the disk.
    pub fn is_write_only(&self) -> bool {
        self.write_only.unwrap_or(false)
    }

    /// True if the file at `path` is not meant, though the pattern of the rule matches.
    pub fn excludes(&self, path: &Path) -> bool {
        self.exclude.iter().flatten().any(|name| name.matches(path))
    }

    /// True if readers get the session with this number; the first one is 1.
    pub fn is_read(&self, session: u64) -> bool {
        self.every.is_none_or(|every| session % every == 0)
    }

    /// How values cross the network to another node.
    pub fn in_flight(&self) -> InFlight {
        self.in_flight.unwrap_or_default()
    }

    /// How long one side waits for the other, from the last sign of life on.
    pub fn timeout(&self) -> Duration {
        self.timeout.map_or(DEFAULT_TIMEOUT, |time| time.0)
    }

    /// Directory in which components meet; absolute once [`TransferRule::beside`] has made it so.
    pub fn rendezvous(&self) -> &Path {
        self.rendezvous.as_deref().unwrap_or(Path::new(RENDEZVOUS))
    }

    /// Makes the directory in which components meet an absolute one; `directory` holds the configuration file.
    pub fn beside(&mut self, directory: &Path) {
        self.rendezvous = Some(directory.join(self.rendezvous()));
    }

    /// All components.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.from()).chain(self.to().iter().map(String::as_str))
    }

    /// Refuses values that make no sense, alone or beside those of `compress` for a file that is kept.
    pub(super) fn check(&self, pattern: &NamePattern, kept: &CompressRule) -> Result<()> {
        let is_bounded = self.in_flight() == InFlight::Bound;
        // Bounds may be meant for the way of the values.
        kept.check_classic(if is_bounded { kept.says_more_than_bounds() } else { kept.says_anything() })?;
        let leaves_none = |name: &NamePattern| matches!(name.as_str(), "*" | "**") || name.as_str() == pattern.as_str();
        if let Some(name) = self.exclude.iter().flatten().find(|name| leaves_none(name)) {
            return Err(refuse(&format!("exclude = [\"{}\"] leaves no file to this rule", name.as_str()))
                .hint("exclude some of the names that 'pattern' matches, or remove the rule"));
        }
        if is_bounded && !kept.has_bounds() {
            return Err(refuse("in_flight = \"bound\" without a bound: no value could lose anything").hint(
                "state one, such as variables.T.max_rel_error = 1e-3, or write in_flight = \"auto\", which loses nothing",
            ));
        }
        if !self.may_make_files() {
            if is_bounded && (kept.says_more_than_bounds() || kept.output.is_some()) {
                return Err(refuse(
                    "no file is kept of the transfer: goals, formats, chains and chunks say nothing of it; bounds do",
                )
                .hint("remove them, or set keep = true or when_late = \"keep\""));
            }
            if !is_bounded && (kept.says_anything() || kept.output.is_some()) {
                let hint = "remove them, or set keep = true or when_late = \"keep\"; with in_flight = \"bound\" bounds hold \
                            on the way to other nodes";
                return Err(
                    refuse("no file is kept of the transfer: goals, bounds and formats say nothing of it").hint(hint)
                );
            }
        }
        self.check_sides()
    }

    /// Refuses components that cannot be.
    fn check_sides(&self) -> Result<()> {
        let refuse = |what: &str, hint: &str| Err(refuse(what).hint(hint));
        if self.from.is_none() || self.to().is_empty() {
            return refuse(
                "a transfer needs the component that writes and those that read",
                "write from = \"model\" and to = [\"analysis\"]; 'knarr run --as model' names a component",
            );
        }
        let is_name = |name: &str| {
            let is_short = !name.is_empty() && name.len() <= LONGEST_NAME;
            is_short && !name.starts_with('.') && !name.contains(['/', '\0'])
        };
        if let Some(name) = self.components().find(|name| !is_name(name)) {
            return refuse(
                &format!("'{name}' is no name of a component"),
                "write up to 64 characters, none of them '/', that do not begin with '.'",
            );
        }
        let mut names: Vec<&str> = self.components().collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(
                &format!("component '{}' is there twice", pair[0]),
                "name each component once in 'from' and 'to'",
            );
        }
        if self.timeout().is_zero() {
            return refuse(
                "with timeout = \"0s\" every session is given up before its reader can take it",
                "write how long one side waits for the other, such as \"3min\", or remove 'timeout'",
            );
        }
        Ok(())
    }
}
