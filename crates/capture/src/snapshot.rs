//! What was asked for when a run began.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::{Config, FileRule, Route};
use knarr_codec::codec::{FilterSet, ReaderLevel};

use super::Prescription;

/// The configuration as the launcher read and checked it. Later changes of `knarr.toml` are for the next run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The rules.
    pub config: Config,
    /// Filters asked for and learnt, for files that are compressed as they are written. Later ones win.
    pub prescriptions: Vec<Prescription>,
    /// Filters that may be chosen: programs are asked which of them their HDF5 has.
    pub filters: FilterSet,
    /// The library that holds Knarr's HDF5 filter and its encoders, if it was found.
    pub library: Option<PathBuf>,
    /// Threads that may encode at most, in each process.
    pub threads: usize,
    /// Where programs hand values over, if there is a place.
    pub spool: Option<SpoolPlace>,
    /// Directory of the adapters for MPI.
    pub adapters: PathBuf,
}

/// Where programs hand values over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpoolPlace {
    /// A directory in memory.
    pub directory: PathBuf,
    /// Bytes that values may take there.
    pub most: u64,
    /// A directory on a disk for values that find no room in memory.
    pub disk: PathBuf,
}

impl SpoolPlace {
    /// Files of values that were of use, whose memory is there already.
    pub fn free(&self) -> PathBuf {
        free_of(&self.directory)
    }
}

/// As [`SpoolPlace::free`], of the spool at `directory`.
pub fn free_of(directory: &Path) -> PathBuf {
    directory.join("free")
}

impl Snapshot {
    /// What `config` alone says: nothing learnt, no library, one thread.
    pub fn new(config: Config) -> Self {
        let (prescriptions, filters) = (Vec::new(), FilterSet::default());
        Self { config, prescriptions, filters, library: None, threads: 1, spool: None, adapters: PathBuf::new() }
    }

    /// True if some file may have chunks that only Knarr's filter reads.
    pub fn uses_own_filter(&self) -> bool {
        let rules = self.config.file.iter().filter(|rule| rule.route == Route::Compress);
        rules.filter_map(|rule| rule.settings().ok()).any(|settings| settings.portable == Some(ReaderLevel::Knarr))
    }

    /// Reads the snapshot in the directory of a run; `None` if it is not there or cannot be read.
    pub fn read(directory: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(directory.join(super::SNAPSHOT)).ok()?).ok()
    }

    /// False if no rule can match a file of this name, whatever its directory. Quick, for calls that are frequent.
    pub fn may_concern(&self, name: &str) -> bool {
        self.config.file.iter().any(|rule| {
            let wild: &[char] = if rule.pattern.restart_files().is_some() { &['*', '?', '}'] } else { &['*', '?'] };
            let tail = rule.pattern.as_str().rsplit(wild).next().unwrap_or_default();
            // What stands behind the last wildcard ends the path, and with it the name.
            tail.contains('/') || tail.len() > name.len() || name.ends_with(tail)
        })
    }

    /// The rule by which the file at the absolute path `path` is to be compressed, with its number.
    pub fn rule_for(&self, path: &Path) -> Option<(usize, &FileRule)> {
        self.told_of(path).filter(|(_, rule)| rule.route == Route::Compress)
    }

    /// The rule for the file at the absolute path `path`, with its number, if the launcher wants to know when it is
    /// opened and closed: files to be compressed, and restart files, which are not touched.
    pub fn told_of(&self, path: &Path) -> Option<(usize, &FileRule)> {
        let rule = self.config.rule_for(path).filter(|rule| rule.route != Route::File)?;
        let number = self.config.file.iter().position(|other| std::ptr::eq(other, rule))?;
        Some((number, rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_look_passes_over_no_file_that_a_rule_matches() {
        let patterns =
            ["a*.nc", "*.h5", "/data/*/x", "x?", "out*/b.nc", "*", "restart_1"].map(|plain| (plain, "compress"));
        let restart = ["restart_{step}", "b{rank}.h{step}", "out{step}/b.nc"].map(|pattern| (pattern, "checkpoint"));
        for (pattern, route) in patterns.into_iter().chain(restart) {
            let config = Config::parse(&format!("[[file]]\npattern = \"{pattern}\"\nroute = \"{route}\"\n")).unwrap();
            let snapshot = Snapshot::new(config);
            for path in
                ["/data/a1.nc", "/data/q/x", "/data/x1", "/out1/b.nc", "/out/c/b.nc", "/restart_1", "/b.h5", "/b1.h5"]
            {
                let name = path.rsplit('/').next().unwrap();
                let matches = snapshot.told_of(Path::new(path)).is_some();
                assert!(!matches || snapshot.may_concern(name), "{pattern} {path}");
            }
        }
        let config = Config::parse("[[file]]\npattern = \"a*.nc\"\n").unwrap();
        assert!(!Snapshot::new(config).may_concern("a.h5"));
    }
}
