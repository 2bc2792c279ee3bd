//! Marks in the spool of files that the launcher has packed while the program runs: its ranks have one [handed
//! back](crate::Request::HandBack) before they open it to write. A mark is for a file and not for a name, which the program may
//! change.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};

use crate::settled::settled;

/// Where the marks of a spool lie.
pub fn marks_of(spool: &Path) -> PathBuf {
    spool.join("packed")
}

fn mark_of(spool: &Path, file: &Metadata) -> PathBuf {
    marks_of(spool).join(format!("{:x}-{:x}", file.dev(), file.ino()))
}

/// Marks a file as packed.
///
/// # Errors
/// `Write`.
pub fn mark_packed(spool: &Path, file: &Metadata) -> Result<()> {
    let path = mark_of(spool, file);
    // Without it ranks would write into filters that they do not know of.
    settled(|| File::create(&path)).map(drop).map_err(|error| Error::write(&path, &error))
}

/// The file is stored as the program has made it, or is not the launcher's any more.
pub fn unmark_packed(spool: &Path, file: &Metadata) {
    // One that stays has the launcher asked for nothing, and it tries again.
    let _ = fs::remove_file(mark_of(spool, file));
}

/// True if the file of this name is marked as packed, or nobody can tell: the launcher knows.
pub fn is_packed(spool: &Path, path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(file) => mark_of(spool, &file).try_exists().unwrap_or(true),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_for_a_file_whatever_it_is_called() {
        let spool = std::env::temp_dir().join(format!("knarr-packed-{}", std::process::id()));
        fs::create_dir_all(marks_of(&spool)).unwrap();
        let [a, b] = ["a.h5", "b.h5"].map(|name| spool.join(name));
        fs::write(&a, b"a").unwrap();
        assert!(!is_packed(&spool, &a) && !is_packed(&spool, &b));
        let file = fs::metadata(&a).unwrap();
        mark_packed(&spool, &file).unwrap();
        mark_packed(&spool, &file).unwrap();
        assert!(is_packed(&spool, &a));
        fs::rename(&a, &b).unwrap();
        fs::write(&a, b"another").unwrap();
        assert!(!is_packed(&spool, &a) && is_packed(&spool, &b));
        unmark_packed(&spool, &file);
        assert!(!is_packed(&spool, &b));
        fs::remove_dir_all(marks_of(&spool)).unwrap();
        assert!(mark_packed(&spool, &file).is_err());
        fs::remove_dir_all(spool).unwrap();
    }
}
