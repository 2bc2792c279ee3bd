//! The packed file under a temporary name, until it exchanges names with the original.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::output::{exchange_name, is_temporary_name, kept_name};
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// True for the name that some `knarr run` gave a file which it packs.
pub(in crate::launch) fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(is_temporary_name)
}

/// A name on the same file system as the original; what has it is removed when this is dropped.
pub(in crate::launch) struct Replacement {
    path: PathBuf,
    /// What has the name is somebody's.
    is_kept: bool,
}

impl Replacement {
    /// In `scratch` if that is on the file system of `file`, else in the directory of `path`: what appears there may be
    /// in the way of a program that removes the directory.
    pub(in crate::launch) fn new(path: &Path, file: &Metadata, scratch: &Path) -> Self {
        let name = exchange_name(path.file_name().unwrap_or_default(), file);
        let same = std::fs::metadata(scratch).is_ok_and(|found| found.dev() == file.dev());
        Self { path: if same { scratch.join(name) } else { path.with_file_name(name) }, is_kept: false }
    }

    pub(in crate::launch) fn path(&self) -> &Path {
        &self.path
    }

    /// Exchanges names again after a first exchange with `path`. Where that has gone meanwhile, what the program had there
    /// gets a name that people find, for it may be the only copy.
    ///
    /// # Errors
    /// `Write`, with the name that it has.
    pub(in crate::launch) fn give_back(&mut self, path: &Path) -> Result<()> {
        let Err(error) = renameat_with(CWD, &self.path, CWD, path, RenameFlags::EXCHANGE) else { return Ok(()) };
        self.is_kept = true;
        let visible = kept_name(path.file_name().unwrap_or_default());
        let places = [path.with_file_name(&visible), self.path.with_file_name(&visible)];
        let is_there = |place: &&PathBuf| renameat_with(CWD, &self.path, CWD, *place, RenameFlags::NOREPLACE).is_ok();
        let name = places.iter().find(is_there).unwrap_or(&self.path);
        Err(Error::new(
            ErrorKind::Write,
            format!(
                "it was replaced and renamed or removed in the moment when the packed file took its place ({error})"
            ),
        )
        .hint(format!("what was written last is {}: put it where it belongs", name.display())))
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("knarr-beside-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("scratch")).unwrap();
        folder
    }

    fn replacement(folder: &Path, path: &Path, contents: &str) -> Replacement {
        let replacement = Replacement::new(path, &fs::metadata(folder).unwrap(), &folder.join("scratch"));
        fs::write(replacement.path(), contents).unwrap();
        replacement
    }

    #[test]
    fn what_was_exchanged_gets_its_name_back() {
        let folder = folder("back");
        let path = folder.join("a.h5");
        fs::write(&path, "packed").unwrap();
        let mut packed = replacement(&folder, &path, "original");
        packed.give_back(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "original");
        drop(packed);
        assert_eq!(fs::read_dir(folder.join("scratch")).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_has_lost_its_name_is_kept_and_told() {
        let folder = folder("kept");
        let path = folder.join("a.h5");
        let mut packed = replacement(&folder, &path, "the program's");
        let error = packed.give_back(&path).unwrap_err();
        drop(packed);
        let kept = path.with_file_name(kept_name(path.file_name().unwrap()));
        assert_eq!(fs::read_to_string(&kept).unwrap(), "the program's");
        assert!(error.to_string().contains(&kept.display().to_string()) && !is_temporary(&kept));

        // Its directory is gone, too.
        let path = folder.join("gone/a.h5");
        let mut packed = replacement(&folder, &path, "the program's");
        let error = packed.give_back(&path).unwrap_err();
        drop(packed);
        let kept = folder.join("scratch").join(kept_name(path.file_name().unwrap()));
        assert_eq!(fs::read_to_string(&kept).unwrap(), "the program's");
        assert!(error.to_string().contains(&kept.display().to_string()));
        fs::remove_dir_all(folder).unwrap();
    }
}
