//! Directories of launchers that were killed: who has made one holds a lock in it for as long as it lives.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Those in `parent` of the user `user` whose names begin with `prefix` and whose makers have gone, each with its lock `name`,
/// which this process has then; without one if there is none: its maker was killed before it had made that, or is about to.
pub(in crate::launch) fn left_behind<'n>(
    parent: &Path,
    prefix: &'n str,
    name: &'n str,
    user: u32,
) -> impl Iterator<Item = (PathBuf, Option<File>)> + 'n {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.filter(move |entry| entry.file_name().to_string_lossy().starts_with(prefix)).filter_map(move |entry| {
        let place = entry.path();
        // Others may make what has such a name: their directories are left alone, and a pipe in one would hold this process up.
        let is_own = |found: &fs::Metadata| found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0;
        fs::symlink_metadata(&place).ok().filter(is_own)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::open(place.join(name), flags, Mode::empty()).map(File::from) {
            Ok(lock) if lock.try_lock().is_ok() => Some((place, Some(lock))),
            Err(Errno::NOENT) => Some((place, None)),
            _ => None,
        }
    })
}
