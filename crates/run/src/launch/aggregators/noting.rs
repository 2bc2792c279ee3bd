//! Notes about pending names for programs on other nodes: a directory in `.knarr`, which all launchers of a run share.
//!
//! A launcher holds a file in it locked, by which others know that it lives, and changes the time of that as long as it gets on.
//! What a launcher has not made when it goes stays noted until the last one has gone.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use knarr_array::error::{Error, Result};
use knarr_capture::Snapshot;
use knarr_capture::meeting::has_local_locks;
use knarr_names::{LAUNCHER, OtherNodes, launcher_of};

/// The name of the directory.
const NAME: &str = "pending";
/// How often at most others are told that a launcher gets on: that costs the file system a change.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// How often others may remove the file of a launcher while it begins.
const ATTEMPTS: usize = 1000;
/// How often a lock is tried that fails.
const FEW: usize = 3;

/// What a launcher does about notes.
pub(in crate::launch) struct Noting {
    directory: PathBuf,
    name: String,
    tails: Vec<String>,
    has_stores: bool,
    alive: Mutex<Option<Alive>>,
}

struct Alive {
    file: File,
    /// What [`Noting::beat`] has heard, and when it has told.
    beats: u64,
    told: Instant,
}

impl Noting {
    /// Makes the directory in `scratch`. If that cannot be, the error says why: ranks wait then until their files are there, as
    /// no note can be made.
    pub(in crate::launch) fn begin(scratch: &Path, snapshot: &Snapshot) -> (Self, Result<()>) {
        let directory = std::path::absolute(scratch).unwrap_or_else(|_| scratch.to_owned()).join(NAME);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("{:x}-{:x}", std::process::id(), since.as_nanos());
        let made = enter(&directory, &name);
        let (alive, result) = match made {
            Ok(file) => (Some(Alive { file, beats: 0, told: Instant::now() }), Ok(())),
            Err(error) => (None, Err(Error::write(&directory, &error))),
        };
        let (tails, has_stores) = snapshot.pending_tails();
        (Self { directory, name, tails, has_stores, alive: Mutex::new(alive) }, result)
    }

    /// What processes are to know of it.
    pub(in crate::launch) fn other_nodes(&self) -> OtherNodes<'_> {
        let has_locks = !has_local_locks(&self.directory);
        let Self { directory, name, tails, has_stores, .. } = self;
        OtherNodes { directory, launcher: name, tails, has_stores: *has_stores, has_locks }
    }

    /// Tells others that the launcher gets on, if a number has changed.
    pub(in crate::launch) fn beat(&self, beats: u64) {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(alive) = alive.as_mut().filter(|alive| alive.beats != beats && alive.told.elapsed() > TELL_EVERY)
        else {
            return;
        };
        // What fails now may succeed the next time.
        if alive.file.set_modified(SystemTime::now()).is_ok() {
            (alive.beats, alive.told) = (beats, Instant::now());
        }
    }

    /// Says that the launcher goes. What is noted yet is not made by it any more.
    pub(in crate::launch) fn leave(&self) {
        let left = self.alive.lock().unwrap_or_else(PoisonError::into_inner).take();
        if left.is_some() {
            let _ = fs::remove_file(self.directory.join(format!("{LAUNCHER}{}", self.name)));
        }
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Makes the directory, and the file in it by which others know a launcher.
fn enter(directory: &Path, name: &str) -> std::io::Result<File> {
    fs::create_dir_all(directory)?;
    sweep(directory);
    let path = directory.join(format!("{LAUNCHER}{name}"));
    for attempt in 0..ATTEMPTS {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&path)?;
        match file.lock() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted || attempt < FEW => continue,
            // Without locks others wait as long as the time changes.
            Err(_) => return Ok(file),
            Ok(()) => {}
        }
        // Another one may have taken it for that of one that was killed.
        if path.exists() {
            return Ok(file);
        }
    }
    Err(std::io::ErrorKind::NotFound.into())
}

/// Removes what launchers have left that are gone.
fn sweep(directory: &Path) {
    let has_locks = !has_local_locks(directory);
    let entries = || fs::read_dir(directory).into_iter().flatten().flatten();
    let is_gone = |launcher: &str| match File::open(directory.join(format!("{LAUNCHER}{launcher}"))) {
        Ok(file) => has_locks && file.try_lock_shared().is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    for entry in entries() {
        let led = fs::read_link(entry.path());
        let launcher = led.ok().and_then(|led| launcher_of(led.as_os_str().as_encoded_bytes()));
        if launcher.is_some_and(|launcher| is_gone(&launcher)) {
            let _ = fs::remove_file(entry.path());
        }
    }
    for entry in entries() {
        if entry.file_name().to_str().and_then(|name| name.strip_prefix(LAUNCHER)).is_some_and(is_gone) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes the directory in `scratch`, which nobody uses any more.
pub(in crate::launch) fn remove(scratch: &Path) {
    let directory = scratch.join(NAME);
    sweep(&directory);
    let _ = fs::remove_dir(directory);
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_config::Config;
    use std::os::unix::fs::symlink;

    fn begin(scratch: &Path) -> Noting {
        let config = Config::parse("[[file]]\npattern = \"a_*.nc\"\noutput = \"zarr\"\n").unwrap();
        let (noting, made) = Noting::begin(scratch, &Snapshot::new(config));
        made.unwrap();
        noting
    }

    #[test]
    fn what_a_launcher_has_left_goes_when_it_is_gone() {
        let scratch = std::env::temp_dir().join(format!("knarr-noting-{}", std::process::id()));
        let directory = scratch.join(NAME);
        let first = begin(&scratch);
        let other_nodes = first.other_nodes();
        assert_eq!((other_nodes.tails, other_nodes.has_stores), (&[".nc".to_owned(), ".zarr".to_owned()][..], true));
        let (own, other) = (directory.join("1-2"), directory.join("1-3"));
        symlink(format!("wn0000000000000001-{}", first.name), &own).unwrap();
        symlink("wo0000000000000001-dead", &other).unwrap();
        fs::write(directory.join("launcher-killed"), b"").unwrap();
        let second = begin(&scratch);
        assert!(own.is_symlink() && !other.is_symlink() && !directory.join("launcher-killed").exists());
        drop(first);
        remove(&scratch);
        assert!(!own.is_symlink() && directory.exists());
        drop(second);
        remove(&scratch);
        assert!(!directory.exists());
        remove(&scratch);
        // Where there can be none.
        fs::write(&directory, b"").unwrap();
        let (without, made) = Noting::begin(&scratch, &Snapshot::new(Config::default()));
        assert!(made.is_err());
        without.beat(1);
        drop(without);
        fs::remove_dir_all(scratch).unwrap();
    }
}
