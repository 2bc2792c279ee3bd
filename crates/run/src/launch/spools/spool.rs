//! Where programs hand values over: a directory in memory for each run. The launcher makes a file of what lies there and
//! removes it. What a launcher that was killed leaves is found by the next one, or by `knarr run --recover`.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_capture::{ACCOUNT, ALIVE, HandedOver, SpoolPlace, TierPlace, marks_of};
use knarr_flow::output::{maker_lives, remove_abandoned, temporary_name};
use knarr_link::Secret;
use knarr_names::STAGED;
use knarr_tier::{NodeAccount, SharedMemory, Space, available_memory, left_in};

use crate::launch::aggregators::nodes::Nodes;

/// Memory that all processes of a node share.
pub(in crate::launch) const SHARED_MEMORY: &str = "/dev/shm";
const NAME: &str = "knarr-spool-";
/// Name of a file in a spool on a disk that says which process has made it.
const MAKER: &str = "maker";
/// A launcher that was killed keeps its lock until the system has ended it. That may be after its batch system has.
const MOMENT: Duration = Duration::from_secs(1);
/// Numbers that are tried for the name of a spool.
const MOST_OF_A_PROCESS: u32 = 1000;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The spool of this run. Dropping it removes it, unless something in it is still to be delivered.
pub(in crate::launch) struct Spool {
    directory: PathBuf,
    /// Locked as long as this lives; `None` where there are no locks.
    alive: Option<File>,
}

impl Spool {
    /// Makes one in memory, or else in `otherwise`: then it is told why there is none in memory.
    ///
    /// # Errors
    /// `Write`.
    pub(in crate::launch) fn create(otherwise: &Path) -> Result<(Self, Option<Error>)> {
        match Self::create_in(Path::new(SHARED_MEMORY)) {
            Ok(spool) => Ok((spool, None)),
            Err(error) => Self::create_in(otherwise).map(|spool| (spool, Some(error))),
        }
    }

    /// Makes one in `parent`.
    ///
    /// # Errors
    /// `Write`; also if the file system has no locks, by which programs know that the launcher lives.
    pub(in crate::launch) fn create_in(parent: &Path) -> Result<Self> {
        Self::create_with(parent, |directory| locked(directory).map(Some))
    }

    /// Makes one for what is moved out of memory, in `parent`, whose file system may have no locks.
    ///
    /// # Errors
    /// `Write`.
    pub(in crate::launch) fn create_on_disk(parent: &Path) -> Result<Self> {
        Self::create_with(parent, |directory| {
            // Who makes a temporary is known by its name.
            fs::write(directory.join(MAKER), temporary_name(OsStr::new(MAKER)).as_encoded_bytes())?;
            Ok(locked(directory).ok())
        })
    }

    fn create_with(parent: &Path, lock: impl Fn(&Path) -> std::io::Result<Option<File>>) -> Result<Self> {
        // Others find it under its name when it is complete and locked.
        let hidden = parent.join(temporary_name(OsStr::new("knarr-spool")));
        let made = DirBuilder::new().mode(0o700).create(&hidden).and_then(|()| {
            fs::create_dir(SharedMemory::reusable(&hidden))?;
            fs::create_dir(marks_of(&hidden))?;
            let alive = lock(&hidden)?;
            Ok(Self { directory: give_name(&hidden, parent)?, alive })
        });
        made.map_err(|error| {
            // Nobody else knows it.
            let _ = fs::remove_dir_all(&hidden);
            Error::write(parent, &error)
        })
    }

    pub(in crate::launch) fn path(&self) -> &Path {
        &self.directory
    }

    /// What programs are told of it. Values may take `limit` bytes of memory, and a share of what is available in any case.
    /// Those that find no room go to the tiers at `places`, and then to `disk`.
    ///
    /// # Errors
    /// `Read` if the system has no random numbers; `Write`.
    pub(in crate::launch) fn place(
        &self,
        limit: Option<u64>,
        places: Vec<TierPlace>,
        disk: &Path,
        nodes: &Nodes,
    ) -> Result<SpoolPlace> {
        // Headers need some of it, and so may others.
        let left = left_in(&self.directory);
        let (free, inodes) = (left.bytes - left.bytes / 8, left.inodes - left.inodes / 8);
        let share = (available_memory().unwrap_or(LEAST_MEMORY) / SHARE).min(free);
        let most = limit.map_or(share, |limit| limit.min(share));
        let account = self.directory.join(ACCOUNT);
        NodeAccount::create(&account, &SpoolPlace::limits(Space { bytes: most, inodes }, &places))
            .map_err(|error| Error::write(&account, &error))?;
        SpoolPlace::note_places(&self.directory, &places)?;
        let (node, peer, token) = (nodes.node().to_owned(), nodes.peer(), Secret::new()?.token());
        // By which others know that they see this spool, and not another one of its name.
        let alive = self.directory.join(ALIVE);
        fs::write(&alive, &token).map_err(|error| Error::write(&alive, &error))?;
        Ok(SpoolPlace { directory: self.directory.clone(), most, disk: disk.to_owned(), places, node, token, peer })
    }
}

