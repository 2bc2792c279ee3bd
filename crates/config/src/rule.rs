//! A rule: what matters for a family of files.

use std::path::{Path, PathBuf};

use knarr_array::error::Result;
use knarr_checkpoint::PackOptions;
use knarr_flow::settings::Settings;
use serde::{Deserialize, Serialize};

use super::checkpoint::CheckpointRule;
use super::compress::{CompressRule, Output, When};
use super::restart::NamePattern;
use super::route::Route;
use super::transfer::TransferRule;
use knarr_array::path_bytes;

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
    /// Where the configuration lies: in a bucket, files have the names that they have below it. Empty if that is not known.
    #[serde(with = "path_bytes", default)]
    pub directory: PathBuf,
}

impl FileRule {
    /// The settings for files that are compressed.
    ///
    /// # Errors
    /// `Usage` for goals, chains, chunks or qualities that do not parse or contradict each other.
    pub fn settings(&self) -> Result<Settings> {
        self.compress.settings()
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
        match self.compress.output() {
            Output::Netcdf4 | Output::Classic => file.to_owned(),
            Output::Zarr => store_of(file),
            Output::S3(url) => {
                // Files of other directories keep these, too.
                let below = |top: &Path| file.strip_prefix(top).ok().filter(|name| name.is_relative());
                let name = below(&self.directory).or_else(|| below(Path::new("/"))).unwrap_or(file);
                PathBuf::from(format!("{}/{}", url.trim_end_matches('/'), store_of(name).to_string_lossy()))
            }
        }
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
    }
}
