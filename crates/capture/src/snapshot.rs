//! What was asked for when a run began.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use knarr_codec::codec::{FilterSet, ReaderLevel};
use knarr_config::{Config, FileRule, Output, Route};

use super::tiers::SpoolPlace;

/// The configuration as the launcher read and checked it. Later changes of `knarr.toml` are for the next run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The rules.
    pub config: Config,
    /// Filters that may be chosen: programs are asked which of them their HDF5 has.
    pub filters: FilterSet,
    /// The library that holds Knarr's HDF5 filter, if it was found.
    pub library: Option<PathBuf>,
    /// Where programs hand values over, if there is a place.
    pub spool: Option<SpoolPlace>,
    /// Directory of the adapters for MPI.
    pub adapters: PathBuf,
    /// The name of the program among those that transfer files to each other.
    pub component: Option<String>,
}

/// What a program does with files of route `transfer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It writes them.
    Writes,
    /// It reads them.
    Reads,
}

impl Snapshot {
    /// What `config` alone says: no library, no spool.
    pub fn new(config: Config) -> Self {
        let (library, spool, adapters) = (None, None, PathBuf::new());
        Self { config, filters: FilterSet::default(), library, spool, adapters, component: None }
    }

    /// True if some file may have chunks that only Knarr's filter reads.
    pub fn uses_own_filter(&self) -> bool {
        let rules = self.config.file.iter().filter(|rule| rule.route().traits().is_handed_over);
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

    /// What the last component of a name ends with that may be pending, and whether names of stores may be. Quick to compare.
    pub fn pending_tails(&self) -> (Vec<String>, bool) {
        let rules = self.config.file.iter();
        let rules = rules.filter(|rule| rule.route().traits().is_handed_over || rule.route() == Route::Transfer);
        let (mut tails, mut has_stores) = (Vec::new(), false);
        for rule in rules {
            let tail = rule.pattern.as_str().rsplit(['*', '?', '}', '/']).next().unwrap_or_default();
            tails.push(tail.to_owned());
            if *rule.compress().output() == Output::Zarr {
                tails.push(".zarr".to_owned());
                has_stores = true;
            }
        }
        tails.sort();
        tails.dedup();
        (tails, has_stores)
    }

    /// The rule by which the launcher does something with the file at the absolute path `path` once it is closed, with its
    /// number.
    pub fn rule_for(&self, path: &Path) -> Option<(usize, &FileRule)> {
        self.told_of(path).filter(|(_, rule)| rule.route().traits().is_done_when_closed)
    }

    /// What this program has to do with files of the rule, if the rule is for transfers and the program has a part in them.
    pub fn part(&self, rule: &FileRule) -> Option<Part> {
        let component = self.component.as_deref().filter(|_| rule.route() == Route::Transfer)?;
        if rule.transfer().from() == component {
            return Some(Part::Writes);
        }
        rule.transfer().to().iter().any(|name| name == component).then_some(Part::Reads)
    }

    /// The rule for the file at the absolute path `path`: the first one of those by which this program has that part in the
    /// file's transfer, or else the first one.
    pub fn rule_to(&self, path: &Path, does: Option<Part>) -> Option<&FileRule> {
        let has_part = |rule: &&FileRule| does.is_some() && self.part(rule) == does;
        let first = self.config.rule_for(path)?;
        // Another route in front keeps its files.
        let mut transfers = self.config.rules_for(path).take_while(|rule| rule.route() == Route::Transfer);
        Some(transfers.find(has_part).unwrap_or(first))
    }

    /// The rule for the file at the absolute path `path`, with its number, if the launcher wants to know when it is
    /// opened and closed.
    pub fn told_of(&self, path: &Path) -> Option<(usize, &FileRule)> {
        let rule = self.config.rule_for(path).filter(|rule| rule.route().traits().is_told)?;
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
        let text = "[[file]]\npattern = \"*\"\nroute = \"transfer\"\nfrom = \"a\"\nto = [\"b\"]\n";
        let mut snapshot = Snapshot::new(Config::parse(text).unwrap());
        for (component, part) in
            [(None, None), (Some("a"), Some(Part::Writes)), (Some("b"), Some(Part::Reads)), (Some("c"), None)]
        {
            snapshot.component = component.map(ToOwned::to_owned);
            assert_eq!(snapshot.part(&snapshot.config.file[0]), part);
        }
        assert_eq!(snapshot.told_of(Path::new("/a.nc")), None);
        // Two components that transfer the same files in either direction.
        let back = text.replace("\"a\"", "\"x\"").replace("\"b\"", "\"a\"").replace("\"x\"", "\"b\"");
        let mut snapshot = Snapshot::new(Config::parse(&format!("{text}{back}")).unwrap());
        for component in ["a", "b"] {
            snapshot.component = Some(component.to_owned());
            for part in [Part::Writes, Part::Reads] {
                let rule = snapshot.rule_to(Path::new("/a.nc"), Some(part)).unwrap();
                assert_eq!(snapshot.part(rule), Some(part), "{component}");
            }
            assert_eq!(snapshot.rule_to(Path::new("/a.nc"), None), snapshot.config.file.first());
        }
        // Only what is compressed needs the filter that readers need then.
        for (route, is_told, is_done, uses_filter) in
            [("compress", true, true, true), ("estimate", true, true, false), ("file", false, false, false)]
        {
            let keys = if route == "file" { "" } else { "portable = \"knarr\"\n" };
            let text = format!("[[file]]\npattern = \"*\"\nroute = \"{route}\"\n{keys}");
            let (snapshot, path) = (Snapshot::new(Config::parse(&text).unwrap()), Path::new("/a.nc"));
            let found =
                (snapshot.told_of(path).is_some(), snapshot.rule_for(path).is_some(), snapshot.uses_own_filter());
            assert_eq!(found, (is_told, is_done, uses_filter), "{route}");
        }
        let config = Config::parse("[[file]]\npattern = \"a*.nc\"\n").unwrap();
        assert!(!Snapshot::new(config).may_concern("a.h5"));
    }
}