/// Makes the file by whose lock others know that the launcher lives, and locks it.
fn locked(directory: &Path) -> std::io::Result<File> {
    let alive = File::create(directory.join(ALIVE))?;
    while let Err(error) = alive.lock() {
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(alive)
}

/// Renames `hidden` to a name of a spool of this process that is free in `parent`, and returns that.
fn give_name(hidden: &Path, parent: &Path) -> std::io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let directory = parent.join(format!("{NAME}{}-{number}", std::process::id()));
        let Err(error) = fs::rename(hidden, &directory) else { return Ok(directory) };
        let is_taken =
            matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory);
        if !is_taken || number == MOST_OF_A_PROCESS {
            return Err(error);
        }
        number += 1;
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if HandedOver::to_be_made(&self.directory).is_empty() {
            remove(&self.directory);
        } else if self.alive.is_none() {
            // On other nodes nobody can tell that this process has ended.
            let _ = fs::remove_file(self.directory.join(ALIVE));
        }
    }
}

/// Removes a spool of which nothing is to be made, with what lies on a disk and belongs to it. Nothing is left to report a failure
/// to; the next run tries again.
pub(in crate::launch) fn remove(spool: &Path) {
    let entries = fs::read_dir(spool).into_iter().flatten().flatten();
    // Links to files that wait in tiers are not theirs.
    let is_one =
        |entry: &fs::DirEntry| entry.file_name() != STAGED && entry.file_type().is_ok_and(|kind| kind.is_dir());
    for entry in entries.filter(is_one) {
        HandedOver::discard(&entry.path());
    }
    let _ = fs::remove_dir_all(spool);
}

/// The share of the memory that is available when a run begins which values may take.
const SHARE: u64 = 4;
/// What is available where the system does not say.
const LEAST_MEMORY: u64 = 1 << 30;

/// Spools in `parent`, of this user.
pub(in crate::launch) fn spools(parent: &Path) -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let is_spool = |path: &PathBuf| {
        let is_named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME));
        is_named && fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == user)
    };
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_spool).collect();
    found.sort();
    found
}

/// Spools in `parent` of runs that are gone, of this user. Those with nothing that could be delivered are removed, the
/// others returned.
pub(in crate::launch) fn abandoned(parent: &Path) -> Vec<PathBuf> {
    remove_abandoned(parent);
    let mut found = spools(parent);
    found.retain(|spool| is_abandoned(spool));
    found.retain(|spool| {
        let is_kept = !HandedOver::to_be_made(spool).is_empty();
        if !is_kept {
            remove(spool);
        }
        is_kept
    });
    found
}

