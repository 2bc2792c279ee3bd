//! The directory in which a file will be. It may get another name while the program has the file open: without Knarr the file
//! would be in it all the same, so the process that says that the file is complete keeps the directory open.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Those of files that this process has open, by their directories in the spool.
static PARENTS: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

fn parents() -> MutexGuard<'static, BTreeMap<PathBuf, File>> {
    PARENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the directory of `target`, whose values go to `directory` in the spool. Without it, the file is made where the program
/// has asked for it.
pub(crate) fn keep(directory: &Path, target: &Path) {
    let open = |parent| File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(parent);
    if let Some(Ok(parent)) = target.parent().map(open) {
        parents().insert(directory.to_owned(), parent);
    }
}

/// Forgets the directory of the file whose values are in `directory`.
pub(crate) fn forget(directory: &Path) {
    parents().remove(directory);
}

/// Where the file is to be now, if the directory of `target` has got another name. Forgets that directory.
pub(crate) fn moved(directory: &Path, target: &Path) -> Option<PathBuf> {
    let parent = parents().remove(directory)?;
    let now = std::fs::read_link(format!("/proc/self/fd/{}", parent.as_raw_fd())).ok()?;
    // One that was removed has no name that leads to it.
    let is_it = Some(now.as_path()) != target.parent() && now.is_absolute() && now.is_dir();
    is_it.then(|| now.join(target.file_name().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_gets_another_name_is_found() {
        let top = std::env::temp_dir().join(format!("knarr-parent-{}", std::process::id()));
        let (old, new) = (top.join("old"), top.join("new"));
        std::fs::create_dir_all(&old).unwrap();
        let top = std::fs::canonicalize(top).unwrap();
        let (spool, target) = (Path::new("/spool/1-0"), top.join("old/hist.nc"));
        keep(spool, &target);
        assert_eq!(moved(spool, &target), None);
        keep(spool, &target);
        std::fs::rename(&old, &new).unwrap();
        std::fs::create_dir(&old).unwrap();
        assert_eq!(moved(spool, &target), Some(top.join("new/hist.nc")));
        assert_eq!(moved(spool, &target), None, "it is forgotten");
        keep(spool, &target);
        std::fs::remove_dir(&old).unwrap();
        assert_eq!(moved(spool, &target), None);
        keep(spool, &target);
        forget(spool);
        std::fs::remove_dir_all(top).unwrap();
    }
}
