//! Notices that an input is written to while it is read: what was read then is of no one moment.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use knarr_core::error::{Error, ErrorKind, Result};

/// What a file was like before it was read.
pub(crate) struct Unchanged {
    path: PathBuf,
    before: Option<Metadata>,
}

impl Unchanged {
    /// Of `path`; what is no regular file is not watched.
    pub(crate) fn since_now(path: &Path) -> Self {
        Self { path: path.to_owned(), before: path.metadata().ok().filter(Metadata::is_file) }
    }

    /// A file that took the name meanwhile is another one, and not what was read.
    ///
    /// # Errors
    /// `Read` if the file has another length or time of modification.
    pub(crate) fn check(&self) -> Result<()> {
        let Some((before, now)) = self.before.as_ref().zip(self.path.metadata().ok()) else { return Ok(()) };
        let written = |found: &Metadata| (found.len(), found.mtime(), found.mtime_nsec());
        if (before.dev(), before.ino()) == (now.dev(), now.ino()) && written(before) != written(&now) {
            return Err(Error::new(ErrorKind::Read, "it was written to while it was read")
                .mend("repeat this when no program writes it")
                .at(self.path.display().to_string()));
        }
        Ok(())
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
        assert!(watched.check().is_ok());
        std::fs::write(&path, b"more than that").unwrap();
        assert_eq!(watched.check().unwrap_err().kind(), ErrorKind::Read);
        let other = path.with_extension("other");
        std::fs::write(&other, b"another").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(watched.check().is_ok());
        std::fs::remove_file(&path).unwrap();
        assert!(watched.check().is_ok() && Unchanged::since_now(&path).check().is_ok());
    }
}
