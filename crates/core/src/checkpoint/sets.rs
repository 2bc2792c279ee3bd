//! The sets of a directory, in the order in which they were completed, and what is left of half written ones.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::names::natural;
use super::set::{MANIFEST, MANIFEST_COPY, Set, is_set};
use crate::codec::CodecList;
use crate::error::{Error, ErrorKind, Result};

/// Names of the sets of a time step begin with this; the number of the step follows.
pub const NAME: &str = "step_";

/// Path of the set of a time step in `directory`.
pub fn of_step(directory: &Path, step: u64) -> PathBuf {
    directory.join(format!("{NAME}{step}"))
}

/// The directory that a set lies in.
pub fn directory_of(set: &Path) -> &Path {
    set.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The time step that a set is of, as its name says.
pub fn step(set: &Path) -> Option<u64> {
    set.file_name()?.to_str()?.strip_prefix(NAME)?.parse().ok()
}

/// Sets in `directory`, the newest last. Hidden ones, which are being written, do not count.
///
/// # Errors
/// `NotFound` or `Read` if the directory cannot be read.
pub fn completed(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).map_err(|error| Error::read(directory, &error))?;
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

/// Sets in `directory` of which nothing is known to be missing, the newest last, and what is wrong with the others. Frames
/// are not read.
///
/// # Errors
/// As for [`completed`].
pub fn whole(directory: &Path, codecs: &CodecList) -> Result<(Vec<Set>, Vec<Error>)> {
    let (mut sets, mut damaged) = (Vec::new(), Vec::new());
    for path in completed(directory)? {
        match Set::open(&path, codecs).and_then(|set| set.check_files().map(|()| set)) {
            Ok(set) => sets.push(set),
            Err(error) => damaged.push(error),
        }
    }
    Ok((sets, damaged))
}

/// When the set was completed: its manifest is written last.
///
/// # Errors
/// `NotFound` or `Read` if it cannot be read.
pub fn when(set: &Path) -> Result<SystemTime> {
    let (manifest, copy) = (set.join(MANIFEST), set.join(MANIFEST_COPY));
    let manifest = if manifest.exists() { manifest } else { copy };
    manifest.metadata().and_then(|metadata| metadata.modified()).map_err(|error| Error::read(&manifest, &error))
}

/// Makes this process the one that writes the sets of `directory`, until what is returned is dropped. Where the file
/// system has no locks nobody is kept out.
///
/// # Errors
/// `Exists` if another process does; `Read` if the directory cannot be opened.
pub fn lock(directory: &Path) -> Result<File> {
    let opened = File::open(directory).map_err(|error| Error::read(directory, &error))?;
    match opened.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::new(
            ErrorKind::Exists,
            "another watch writes its sets there, or a program that makes checkpoints",
        )
        .mend(
            "end it first, or name another directory for sets; one 'knarr run' serves all ranks: knarr run -- mpirun …",
        )
        .at(directory.display().to_string())),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(opened),
    }
}

/// Removes what processes that were killed left half written or half removed. For who holds [`lock`]: none of it is being
/// worked on.
///
/// # Errors
/// `NotFound` or `Read` if the directory cannot be read, `Write` if something cannot be removed.
pub fn sweep(directory: &Path) -> Result<()> {
    let entries = fs::read_dir(directory).map_err(|error| Error::read(directory, &error))?;
    for entry in entries.flatten() {
        let is_left = entry.file_name().to_str().and_then(worker).is_some_and(|process| !is_alive(process));
        if is_left {
            fs::remove_dir_all(entry.path()).map_err(|error| Error::write(&entry.path(), &error))?;
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

/// What became of the sets of a directory.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Sets that stay, the newest last.
    pub kept: Vec<PathBuf>,
    /// Sets that were removed, or would be.
    pub removed: Vec<PathBuf>,
    /// What is wrong with the other sets.
    pub damaged: Vec<Error>,
}

/// Removes all but the `keep` sets in `directory` that were completed last. Sets of which something is missing are not
/// counted and not removed.
///
/// # Errors
/// `NotFound` or `Read` if the directory cannot be read; `Write` if a set cannot be removed; `Exists` if files lie in it
/// that are not its own.
pub fn prune(directory: &Path, keep: usize, codecs: &CodecList, dry_run: bool) -> Result<Pruned> {
    let (mut sets, damaged) = whole(directory, codecs)?;
    let mut pruned = Pruned { damaged, ..Pruned::default() };
    let stale = sets.len().saturating_sub(keep);
    for set in sets.drain(..stale) {
        if !dry_run {
            remove(&set)?;
        }
        pruned.removed.push(set.path().to_owned());
    }
    pruned.kept = sets.iter().map(|set| set.path().to_owned()).collect();
    Ok(pruned)
}

/// Takes the set's name away first: what is half removed must not look like a set.
fn remove(set: &Set) -> Result<()> {
    let path = set.path();
    let write_error = |error: std::io::Error| Error::write(path, &error);
    let own = |name: &std::ffi::OsStr| {
        name == MANIFEST
            || name == MANIFEST_COPY
            || set.manifest().stores.iter().any(|store| name == store.name.as_str())
    };
    for entry in fs::read_dir(path).map_err(write_error)? {
        let name = entry.map_err(write_error)?.file_name();
        if !own(&name) {
            return Err(Error::new(ErrorKind::Exists, format!("'{}' is not of the set", name.to_string_lossy()))
                .mend("move it elsewhere, or remove the set yourself")
                .at(path.display().to_string()));
        }
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let hidden = path.with_file_name(format!(".{name}.removed-{}", std::process::id()));
    fs::rename(path, &hidden).map_err(write_error)?;
    fs::remove_dir_all(&hidden).map_err(write_error)
}

#[cfg(test)]
mod tests {
    use super::{of_step, step, worker};
    use std::path::Path;

    #[test]
    fn names_say_the_step() {
        assert_eq!(step(&of_step(Path::new("/a"), 40)), Some(40));
        assert_eq!(step(Path::new("/a/0040")), None);
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
