//! A rule: what matters for a family of files.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use knarr_array::error::Result;
use knarr_checkpoint::PackOptions;
use knarr_flow::settings::Settings;
use serde::{Deserialize, Serialize};

use super::misread::refuse;
use super::restart::NamePattern;
use super::routes::{CheckpointRule, CompressRule, Output, OwnKeys, Route, StageRule, TransferRule};
use super::tier::TierRule;
use knarr_array::path_bytes;

/// `[[file]]`: what all routes have, and what this one is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileRule {
    /// Pattern of file names with `*`, `?` and `{member}`; for the route `checkpoint` also with `{step}` and `{rank}`.
    pub pattern: NamePattern,
    /// Where the values go.
    pub(super) route: Route,
    /// `[file.compress]`: what is asked for files that are compressed; nothing if the route compresses none.
    pub(super) compress: CompressRule,
    /// The keys that only this route has.
    pub own: OwnKeys,
    /// Where the configuration lies: in a bucket, files have the names that they have below it. Empty if that is not known.
    #[serde(with = "path_bytes", default)]
    pub directory: PathBuf,
    /// The URL below which files are put that have waited in tiers; `None` if they are to be where the program has them.
    #[serde(default)]
    pub place: Option<String>,
}

impl FileRule {
    /// Where the values go.
    pub fn route(&self) -> Route {
        self.route
    }

    /// What is asked for files that are compressed; nothing if the route compresses none.
    pub fn compress(&self) -> &CompressRule {
        &self.compress
    }

    /// What is asked for checkpoints; nothing if that is not the route.
    pub fn checkpoint(&self) -> &CheckpointRule {
        static NOTHING: LazyLock<CheckpointRule> = LazyLock::new(CheckpointRule::default);
        if let OwnKeys::Checkpoint(keys) = &self.own { keys } else { &NOTHING }
    }

    /// What is asked for transfers; nothing if that is not the route.
    pub fn transfer(&self) -> &TransferRule {
        static NOTHING: LazyLock<TransferRule> = LazyLock::new(TransferRule::default);
        if let OwnKeys::Transfer(keys) = &self.own { keys } else { &NOTHING }
    }

    /// As [`FileRule::transfer`], to be changed.
    pub fn transfer_mut(&mut self) -> Option<&mut TransferRule> {
        if let OwnKeys::Transfer(keys) = &mut self.own { Some(keys) } else { None }
    }

    /// What is asked of the way of a file through tiers; `None` if that is not the route.
    pub fn stage(&self) -> Option<&StageRule> {
        if let OwnKeys::Stage(keys) = &self.own { Some(keys) } else { None }
    }

    /// Refuses values that make no sense, alone or together.
    pub(super) fn check(&self, tiers: &[TierRule]) -> Result<()> {
        self.settings()?;
        self.compress.variables.iter().flatten().try_for_each(|(name, _)| check_name(name))?;
        if self.route != Route::Checkpoint && self.pattern.restart_files().is_some() {
            return Err(refuse("{step} and {rank} are for route \"checkpoint\"").hint("write * in their place"));
        }
        self.own.check(&self.pattern, &self.compress, tiers)
    }

    /// The settings for files that are compressed.
    ///
    /// # Errors
    /// `Usage` for goals, chains, chunks or qualities that do not parse or contradict each other.
    pub fn settings(&self) -> Result<Settings> {
        self.compress().settings()
    }

    /// The same for files of a program, which are to be there in any case: what a file does not allow is left out.
    ///
    /// # Errors
    /// As for [`FileRule::settings`].
    pub fn lenient_settings(&self) -> Result<Settings> {
        self.settings().map(|settings| Settings { lenient: true, ..settings })
    }

    /// What is made of the values that a program hands over for `file`, an absolute path: another path, or a URL.
    pub fn made_of(&self, file: &Path) -> PathBuf {
        // Files of other directories keep these, too.
        let below = |top: &Path| file.strip_prefix(top).ok().filter(|name| name.is_relative());
        let name = || below(&self.directory).or_else(|| below(Path::new("/"))).unwrap_or(file);
        let at = |url: &str, name: &Path| format!("{}/{}", url.trim_end_matches('/'), name.to_string_lossy()).into();
        match (&self.place, self.compress().output()) {
            (Some(url), _) => at(url, name()),
            (None, Output::Netcdf4 | Output::Classic) => file.to_owned(),
            (None, Output::Zarr) => store_of(file),
            (None, Output::At(url)) => at(url, &store_of(name())),
        }
    }

