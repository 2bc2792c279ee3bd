//! Notices that an input is written to while it is read: what was read then is of no one moment.

use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::Region;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;
use knarr_flow::store::Source;

/// What an input was like before it was opened.
#[derive(Debug)]
pub(crate) struct Unchanged {
    path: PathBuf,
    before: Option<State>,
}

#[derive(Debug, PartialEq, Eq)]
struct State {
    /// Device and inode.
    identity: (u64, u64),
    /// Stands for lengths and times of modification, of all files below a directory.
    content: u64,
}

impl Unchanged {
    /// Of `path`; what is neither a regular file nor a directory is not watched.
    pub(crate) fn since_now(path: &Path) -> Self {
        Self { path: path.to_owned(), before: state(path) }
    }

    /// A file that took the name meanwhile is another one, and not what was read.
    ///
    /// # Errors
    /// `Read` if the file, or one in the directory, has another length or time of modification.
    pub(crate) fn check(&self) -> Result<()> {
        match (&self.before, state(&self.path)) {
            (Some(before), Some(now)) if before.identity == now.identity && *before != now => {
                Err(self.changed("it was written to while it was read"))
            }
            _ => Ok(()),
        }
    }

    /// For who has just opened the file by its name: it may be another one than was watched.
    ///
    /// # Errors
    /// `Read`.
    fn check_identity(&self) -> Result<()> {
        let now = self.path.metadata().ok().map(|found| identity(&found));
        match self.before.as_ref().map(|before| before.identity) {
            Some(before) if now != Some(before) => Err(self.changed("it was replaced while it was opened")),
            _ => Ok(()),
        }
    }

    fn changed(&self, how: &str) -> Error {
        Error::new(ErrorKind::Read, how)
            .hint("repeat this when no program writes it")
            .at(self.path.display().to_string())
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

fn state(path: &Path) -> Option<State> {
    let found = path.metadata().ok()?;
    if !found.is_file() && !found.is_dir() {
        return None;
    }
    let content = if found.is_dir() { content_below(path, Path::new("")) } else { content(Path::new(""), &found) };
    Some(State { identity: identity(&found), content })
}

/// Of a file at `place`.
fn content(place: &Path, found: &Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    (place, found.len(), found.mtime(), found.mtime_nsec()).hash(&mut hasher);
    hasher.finish()
}

/// Of all files below `place` in `root`, in whatever order the system lists them. Those that go meanwhile do not count.
fn content_below(root: &Path, place: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(root.join(place)) else { return 0 };
    entries.flatten().fold(0, |sum: u64, entry| {
        let place = place.join(entry.file_name());
        let own = match entry.metadata() {
            Ok(found) if found.is_dir() => content_below(root, &place),
            Ok(found) => content(&place, &found),
            Err(_) => 0,
        };
        sum.wrapping_add(own)
    })
}

/// A source whose [`Source::unchanged`] tells whether it was written to since before it was opened.
pub struct Watched {
    source: Box<dyn Source>,
    unchanged: Unchanged,
}

impl Watched {
    /// What `open` makes of `path`.
    ///
    /// # Errors
    /// Those of `open`; `Read` if the file was replaced meanwhile.
    pub fn open(path: &Path, open: impl FnOnce() -> Result<Box<dyn Source>>) -> Result<Box<dyn Source>> {
        let unchanged = Unchanged::since_now(path);
        let source = open()?;
        unchanged.check_identity()?;
        Ok(Box::new(Self { source, unchanged }))
    }
}

// A method with a default that is not handed on would answer for the wrong source.
#[deny(clippy::missing_trait_methods)]
impl Source for Watched {
    crate::delegate::delegate!(model, path, format, places, reading, is_remote, variables, as_any);

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        self.source.read_region(variable, region, out)
    }

    fn is_written(&self, variable: usize, region: &Region) -> bool {
        self.source.is_written(variable, region)
    }

    fn read_strings(&self, variable: usize, region: &Region) -> Result<Vec<String>> {
        self.source.read_strings(variable, region)
    }

    fn frame_chains(&self, variable: usize, codecs: &CodecList, most: usize) -> Result<Vec<(ChainSpec, usize)>> {
        self.source.frame_chains(variable, codecs, most)
    }

    fn unchanged(&self) -> Result<()> {
        self.unchanged.check().and_then(|()| self.source.unchanged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_is_seen_and_another_file_of_the_name_is_none_of_ours() {
        let path = std::env::temp_dir().join(format!("knarr-unchanged-{}", std::process::id()));
        std::fs::write(&path, b"first").unwrap();
        let watched = Unchanged::since_now(&path);
        assert!(watched.check().is_ok() && watched.check_identity().is_ok());
        std::fs::write(&path, b"more than that").unwrap();
        assert_eq!(watched.check().unwrap_err().kind(), ErrorKind::Read);
        let other = path.with_extension("other");
        std::fs::write(&other, b"another").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(watched.check().is_ok());
        assert_eq!(watched.check_identity().unwrap_err().kind(), ErrorKind::Read);
        std::fs::remove_file(&path).unwrap();
        assert!(watched.check().is_ok() && Unchanged::since_now(&path).check().is_ok());
    }

    #[test]
    fn writing_anywhere_below_a_directory_is_seen() {
        let root = std::env::temp_dir().join(format!("knarr-unchanged-below-{}", std::process::id()));
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/c"), b"first").unwrap();
        let watched = Unchanged::since_now(&root);
        assert!(watched.check().is_ok());
        std::fs::write(root.join("a/new"), b"").unwrap();
        assert!(watched.check().is_err());
        std::fs::remove_file(root.join("a/new")).unwrap();
        assert!(watched.check().is_ok());
        std::fs::rename(root.join("a/b/c"), root.join("a/c")).unwrap();
        assert!(watched.check().is_err());
        std::fs::remove_dir_all(root).unwrap();
    }
}
