//! The sets of a directory, in the order in which they were completed, and what is left of half written ones.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use knarr_core::checkpoint::set::{MANIFEST, is_set};
use knarr_core::checkpoint::{Set, natural};
use knarr_core::codec::CodecList;
use knarr_core::error::{Error, ErrorKind, Result};
use rustix::fs::FlockOperation;

/// Sets in `directory`, the newest last. Hidden ones, which are being written, do not count.
///
/// # Errors
/// `NotFound` or `Read` if the directory cannot be read.
pub(crate) fn completed(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory).map_err(|error| Error::read(directory, &error))?;
    let mut sets: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|entry| entry.path())
        .filter(|path| is_set(path))
        .filter_map(|path| Some((when(&path).ok()?, path)))
        .collect();
    let name = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    sets.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| natural(&name(one), &name(other))));
    Ok(sets.into_iter().map(|(_, path)| path).collect())
}

/// The set in `directory` that was completed last and can be read: what a new one need not store again.
pub(super) fn base(directory: &Path, codecs: &CodecList) -> Option<PathBuf> {
    completed(directory).ok()?.into_iter().rev().find(|path| Set::open(path, codecs).is_ok())
}

/// When the set was completed: its manifest is written last.
///
/// # Errors
/// `NotFound` or `Read` if it cannot be read.
pub(super) fn when(set: &Path) -> Result<SystemTime> {
    let manifest = set.join(MANIFEST);
    manifest.metadata().and_then(|metadata| metadata.modified()).map_err(|error| Error::read(&manifest, &error))
}

/// Names of the sets that a watch makes begin with this; the time step follows.
const NAME: &str = "step_";

/// The set of a time step in the directory `sets`.
pub(crate) fn set_of(sets: &Path, step: u64) -> PathBuf {
    sets.join(format!("{NAME}{step}"))
}

/// The time step of a set, as its name says.
pub(crate) fn step_of(set: &Path) -> Option<u64> {
    set.file_name()?.to_str()?.strip_prefix(NAME)?.parse().ok()
}

/// Makes the directory of sets, and removes what killed watches left there. Two watches would pack every step twice:
/// it belongs to this one until the result is dropped.
///
/// # Errors
/// `Exists` if another watch has it, `Write` if it cannot be made or cleared.
pub(crate) fn take(directory: &Path) -> Result<File> {
    std::fs::create_dir_all(directory).map_err(|error| Error::write(directory, &error))?;
    let lock = File::open(directory).map_err(|error| Error::read(directory, &error))?;
    // Not every file system has locks.
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
        return Err(Error::new(ErrorKind::Exists, "another watch writes its sets there")
            .mend("end it first, or name another directory for sets; under MPI one watch serves all ranks: knarr run -- mpirun …")
            .at(directory.display().to_string()));
    }
    sweep(directory)?;
    Ok(lock)
}

/// Removes what watches that were killed left half written or half removed. For who holds the lock on the directory:
/// none of it is being worked on.
///
/// # Errors
/// `NotFound` or `Read` if the directory cannot be read, `Write` if something cannot be removed.
fn sweep(directory: &Path) -> Result<()> {
    let entries = std::fs::read_dir(directory).map_err(|error| Error::read(directory, &error))?;
    for entry in entries.flatten() {
        let is_left = entry.file_name().to_str().and_then(worker).is_some_and(|process| !is_alive(process));
        if is_left {
            std::fs::remove_dir_all(entry.path()).map_err(|error| Error::write(&entry.path(), &error))?;
        }
    }
    Ok(())
}

/// The process that works on a set under this hidden name: `.step_40.knarr-4711-0`, `.step_40.removed-4711`.
fn worker(name: &str) -> Option<u32> {
    let (step, rest) = name.strip_prefix('.')?.strip_prefix(NAME)?.split_once('.')?;
    step.parse::<u64>().ok()?;
    let process = match rest.strip_prefix("knarr-") {
        Some(rest) => rest.split_once('-')?.0,
        None => rest.strip_prefix("removed-")?,
    };
    process.parse().ok()
}

fn is_alive(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::worker;

    #[test]
    fn names_of_sets_say_the_step() {
        let sets = std::path::Path::new("sets");
        assert_eq!(super::step_of(&super::set_of(sets, 40)), Some(40));
        assert_eq!(super::step_of(&sets.join("step_x")), None);
        assert_eq!(super::step_of(&sets.join("0040")), None);
    }

    #[test]
    fn only_what_a_watch_leaves_is_swept() {
        assert_eq!(worker(".step_40.knarr-4711-0"), Some(4711));
        assert_eq!(worker(".step_40.removed-12"), Some(12));
        for other in
            ["step_40", ".step_40", "step_40.knarr-4711-0", ".other.knarr-4711-0", ".step_x.knarr-1-0", ".step_1.old"]
        {
            assert_eq!(worker(other), None, "{other}");
        }
    }
}