    /// The URL below which what is made of files is put; `None` if that is on a file system.
    pub fn bucket(&self) -> Option<&str> {
        self.place.as_deref().or_else(|| self.compress().output().url())
    }

    /// How restart files are merged and compressed into a set.
    ///
    /// # Errors
    /// `Usage` for a goal or expressions that make no sense, which reading the configuration refuses.
    pub fn pack_options(&self) -> Result<PackOptions> {
        self.checkpoint().pack_options()
    }

    /// True if a program hands over what it writes with HDF5, rather than to write plain files that are packed when they are closed.
    pub fn hands_over_hdf5(&self) -> bool {
        self.route().traits().is_handed_over && self.compress().when.is_none()
    }

    /// True if files that a program writes where they are to be are packed there when they are closed.
    pub fn packs_when_closed(&self) -> bool {
        self.route().traits().may_be_replaced && self.compress().when.is_some()
    }

    /// True if it asks for anything that could not be served.
    pub fn says_anything(&self) -> bool {
        self.compress().says_anything()
    }
}

/// Refuses names of variables that are meant as several and would match none.
fn check_name(name: &str) -> Result<()> {
    let inside = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    if name.is_empty() || inside.is_some_and(|(inside, _)| inside.contains(',')) {
        return Err(refuse(&format!("variables.\"{name}\" matches no variable"))
            .hint("write settings for each name, or a pattern with * and ?"));
    }
    Ok(())
}

/// The store that is made of a file: `hist.zarr` of `hist.nc`, but `hist.h5.zarr` of `hist.h5`, so that no two files of a directory
/// become one.
fn store_of(file: &Path) -> PathBuf {
    if file.extension().is_some_and(|extension| extension == "nc") {
        return file.with_extension("zarr");
    }
    let mut name = file.to_owned().into_os_string();
    name.push(".zarr");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn what_is_made_of_a_file_depends_on_the_output() {
        let made = |output: &str, directory: &str, file: &str| {
            let text = format!("[[file]]\npattern = \"*\"\noutput = \"{output}\"\n");
            let rule = FileRule { directory: directory.into(), ..Config::parse(&text).unwrap().file.remove(0) };
            let again: FileRule = serde_json::from_str(&serde_json::to_string(&rule).unwrap()).unwrap();
            assert_eq!(again, rule, "launchers pass rules on");
            again.made_of(Path::new(file))
        };
        for (output, expected) in [
            ("netcdf4", "/run/out/hist.1.nc"),
            ("classic", "/run/out/hist.1.nc"),
            ("zarr", "/run/out/hist.1.zarr"),
            ("s3://bucket/a b", "s3://bucket/a b/out/hist.1.zarr"),
            ("s3://bucket/", "s3://bucket/out/hist.1.zarr"),
        ] {
            assert_eq!(made(output, "/run", "/run/out/hist.1.nc"), Path::new(expected));
        }
        for (file, store) in
            [("a.h5", "a.h5.zarr"), ("a.0001", "a.0001.zarr"), ("a.nc/b", "a.nc/b.zarr"), ("a.zarr", "a.zarr.zarr")]
        {
            assert_eq!(made("zarr", "/", &format!("/{file}")), Path::new("/").join(store));
        }
        for directory in ["/other", "/run/o", ""] {
            assert_eq!(made("s3://b", directory, "/run/out/hist"), Path::new("s3://b/run/out/hist.zarr"));
        }
        let tiers = "[[tier]]\nname = \"a\"\npath = \"a\"\n[[tier]]\nname = \"b\"\npath = \"s3://bucket/runs\"\n";
        let text = format!(
            "{tiers}[[file]]\npattern = \"*\"\nroute = \"stage\"\n[[file]]\npattern = \"*.log\"\nroute = \"file\"\n"
        );
        let rules = Config::parse(&text).unwrap().file;
        let staged = FileRule { directory: "/run".into(), ..rules[0].clone() };
        assert_eq!(staged.made_of(Path::new("/run/out/hist.1.nc")), Path::new("s3://bucket/runs/out/hist.1.nc"));
        assert_eq!((staged.bucket(), rules[1].bucket()), (Some("s3://bucket/runs"), None));
    }
}
