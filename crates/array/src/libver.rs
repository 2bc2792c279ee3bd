//! Releases of HDF5 whose file format an output may use, as `H5Pset_libver_bounds` and h5repack's `--low` and `--high`
//! have them.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A release of HDF5 that changed the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Release {
    /// The oldest form that an object can have.
    Earliest,
    /// HDF5 1.8 (2008).
    V18,
    /// HDF5 1.10 (2016): indices of chunks that take less room, virtual datasets.
    V110,
    /// HDF5 1.12.
    V112,
    /// HDF5 1.14.
    V114,
    /// HDF5 2.0.
    V200,
}

impl Release {
    const NAMES: [(&'static str, Self); 6] = [
        ("earliest", Self::Earliest),
        ("v18", Self::V18),
        ("v110", Self::V110),
        ("v112", Self::V112),
        ("v114", Self::V114),
        ("v200", Self::V200),
    ];

    /// True for releases that find the chunks of a dataset by a B-tree, which takes room for 64 chunks at least.
    pub fn indexes_by_tree(self) -> bool {
        self < Self::V110
    }

    /// About how many bytes the index of so many chunks takes that are written in their order; `rank` is that of the
    /// dataset.
    pub fn chunk_index_bytes(self, chunks: u64, rank: u64) -> u64 {
        if !self.indexes_by_tree() {
            // Address, size and filter mask in an array of fixed or growing size.
            return 512 + chunks.saturating_mul(20);
        }
        // The B-tree of version 1 (HDF5 file format specification, III.A.1): a full node is split so that nine tenths of
        // it stay.
        const CHILDREN: u64 = 64;
        const KEPT: u64 = 57;
        let node = 24 + CHILDREN * 8 + (CHILDREN + 1) * (8 + 8 * (rank + 1));
        let (mut nodes, mut level) = (0u64, chunks);
        loop {
            level = if level <= CHILDREN { 1 } else { level.div_ceil(KEPT) };
            nodes = nodes.saturating_add(level);
            if level == 1 {
                return nodes.saturating_mul(node);
            }
        }
    }

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, release)| *release == self).map_or("latest", |(name, _)| name)
    }
}

impl std::str::FromStr for Release {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, release)| *release);
        found.or((text == "latest").then_some(Self::V200)).ok_or_else(|| {
            Error::usage(format!("'{text}' is no release of HDF5"))
                .hint("choose earliest, v18, v110, v112, v114, v200 or latest")
        })
    }
}

impl TryFrom<String> for Release {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Release> for String {
    fn from(release: Release) -> Self {
        release.name().to_owned()
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The oldest form that objects get, and the newest that they may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibverBounds {
    /// Objects have at least the form of this release.
    pub low: Release,
    /// What needs a newer release than this is an error.
    pub high: Release,
}

impl Default for LibverBounds {
    /// The oldest form in which an object can be said, so that the oldest readers open it.
    fn default() -> Self {
        Self { low: Release::Earliest, high: Release::V200 }
    }
}

impl LibverBounds {
    /// The same with those of `low` and `high` that are given.
    ///
    /// # Errors
    /// `Usage` if there is no such range.
    pub fn with(self, low: Option<Release>, high: Option<Release>) -> Result<Self> {
        let (low, high) = (low.unwrap_or(self.low), high.unwrap_or(self.high));
        if high == Release::Earliest {
            return Err(Error::usage("high is 'earliest'").hint("v18 is the oldest release that high can name"));
        }
        if low > high {
            return Err(Error::usage(format!("low is {low}, which is newer than high, {high}"))
                .hint("give a range: low is the oldest form that is written, high the newest"));
        }
        Ok(Self { low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_h5repack() {
        for (name, release) in Release::NAMES {
            assert_eq!((name.parse::<Release>().unwrap(), release.to_string()), (release, name.to_owned()));
        }
        assert_eq!("latest".parse::<Release>().unwrap(), Release::V200);
        assert!("1.8".parse::<Release>().is_err());
    }

    #[test]
    fn ranges_that_hold_nothing_are_refused() {
        let bounds = LibverBounds::default();
        assert_eq!(bounds.with(Some(Release::V110), None).unwrap().low, Release::V110);
        assert!(bounds.with(Some(Release::V110), Some(Release::V18)).is_err());
        assert!(bounds.with(None, Some(Release::Earliest)).is_err());
    }
    #[test]
    fn a_tree_of_chunks_has_a_node_for_every_57_and_levels_above() {
        let node = 24 + 512 + 65 * 40;
        assert_eq!(Release::Earliest.chunk_index_bytes(1, 3), node);
        assert_eq!(Release::V18.chunk_index_bytes(64, 3), node);
        assert_eq!(Release::Earliest.chunk_index_bytes(65, 3), 3 * node);
        assert_eq!(Release::Earliest.chunk_index_bytes(57 * 65, 3), (65 + 2 + 1) * node);
        assert!(Release::Earliest.chunk_index_bytes(u64::MAX, 3) > 1 << 60);
    }
}