/// Waits for a moment, until nobody delivers from those of these spools in which something is handed over.
fn await_end(spools: &[PathBuf]) {
    let end = Instant::now() + MOMENT;
    let is_held = |spool: &PathBuf| !is_abandoned(spool) && !HandedOver::to_be_made(spool).is_empty();
    while Instant::now() < end && spools.iter().any(is_held) {
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The process of the launcher that has made a spool, by its name.
pub(in crate::launch) fn launcher_of(spool: &Path) -> Option<u32> {
    let (launcher, _) = spool.file_name()?.to_str()?.strip_prefix(NAME)?.split_once('-')?;
    launcher.parse().ok()
}

/// True if nobody delivers from a spool. One without a lock was being removed.
pub(in crate::launch) fn is_abandoned(spool: &Path) -> bool {
    in_use(spool).is_none()
}

/// Why a spool has to stay: somebody delivers from it, or that cannot be told.
pub(in crate::launch) fn in_use(spool: &Path) -> Option<Error> {
    let in_use = || Error::usage("a run that goes on delivers from it").hint("wait until that run has ended");
    let alive = spool.join(ALIVE);
    let error = match File::open(&alive).map(|file| file.try_lock_shared()) {
        Ok(Ok(())) => return None,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Ok(Err(TryLockError::Error(error))) => match lives(spool) {
            Some(true) => in_use(),
            Some(false) => return None,
            None => {
                let what = format!("the disk has no locks ({error}), and its run may go on on another node");
                Error::usage(what)
                    .hint(format!("if that run has ended, remove {} and repeat the command", alive.display()))
            }
        },
        Ok(Err(TryLockError::WouldBlock)) | Err(_) => in_use(),
    };
    Some(error.at(spool.display().to_string()))
}

/// Whether the process lives that has made a spool on a disk; `None` if that cannot be told here.
fn lives(spool: &Path) -> Option<bool> {
    maker_lives(OsStr::from_bytes(&fs::read(spool.join(MAKER)).ok()?))
}

/// The spools that `--recover DIRECTORY` means: the directory itself, or those in it.
///
/// # Errors
/// `Usage` if one is in use, or there are none and `directory` is not the one in which all lie.
pub(in crate::launch) fn recoverable(directory: &Path) -> Result<Vec<PathBuf>> {
    let place = |error: Error| error.at(directory.display().to_string());
    let is_spool = directory.join(ALIVE).exists() || directory.join(MAKER).exists();
    await_end(&if is_spool { vec![directory.to_owned()] } else { spools(directory) });
    if is_spool && let Some(error) = in_use(directory) {
        return Err(error);
    }
    let found = match is_spool {
        true if HandedOver::to_be_made(directory).is_empty() => Vec::new(),
        true => vec![directory.to_owned()],
        false => abandoned(directory),
    };
    if found.is_empty() {
        let holds_some = |spool: &PathBuf| !HandedOver::to_be_made(spool).is_empty();
        if let Some(error) = spools(directory).into_iter().filter(holds_some).find_map(|spool| in_use(&spool)) {
            return Err(error);
        }
        // Whoever asks for all there is, before each job, may find nothing.
        if directory == Path::new(SHARED_MEMORY) {
            return Ok(Vec::new());
        }
        let hint = format!(
            "name the directory that 'knarr run' has told of, {SHARED_MEMORY} for all that lie there, or the .knarr beside \
             knarr.toml"
        );
        return Err(place(Error::usage("nothing in it was handed over and not delivered").hint(hint)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_config::Config;

    /// A spool with an open file.
    fn spool(folder: &Path) -> Spool {
        fs::create_dir_all(folder).unwrap();
        let spool = Spool::create_in(folder).unwrap();
        let rule = Config::parse("[[file]]\npattern = \"*\"\n").unwrap().file.remove(0);
        let directory = spool.path().join("1-0");
        fs::create_dir(&directory).unwrap();
        HandedOver::new(PathBuf::from("/data/x.nc"), rule, 1).begin(&directory).unwrap();
        spool
    }

    #[test]
    fn what_a_launcher_held_that_is_ending_can_be_recovered_at_once() {
        let folder = std::env::temp_dir().join(format!("knarr-ending-{}", std::process::id()));
        for names_spool in [true, false] {
            let held = spool(&folder);
            let path = held.path().to_owned();
            let asked = if names_spool { path.clone() } else { folder.clone() };
            let ending = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                drop(held);
            });
            assert_eq!(recoverable(&asked).unwrap(), [path]);
            ending.join().unwrap();
            fs::remove_dir_all(&folder).unwrap();
        }
        // One that goes on is in use.
        let held = spool(&folder);
        assert!(recoverable(held.path()).is_err() && recoverable(&folder).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_spool_whose_launcher_was_killed_as_it_removed_it_is_removed() {
        let folder = std::env::temp_dir().join(format!("knarr-unmade-{}", std::process::id()));
        let rest = folder.join(format!("{NAME}1-0"));
        fs::create_dir_all(SharedMemory::reusable(&rest)).unwrap();
        assert!(abandoned(&folder).is_empty() && !rest.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn names_of_others_are_not_taken() {
        let folder = std::env::temp_dir().join(format!("knarr-taken-{}", std::process::id()));
        let name = |number: u32| folder.join(format!("{NAME}{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(name(0), "a file").unwrap();
        let held = [(); 2].map(|()| Spool::create_in(&folder).unwrap());
        assert_eq!(held.each_ref().map(|held| held.path().to_owned()), [name(1), name(2)]);
        drop(held);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
