//! `.knarr` beside the configuration: files that are being packed, spools that were moved out of memory, and headers that several
//! nodes read. Launchers that run at the same time share it, on whatever nodes.
//!
//! The last one out removes it if nothing is in it. Each holds a lock on a file in it meanwhile, so that nobody removes what
//! another one is about to use. A launcher that was killed holds none; what it leaves goes with the next one.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use knarr_capture::{BUCKET, HandedOver};
use knarr_flow::output::remove_abandoned;

use crate::launch::aggregators::noting;

/// The name of such a directory.
pub(in crate::launch) const NAME: &str = ".knarr";
/// Locked by all that use the directory.
const USED: &str = "in-use";
/// How often others may remove it while this one makes it: who comes and goes so often is no launcher.
const ATTEMPTS: usize = 1000;

/// The directory of a run with this configuration.
pub(in crate::launch) fn of(config: &Path) -> PathBuf {
    let config = std::path::absolute(config).unwrap_or_else(|_| config.to_owned());
    config.parent().unwrap_or(Path::new("/")).join(NAME)
}

/// The directory, for a launcher.
pub(in crate::launch) struct Scratch {
    path: PathBuf,
    /// `None` where the directory cannot be made, or the file system has no locks. Then it stays as it is.
    used: Option<File>,
}

impl Scratch {
    /// Makes the directory if it is not there, and keeps it as long as this lives. Where it cannot be made, packed files are
    /// made beside the files.
    pub(in crate::launch) fn enter(path: PathBuf) -> Self {
        let used = hold(&path).ok();
        Self { path, used }
    }

    /// Removes what a launcher that was killed has left of the directory, if `path` is one, and the directory if nothing else is
    /// in it.
    pub(in crate::launch) fn tidy(path: &Path) {
        let is_one = path.file_name().is_some_and(|name| name == NAME) && path.is_dir();
        if is_one || path.join(USED).exists() {
            drop(Self::enter(path.to_owned()));
        }
    }

    pub(in crate::launch) fn path(&self) -> &Path {
        &self.path
    }
}

fn hold(path: &Path) -> io::Result<File> {
    let name = path.join(USED);
    for _ in 0..ATTEMPTS {
        match fs::create_dir_all(path) {
            // The last one has removed it between two looks.
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => continue,
            made => made?,
        }
        let used = match File::options().create(true).truncate(false).read(true).write(true).open(&name) {
            // The last one has removed it at this moment.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            opened => opened?,
        };
        match used.lock_shared() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                let _ = fs::remove_file(&name);
                return Err(error);
            }
        }
        if is_at(&used, &name) {
            return Ok(used);
        }
    }
    Err(ErrorKind::NotFound.into())
}

/// True if the file has this name, still.
fn is_at(file: &File, name: &Path) -> bool {
    let number = |found: io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    number(file.metadata()).is_some_and(|found| number(fs::metadata(name)) == Some(found))
}

/// Removes what ranks that were killed while they opened a file have left, and by what launchers shared an emulated device: none
/// is there, so they are gone.
fn remove_marks(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if HandedOver::is_mark(&name) || name.starts_with(BUCKET) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Who could not lock it then may be able to now.
        let again = || self.path.is_dir().then(|| hold(&self.path).ok()).flatten();
        let Some(used) = self.used.take().or_else(again) else { return };
        let name = self.path.join(USED);
        // Of several that leave at once one gets it. Nothing is left to report a failure to.
        let is_last = match used.try_lock() {
            Err(TryLockError::Error(_)) => used.try_lock().is_ok(),
            locked => locked.is_ok(),
        };
        if is_last && is_at(&used, &name) {
            noting::remove(&self.path);
            remove_marks(&self.path);
            // A worker that crashed has left what it was writing.
            remove_abandoned(&self.path);
            let _ = fs::remove_file(name);
            // What is kept there stays, and so does what another one has entered since.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("knarr-scratch-{}-{name}", std::process::id())).join(".knarr")
    }

    #[test]
    fn the_last_one_out_removes_it_and_never_what_another_one_uses() {
        let path = place("many");
        for round in 0..50 {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let path = &path;
                    scope.spawn(move || {
                        for turn in 0..20 {
                            let scratch = Scratch::enter(path.clone());
                            let file = scratch.path().join(format!("{thread}-{turn}"));
                            fs::write(&file, b"").unwrap_or_else(|error| panic!("round {round}: {error}"));
                            fs::remove_file(&file).unwrap();
                            std::thread::yield_now();
                            assert!(path.is_dir());
                        }
                    });
                }
            });
            assert!(!path.exists(), "round {round}: it stays");
        }
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_is_kept_there_stays_and_what_a_killed_launcher_left_goes() {
        let path = place("kept");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(USED), b"").unwrap();
        fs::write(path.join("pending-values"), b"{}").unwrap();
        drop(Scratch::enter(path.clone()));
        let names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["pending-values"]);
        fs::remove_file(path.join("pending-values")).unwrap();
        for name in [USED, "header-a-1.begin", "header-a-1.nc.locktest.0"] {
            fs::write(path.join(name), b"").unwrap();
        }
        Scratch::tidy(&path);
        assert!(!path.exists());
        Scratch::tidy(&path);
        assert!(!path.exists());
        // Where there can be none.
        fs::write(&path, b"").unwrap();
        drop(Scratch::enter(path.clone()));
        assert!(path.is_file());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
