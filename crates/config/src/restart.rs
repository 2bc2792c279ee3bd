//! Values of `knarr.toml` that say which restart files a program writes: names, ranks, when a file is finished.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use knarr_array::error::{Error, Result};
use knarr_checkpoint::pattern::Pattern;
use knarr_flow::settings::glob_matches;

/// Which files a rule is for: a pattern with `*`, `?` and `{member}`, or names of restart files with `{step}` and `{rank}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamePattern {
    text: String,
    /// The text with `*` for `{member}`.
    glob: String,
    restart: Option<RestartFiles>,
}

/// Where restart files lie and how they are named there.
#[derive(Debug, Clone)]
pub struct RestartFiles {
    /// The leading directories of the pattern, which hold no `*`, `?`, `{step}` or `{rank}`; may be empty.
    pub directory: PathBuf,
    /// Names below it.
    pub names: Pattern,
}

impl NamePattern {
    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The restart files it names, if it has `{step}` or `{rank}`.
    pub fn restart_files(&self) -> Option<&RestartFiles> {
        self.restart.as_ref()
    }

    /// Whether the file at `path` is meant. Patterns with `*` and `?` stand for the name or the whole path; those of
    /// restart files for as many of the last parts of the path as they have, or for a whole absolute path.
    pub fn matches(&self, path: &Path) -> bool {
        match &self.restart {
            Some(files) => files.match_path(path),
            None => {
                let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
                glob_matches(&self.glob, &name) || glob_matches(&self.glob, &path.to_string_lossy())
            }
        }
    }

    /// The same with the directory of restart files taken from `here`, links resolved: paths that are told of a program's
    /// files have none. A pattern without a directory stays as it is.
    #[must_use]
    pub fn below(&self, here: &Path) -> Self {
        let resolved = self.restart.as_ref().filter(|files| files.directory != Path::new("")).and_then(|files| {
            let directory = resolve(&here.join(&files.directory));
            let resolved: Self = format!("{}/{}", directory.to_str()?, files.names).parse().ok()?;
            // A directory whose name looks like a pattern cannot be written in one.
            resolved.restart.as_ref().is_some_and(|found| found.directory == directory).then_some(resolved)
        });
        resolved.unwrap_or_else(|| self.clone())
    }
}

impl RestartFiles {
    fn match_path(&self, path: &Path) -> bool {
        let mut directory = path;
        for _ in 0..=self.names.depth() {
            let Some(parent) = directory.parent() else { return false };
            directory = parent;
        }
        let Ok(name) = path.strip_prefix(directory) else { return false };
        directory.ends_with(&self.directory) && self.names.parse(name.as_os_str().as_encoded_bytes()).is_some()
    }
}

/// The path without links, as far as it is there.
fn resolve(path: &Path) -> PathBuf {
    let mut rest = PathBuf::new();
    for ancestor in path.ancestors() {
        if let Ok(found) = ancestor.canonicalize() {
            return if rest.as_os_str().is_empty() { found } else { found.join(rest) };
        }
        let Some(name) = ancestor.file_name() else { break };
        rest = if rest.as_os_str().is_empty() { PathBuf::from(name) } else { Path::new(name).join(rest) };
    }
    path.to_owned()
}

impl FromStr for NamePattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let rest = ["{step}", "{rank}", "{member}"].iter().fold(text.to_owned(), |text, known| text.replace(known, ""));
        if rest.contains(['{', '}']) {
            return Err(Error::usage(format!(
                "pattern '{text}' has braces that stand for nothing: it matches no file"
            ))
            .hint("write a rule for each name, or * and ?; {step}, {rank} and {member} are known"));
        }
        if text.is_empty() {
            return Err(Error::usage("an empty pattern matches no file").hint("write * for all files"));
        }
        let restart = if text.contains("{step}") || text.contains("{rank}") { Some(text.parse()?) } else { None };
        Ok(Self { text: text.to_owned(), glob: text.replace("{member}", "*"), restart })
    }
}

impl FromStr for RestartFiles {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (root, relative) = text.strip_prefix('/').map_or(("", text), |rest| ("/", rest));
        let mut directory = PathBuf::from(root);
        let mut names = relative;
        while let Some((first, rest)) = names.split_once('/') {
            if first.contains(['*', '?', '{', '}']) {
                break;
            }
            match first {
                "." => {}
                "" | ".." => {
                    return Err(Error::usage(format!("pattern '{text}' holds '..' or a directory without a name"))
                        .hint("write the path from the directory in which the program is started, or the whole path"));
                }
                name => directory.push(name),
            }
            names = rest;
        }
        Ok(Self { directory, names: names.parse()? })
    }
}

