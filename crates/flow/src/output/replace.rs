//! Small files that are written at once: pages, profiles, snapshots. Written beside their place, synced, then renamed.

use std::io::Write;
use std::path::Path;

use knarr_array::error::{Error, Result};

use super::atomic_file::AtomicFile;

/// Puts a file with these contents at `path`, in place of what is there. A kill at any moment leaves the old file or
/// the new one.
///
/// # Errors
/// `Write` with the path, `Usage` if it has no file name.
pub fn replace(path: &Path, contents: &[u8]) -> Result<()> {
    let temporary = AtomicFile::create(path, true)?;
    temporary.file().write_all(contents).map_err(|error| Error::write(path, &error))?;
    temporary.publish().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn replaces_whole_files_and_leaves_nothing_beside() {
        let directory = std::env::temp_dir().join(format!("knarr-replace-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("page.html");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        assert!(replace(&directory.join("none").join("page.html"), b"x").is_err());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
