//! The sets of a directory, in the order in which they were completed.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::disk::set::{MANIFEST, MANIFEST_COPY, Set, is_closed, is_parity, is_set};
use crate::files::names::natural;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_codec::codec::CodecList;
use knarr_flow::output::temporary_name;

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

/// Sets in `directory`, the newest last, with those of time steps that may not be read: a newer set must not be taken for
/// none. Hidden ones, which are being written, do not count.
///
/// # Errors
/// `NotFound` or `Read` if the directory cannot be read.
pub fn completed(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).map_err(|error| Error::read(directory, &error))?;
    let mut sets: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|entry| entry.path())
        .filter(|path| is_set(path) || step(path).is_some() && is_closed(path))
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

/// When the set was completed: its manifest is written last. Of one that may not be read the directory tells.
///
/// # Errors
/// `NotFound` or `Read` if it cannot be read.
pub fn when(set: &Path) -> Result<SystemTime> {
    let (manifest, copy) = (set.join(MANIFEST), set.join(MANIFEST_COPY));
    let manifest = if manifest.exists() { manifest } else { copy };
    let dated = if is_closed(set) { set } else { manifest.as_path() };
    dated.metadata().and_then(|metadata| metadata.modified()).map_err(|error| Error::read(&manifest, &error))
}

/// Dates of files are not told apart more finely than this everywhere.
const TICK: Duration = Duration::from_secs(1);

/// Makes a set that is about to be completed in `directory` the newest one: its manifest, at the path `manifest`, gets a
/// date after those of all others. The clock may have gone back since they were completed, or be that of another node.
/// Where sets cannot be listed or dates not be set, the clocks have to do.
pub(crate) fn make_newest(manifest: &Path, directory: &Path) {
    let date = || {
        let last = newest(directory)?;
        let file = File::options().write(true).open(manifest).ok()?;
        let own = file.metadata().and_then(|metadata| metadata.modified()).ok()?;
        let later = last.checked_add(TICK).filter(|_| own <= last)?;
        file.set_modified(later).ok()
    };
    date();
}

/// When the newest set in `directory` was completed.
pub(crate) fn newest(directory: &Path) -> Option<SystemTime> {
    when(completed(directory).ok()?.last()?).ok()
}

/// A date after `last`, and now if that is later.
pub(crate) fn after(last: Option<SystemTime>) -> SystemTime {
    let now = SystemTime::now();
    last.and_then(|last| last.checked_add(TICK)).map_or(now, |next| next.max(now))
}

/// Gives a set in the directory `path`, which has no name yet, a date that was decided elsewhere: all parts of a set, and its copy, have one.
///
/// # Errors
/// `Write`: with another date an older set might pass for a newer one.
pub(crate) fn set_date(path: &Path, date: SystemTime) -> Result<()> {
    for file in [MANIFEST, MANIFEST_COPY].map(|name| path.join(name)) {
        let set = File::options().write(true).open(&file).and_then(|file| file.set_modified(date));
        set.map_err(|error| Error::write(&file, &error))?;
    }
    Ok(())
}

/// How long a process that was killed may hold its lock: the system closes its files after whoever waited for its end
/// goes on, and a child that it had just begun holds them, too.
const ENDING: Duration = Duration::from_secs(1);

/// Makes this process the one that writes the sets of `directory`, until what is returned is dropped. Where the file
/// system has no locks nobody is kept out.
///
/// # Errors
/// `Exists` if another process does, and goes on; `Read` if the directory cannot be opened.
pub fn lock(directory: &Path) -> Result<File> {
    let opened = File::open(directory).map_err(|error| Error::read(directory, &error))?;
    let begin = Instant::now();
    let mut locked = opened.try_lock();
    while matches!(locked, Err(TryLockError::WouldBlock)) && begin.elapsed() < ENDING {
        std::thread::sleep(Duration::from_millis(10));
        locked = opened.try_lock();
    }
    match locked {
        Err(TryLockError::WouldBlock) => Err(Error::new(
            ErrorKind::Exists,
            "another watch writes its sets there, or a program that makes checkpoints",
        )
        .hint(
            "end it first, or name another directory for sets; one 'knarr run' serves all ranks: knarr run -- mpirun …",
        )
        .at(directory.display().to_string())),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(opened),
    }
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
    /// Why old sets could not be removed.
    pub failed: Vec<Error>,
}

/// Removes all but the `keep` sets in `directory` that were completed last. Sets of which something is missing are not
/// counted and not removed, nor are those that files lie in that are not their own.
///
/// # Errors
/// `NotFound` or `Read` if the directory cannot be read.
pub fn prune(directory: &Path, keep: usize, codecs: &CodecList, dry_run: bool) -> Result<Pruned> {
    let (mut sets, damaged) = whole(directory, codecs)?;
    let mut pruned = Pruned { damaged, ..Pruned::default() };
    let stale = sets.len().saturating_sub(keep);
    for set in sets.drain(..stale) {
        let removed = own_files_only(&set).and_then(|()| if dry_run { Ok(()) } else { remove(set.path()) });
        match removed {
            Ok(()) => pruned.removed.push(set.path().to_owned()),
            Err(error) => pruned.failed.push(error),
        }
    }
    pruned.kept = sets.iter().map(|set| set.path().to_owned()).collect();
    Ok(pruned)
}

/// Refuses a set in whose directory something else lies.
fn own_files_only(set: &Set) -> Result<()> {
    let path = set.path();
    let names = set.file_names();
    let own =
        |name: &std::ffi::OsStr| names.iter().any(|own| name == own.as_str()) || name.to_str().is_some_and(is_parity);
    for entry in fs::read_dir(path).map_err(|error| Error::read(path, &error))? {
        let name = entry.map_err(|error| Error::read(path, &error))?.file_name();
        if !own(&name) {
            return Err(Error::new(ErrorKind::Exists, format!("'{}' is not of the set", name.to_string_lossy()))
                .hint("move it elsewhere, or remove the set yourself")
                .at(path.display().to_string()));
        }
    }
    Ok(())
}

/// Removes a set. Takes its name away first: what is half removed must not look like a set.
///
/// # Errors
/// `Write`.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let write_error = |error: std::io::Error| Error::write(path, &error);
    let hidden = path.with_file_name(temporary_name(path.file_name().unwrap_or_default()));
    fs::rename(path, &hidden).map_err(write_error)?;
    fs::remove_dir_all(&hidden).map_err(write_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_step() {
        assert_eq!(step(&of_step(Path::new("/a"), 40)), Some(40));
        assert_eq!(step(Path::new("/a/0040")), None);
    }

    #[test]
    fn whoever_holds_a_lock_and_is_ending_is_waited_for_and_nobody_else() {
        let folder = std::env::temp_dir().join(format!("knarr-sets-lock-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let held = lock(&folder).unwrap();
        let ending = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(held);
        });
        let held = lock(&folder).unwrap();
        ending.join().unwrap();
        assert_eq!(lock(&folder).unwrap_err().kind(), ErrorKind::Exists);
        drop(held);
        fs::remove_dir_all(folder).unwrap();
    }
}
