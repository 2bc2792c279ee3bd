//! Places of what the program writes for itself: pages, profiles, models, results. They are looked at before any work
//! is done, so that nothing of the user's is replaced, and no work is lost because its result has no place.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use rustix::fs::{Access, access};

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// The page of `--report`.
    Page,
    /// What `knarr profile` measures.
    Profile,
    /// What `knarr train` learns.
    Model,
    /// What `knarr run --json` says.
    Outcome,
}

/// How a page begins, so that a later one may replace it. It stands within the first [`HEAD`] bytes.
pub(crate) const PAGE_MARK: &str = "<meta name=\"generator\" content=\"knarr ";
const HEAD: u64 = 1024;
/// More bytes than any profile, model or result has.
const LARGEST: u64 = 64 << 20;

impl Own {
    fn name(self) -> &'static str {
        match self {
            Self::Page => "report",
            Self::Profile => "profile",
            Self::Model => "model",
            Self::Outcome => "result",
        }
    }

    /// True for a file that is empty or holds what was written there by an earlier run.
    fn is_earlier(self, path: &Path) -> bool {
        let keys: [&str; 2] = match self {
            Self::Page => return text_of(path, HEAD).is_some_and(|text| text.is_empty() || text.contains(PAGE_MARK)),
            Self::Profile => ["steps", "power"],
            Self::Model => ["inputs", "chains"],
            Self::Outcome => ["exit_code", "files"],
        };
        text_of(path, LARGEST).is_some_and(|text| {
            let held: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&text).ok();
            text.is_empty() || held.is_some_and(|held| keys.iter().all(|&key| held.contains_key(key)))
        })
    }
}

/// The first bytes of a file, as text.
fn text_of(path: &Path, most: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Checks that `own` can be written to `path`: as for [`refuse_other`], and the directory takes new files.
///
/// # Errors
/// As for [`refuse_other`]; `Write` for the directory.
pub(crate) fn check(path: &Path, own: Own, force: Option<bool>) -> Result<()> {
    refuse_other(path, own, force)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    access(directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| Error::write(path, &error.into()))
}

/// Checks that a file can be written to `path`, whose directories may have to be made.
///
/// # Errors
/// `Write` with the directory that takes no new ones.
pub(crate) fn check_new(path: &Path) -> Result<()> {
    let named = path.ancestors().skip(1).map(|parent| if *parent == *"" { Path::new(".") } else { parent });
    let Some(directory) = named.into_iter().find(|parent| parent.symlink_metadata().is_ok()) else { return Ok(()) };
    let refused = if directory.is_dir() {
        access(directory, Access::WRITE_OK | Access::EXEC_OK).err().map(std::io::Error::from)
    } else {
        Some(std::io::Error::from(std::io::ErrorKind::NotADirectory))
    };
    refused.map_or(Ok(()), |error| Err(Error::write(directory, &error).at_once(&path.display().to_string())))
}

/// Refuses to replace anything but an earlier `own`, unless by `force`: `None` for commands that have no such option.
///
/// # Errors
/// `Exists` for a file that is something else, `Write` for what is no file.
pub(crate) fn refuse_other(path: &Path, own: Own, force: Option<bool>) -> Result<()> {
    let place = |error: Error| error.at(path.display().to_string());
    if let Ok(found) = std::fs::metadata(path) {
        if !found.is_file() {
            let what = if found.is_dir() { "a directory" } else { "no regular file" };
            return Err(place(
                Error::new(ErrorKind::Write, format!("is {what}"))
                    .hint(format!("give the {} a file name of its own", own.name())),
            ));
        }
        if force != Some(true) && !own.is_earlier(path) {
            let hint = if force.is_some() {
                "choose another name, or replace it with --force"
            } else {
                "choose another name, or remove it first"
            };
            let what = format!("exists already and is no {} of Knarr's", own.name());
            return Err(place(Error::new(ErrorKind::Exists, what).hint(hint)));
        }
    }
    Ok(())
}

/// Refuses a page called `path` that would take the place of what the same run reads or writes.
///
/// # Errors
/// `Usage`, with the name of that.
pub(crate) fn refuse_taken<'a>(path: &Path, taken: impl IntoIterator<Item = (&'a str, PathBuf)>) -> Result<()> {
    let wanted = resolved(path);
    for (what, other) in taken {
        // What lies in a store is part of it.
        if wanted.starts_with(resolved(&other)) {
            return Err(Error::usage(format!("is {what} of the same run: {}", other.display()))
                .hint("give the report a name of its own")
                .at(format!("--report {}", path.display())));
        }
    }
    Ok(())
}

/// The one name of a file that may not be there yet.
fn resolved(path: &Path) -> PathBuf {
    let of_parent = || {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(parent.canonicalize().ok()?.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(of_parent).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_before_is_replaced() {
        let directory = std::env::temp_dir().join(format!("knarr-place-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let at = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let page = at("page", &format!("<!DOCTYPE html>\n{PAGE_MARK}0.1.0\">"));
        let thesis = at("thesis", "<!DOCTYPE html>\n<p>words</p>");
        let profile = at("profile", "{\"version\": 0, \"steps\": {}, \"power\": {}}");
        let empty = at("empty", "");
        for own in [Own::Page, Own::Profile, Own::Model, Own::Outcome] {
            assert!(check(&empty, own, None).is_ok() && check(&directory.join("new"), own, None).is_ok());
            assert_eq!(check(&thesis, own, Some(false)).unwrap_err().kind(), ErrorKind::Exists);
            assert!(check(&thesis, own, Some(true)).is_ok());
            assert_eq!(check(&directory, own, Some(true)).unwrap_err().kind(), ErrorKind::Write);
            assert_eq!(check(&directory.join("none/new"), own, None).unwrap_err().kind(), ErrorKind::Write);
        }
        assert!(check_new(&directory.join("none/of/these")).is_ok() && check_new(Path::new("none/of/these")).is_ok());
        assert_eq!(check_new(&thesis.join("below/a/file")).unwrap_err().kind(), ErrorKind::Write);
        assert!(check(&page, Own::Page, None).is_ok() && check(&profile, Own::Profile, None).is_ok());
        assert!(check(&page, Own::Profile, None).is_err() && check(&profile, Own::Model, None).is_err());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