impl TryFrom<String> for NamePattern {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<NamePattern> for String {
    fn from(pattern: NamePattern) -> Self {
        pattern.text
    }
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The ranks that write a file in each step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RanksText", into = "String")]
pub struct Ranks(pub RangeInclusive<u64>);

/// How ranks are written in a configuration.
#[derive(Deserialize)]
#[serde(untagged, expecting = "the number of ranks, or the first and the last: 64, \"1-64\"")]
enum RanksText {
    Count(u64),
    Text(String),
}

impl Ranks {
    /// Ranks 0 to `count` - 1.
    ///
    /// # Errors
    /// `Usage` for none.
    pub fn count(count: u64) -> Result<Self> {
        count.to_string().parse()
    }
}

impl FromStr for Ranks {
    type Err = Error;

    /// `64`: ranks 0 to 63; `1-64`: those.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::usage(format!("'{text}' names no ranks"))
                .hint("write the number of ranks, or the first and the last: 64, 1-64")
        };
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| refuse());
        let ranks = match text.split_once('-') {
            Some((first, last)) => number(first)?..=number(last)?,
            None => 0..=number(text)?.checked_sub(1).ok_or_else(refuse)?,
        };
        if ranks.is_empty() { Err(refuse()) } else { Ok(Self(ranks)) }
    }
}

impl TryFrom<RanksText> for Ranks {
    type Error = Error;

    fn try_from(text: RanksText) -> Result<Self> {
        match text {
            RanksText::Count(count) => Self::count(count),
            RanksText::Text(text) => text.parse(),
        }
    }
}

impl From<Ranks> for String {
    fn from(ranks: Ranks) -> Self {
        ranks.to_string()
    }
}

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.start(), self.0.end())
    }
}

/// A time such as `2s` or `1min 30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time(pub Duration);

impl TryFrom<String> for Time {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let parsed = humantime::parse_duration(&text);
        parsed.map(Self).map_err(|error| Error::usage(format!("'{text}': {error}")).hint("write it like \"2s\""))
    }
}

impl From<Time> for String {
    fn from(time: Time) -> Self {
        humantime::format_duration(time.0).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        pattern.parse::<NamePattern>().unwrap().matches(Path::new(path))
    }

    #[test]
    fn restart_files_are_known_by_the_end_of_their_path() {
        for path in ["r_10_3.h5", "/a/b/r_0010_03.h5"] {
            assert!(matches("r_{step}_{rank}.h5", path), "{path}");
        }
        assert!(matches("chk{step}/r{rank}", "/a/chk1/r2") && !matches("chk{step}/r{rank}", "/a/r2"));
        assert!(matches("out/r{step}", "/a/out/r2") && !matches("out/r{step}", "/a/about/r2"));
        assert!(matches("./r{step}", "r2"));
        assert!(matches("/a/out/*{step}", "/a/out/r2") && !matches("/a/out/*{step}", "/b/a/out/r2"));
        assert!(matches("hist_{member}.nc", "/a/hist_07.nc") && !matches("hist_{member}.nc", "/a/anal_07.nc"));
        assert!(!matches("r_{step}_{rank}.h5", "/a/r_10.h5") && !matches("a/b/c/r{step}", "r1"));
        // Others are patterns as they are elsewhere.
        assert!(matches("a1*", "/x/a1b") && matches("/data/*", "/data/x/y"));
    }

    #[test]
    fn patterns_that_are_no_plain_paths_or_cannot_be_told_apart_are_refused() {
        for bad in ["../r{step}", "a{1}*", "a/../r{step}", "{step}{rank}", "a//r{step}"] {
            assert!(bad.parse::<NamePattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn directories_are_resolved() {
        let top = std::env::temp_dir().join(format!("knarr-pattern-{}", std::process::id()));
        std::fs::create_dir_all(top.join("real")).unwrap();
        std::os::unix::fs::symlink("real", top.join("link")).unwrap();
        let top = top.canonicalize().unwrap();
        let below = |pattern: &str| pattern.parse::<NamePattern>().unwrap().below(&top);
        assert!(below("link/r{step}").matches(&top.join("real/r1")));
        assert!(below("link/not yet/r{step}").matches(&top.join("real/not yet/r1")));
        assert!(!below("link/r{step}").matches(&top.join("other/real/r1")));
        assert_eq!(below("r{step}").as_str(), "r{step}");
        assert_eq!(below("*.nc").as_str(), "*.nc");
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn ranks_are_counted_or_named() {
        let ranks = |text: &str| text.parse::<Ranks>().map(|ranks| ranks.0);
        assert_eq!(ranks("64").unwrap(), 0..=63);
        assert_eq!(ranks("1-64").unwrap(), 1..=64);
        for bad in ["", "0", "-1", "5-2", "a", "1-", "1-2-3"] {
            assert!(ranks(bad).is_err(), "{bad}");
        }
    }
}
