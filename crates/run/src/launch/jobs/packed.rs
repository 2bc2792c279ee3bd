//! Files that were packed while the program runs. Parallel HDF5 writes datasets with filters in collective calls only, so a file
//! is stored as the program has made it before its ranks open it to write.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use knarr_array::error::{Error, Result};
use knarr_capture::{mark_packed, settled, unmark_packed};
use knarr_formats::hdf5::AsMade;

use knarr_capture::processes::Identity;

/// What they were before.
pub(in crate::launch) struct PackedFiles {
    /// Where programs look for marks of them.
    spool: Option<PathBuf>,
    files: Mutex<HashMap<Identity, AsMade>>,
}

impl PackedFiles {
    pub(in crate::launch) fn new(spool: Option<&Path>) -> Self {
        Self { spool: spool.map(Path::to_owned), files: Mutex::default() }
    }

    /// Notes how the datasets were stored that have filters now in the file at `path`. Without a spool nobody asks for it, and
    /// neither if another program has removed the file already.
    ///
    /// # Errors
    /// `Read`, `Write`.
    pub(in crate::launch) fn note(&self, path: &Path, as_made: &AsMade) -> Result<()> {
        let Some(spool) = self.spool.as_ref().filter(|_| !as_made.is_empty()) else { return Ok(()) };
        let file = match settled(|| std::fs::metadata(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found.map_err(|error| Error::read(path, &error))?,
        };
        mark_packed(spool, &file)?;
        self.files().insert(Identity::of(&file), as_made.clone());
        Ok(())
    }

    /// How datasets of a file were stored; `None` if it was not packed.
    pub(in crate::launch) fn of(&self, file: &Metadata) -> Option<AsMade> {
        self.files().get(&Identity::of(file)).cloned()
    }

    /// The file is gone, or was emptied: another one may get its number.
    pub(in crate::launch) fn forget(&self, file: &Metadata) {
        self.files().remove(&Identity::of(file));
        if let Some(spool) = &self.spool {
            unmark_packed(spool, file);
        }
    }

    /// As [`PackedFiles::forget`], of the file at `path`, if there is one.
    pub(in crate::launch) fn forget_at(&self, path: &Path) {
        if let Ok(file) = settled(|| std::fs::metadata(path)) {
            self.forget(&file);
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<Identity, AsMade>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use knarr_formats::hdf5::StoredAs;

    use super::*;

    #[test]
    fn a_file_that_is_gone_already_needs_no_mark() {
        let spool = std::env::temp_dir().join(format!("knarr-packed-files-{}", std::process::id()));
        std::fs::create_dir_all(&spool).unwrap();
        let files = PackedFiles::new(Some(&spool));
        let as_made = AsMade::from([("t".to_owned(), StoredAs::default())]);
        files.note(&spool.join("removed.h5"), &as_made).unwrap();
        let kept = spool.join("kept.h5");
        std::fs::write(&kept, b"").unwrap();
        // There is no directory for marks.
        assert!(files.note(&kept, &as_made).is_err());
        std::fs::remove_dir_all(spool).unwrap();
    }
}
