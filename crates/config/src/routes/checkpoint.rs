//! What the route `checkpoint` can be asked for: `[file.checkpoint]`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_checkpoint::grouping::check_sizes;
use knarr_checkpoint::similarity::{BUNDLE_BELOW, Similarity};
use knarr_checkpoint::{PackOptions, Scheme};
use serde::{Deserialize, Deserializer, Serialize};

use super::traits::{Traits, UNTOUCHED, keys_of};
use crate::misread::refuse;
use crate::restart::{NamePattern, Ranks, Time};

pub(super) const CHECKPOINT: Traits = Traits {
    word: "checkpoint",
    does: "packs every byte into sets once files are written",
    own: keys_of::<CheckpointRule>,
    is_told: true,
    not_repacked: Some("it is for 'knarr checkpoint pack' and 'knarr run'"),
    ..UNTOUCHED
};

/// `[file.checkpoint]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct CheckpointRule {
    /// Named goal, weights or limits, as on the command line.
    pub goal: Option<String>,
    /// Ranks that share a file of frames.
    pub group_size: Option<usize>,
    /// How ranks' files are merged.
    pub scheme: Option<Scheme>,
    /// Bytes of the blocks of schemes with blocks.
    pub block_size: Option<u64>,
    /// Regular expressions that make names similar, see [`Similarity::new`].
    pub similar: Option<Vec<String>>,
    /// Variables of fewer bytes are bundled.
    pub bundle_below: Option<u64>,
    /// Copies of what sets share, 1 or 2.
    pub copies: Option<u8>,
    /// For `knarr run`: the ranks that write a file in each step.
    pub ranks: Option<Ranks>,
    /// For `knarr run`: directory for sets, relative to the configuration file.
    pub sets: Option<PathBuf>,
    /// For `knarr run`: how many of the newest sets stay.
    #[serde(default, deserialize_with = "sets")]
    pub keep: Option<NonZeroU32>,
    /// For `knarr run`: files are removed when their set is complete and safe on disk.
    pub remove_originals: Option<bool>,
    /// For `knarr run`: a file that was not written to for so long is finished.
    pub settle: Option<Time>,
}

/// `keep`, which another route has, too.
fn sets<'de, D: Deserializer<'de>>(value: D) -> Result<Option<NonZeroU32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "a nonzero number, of the newest sets that stay; for route \"transfer\": true or false"
    )]
    enum Keep {
        Sets(NonZeroU32),
    }
    Ok(Option::<Keep>::deserialize(value)?.map(|Keep::Sets(sets)| sets))
}

impl CheckpointRule {
    /// What counts as similar.
    ///
    /// # Errors
    /// As for [`Similarity::new`].
    pub fn similarity(&self) -> Result<Similarity> {
        Similarity::new(self.similar(), self.bundle_below.unwrap_or(BUNDLE_BELOW))
    }

    /// Regular expressions that make names similar.
    pub fn similar(&self) -> &[String] {
        self.similar.as_deref().unwrap_or_default()
    }

    /// How files are merged and compressed into a set.
    ///
    /// # Errors
    /// As for [`FileRule::pack_options`](crate::FileRule::pack_options).
    pub fn pack_options(&self) -> Result<PackOptions> {
        let mut options = PackOptions { similarity: self.similarity()?, attributes: true, ..PackOptions::default() };
        if let Some(goal) = &self.goal {
            options.goal = goal.parse()?;
        }
        options.scheme = self.scheme.unwrap_or(options.scheme);
        options.group_size = self.group_size.unwrap_or(options.group_size);
        options.copies = self.copies.unwrap_or(options.copies);
        options.block_size = self.block_size.unwrap_or(options.block_size);
        Ok(options)
    }

    /// Refuses values that make no sense.
    pub(super) fn check(&self, pattern: &NamePattern) -> Result<()> {
        if self.ranks.is_some() && pattern.restart_files().is_some_and(|files| !files.names.has_rank()) {
            return Err(refuse("a pattern without {rank} stands for one file in each step: it takes no 'ranks'")
                .hint("remove 'ranks', or write where the rank stands: restart_{step}_{rank}.h5"));
        }
        let sizes = check_sizes(self.group_size.unwrap_or(1), self.block_size.unwrap_or(1));
        sizes.map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
        if self.copies.is_some_and(|copies| !(1..=2).contains(&copies)) {
            let error = Error::new(ErrorKind::Config, "what sets share is there once or twice");
            return Err(error.hint("write copies = 1 or copies = 2"));
        }
        self.pack_options().map(drop)
    }
}
