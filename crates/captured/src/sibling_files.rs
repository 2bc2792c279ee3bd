//! Files that HDF5 looks for in the directory of the header of a captured file, because an external link names them. They lie in
//! the directory of the file that the program knows, so a symbolic link beside the header leads there.

use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Directories of headers that this process has open, each with that of the file which the program knows.
static HEADERS: Mutex<Vec<Arc<(PathBuf, PathBuf)>>> = Mutex::new(Vec::new());
/// How many there are.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// As long as it is there, files that are looked for in the directory of a header are found beside the file.
pub struct SiblingFiles(Option<Arc<(PathBuf, PathBuf)>>);

impl SiblingFiles {
    /// Of the header in `directory`, where the program knows the file as `target`.
    pub fn of(directory: &Path, target: &Path) -> Self {
        let Some(parent) = target.parent() else { return Self(None) };
        let header = Arc::new((directory.to_owned(), parent.to_owned()));
        HEADERS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&header));
        OPEN.fetch_add(1, Ordering::Relaxed);
        Self(Some(header))
    }
}

impl Drop for SiblingFiles {
    fn drop(&mut self) {
        let Some(header) = &self.0 else { return };
        HEADERS.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(other, header));
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// True if this process has a header open.
pub fn has_any() -> bool {
    OPEN.load(Ordering::Relaxed) > 0
}

/// A call has not found what it wants to open at a path. True if it is to be made again: the name leads beside the file now.
pub fn is_linked(path: &Path) -> bool {
    // Another thread that has it may be one that a `fork` has left behind.
    let Ok(headers) = HEADERS.try_lock() else { return false };
    headers.iter().any(|header| link(path, &header.0, &header.1))
}

/// Has the name at `path`, in the directory of a header, lead to `sibling_files`.
fn link(path: &Path, directory: &Path, beside: &Path) -> bool {
    let Ok(named) = path.strip_prefix(directory) else { return false };
    // What is below leads there, too.
    let Some(Component::Normal(first)) = named.components().next() else { return false };
    let (here, there) = (directory.join(first), beside.join(first));
    // Another rank may have made it at this moment.
    there.symlink_metadata().is_ok() && (symlink(there, &here).is_ok() || here.symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beside_the_file_is_found_beside_its_header() {
        let top = std::env::temp_dir().join(format!("knarr-beside-{}", std::process::id()));
        let (directory, work) = (top.join("spool"), top.join("work"));
        std::fs::create_dir_all(work.join("sub")).unwrap();
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(work.join("g.h5"), b"g").unwrap();
        std::fs::write(work.join("sub/g.h5"), b"below").unwrap();
        for (name, found) in [("g.h5", true), ("sub/g.h5", true), ("none.h5", false), ("../g.h5", false)] {
            assert_eq!(link(&directory.join(name), &directory, &work), found, "{name}");
        }
        assert!(!link(&work.join("g.h5"), &directory, &work));
        assert_eq!(std::fs::read(directory.join("g.h5")).unwrap(), b"g");
        assert_eq!(std::fs::read(directory.join("sub/g.h5")).unwrap(), b"below");
        std::fs::remove_dir_all(top).unwrap();
    }
}
