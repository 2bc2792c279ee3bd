//! Which components there are.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};

use super::address::Address;

const RUNNING: &str = "running";
const ENDED: &str = "ended";
/// Those who look whether a component runs lock its file for a moment.
const MOMENT: Duration = Duration::from_millis(200);

/// A component of this run. Dropping it takes it, and all that it offered, out of the directory.
#[derive(Debug)]
pub struct Component {
    rendezvous: PathBuf,
    directory: PathBuf,
    /// Locked as long as this lives.
    _running: File,
}

impl Component {
    /// Enters the directory `rendezvous` as the component `name`. What an earlier run of that name has left is removed.
    ///
    /// # Errors
    /// `Exists` if another run is that component; `Write`.
    pub fn enter(rendezvous: &Path, name: &str) -> Result<Self> {
        let directory = rendezvous.join(name);
        let write_error = |error: std::io::Error| Error::write(&directory, &error);
        let begin = Instant::now();
        let running = loop {
            fs::create_dir_all(&directory).map_err(write_error)?;
            let path = directory.join(RUNNING);
            let file = File::options().create(true).truncate(false).write(true).open(&path);
            match file {
                // The run before removes the directory at this moment.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && begin.elapsed() < MOMENT => continue,
                Err(error) => return Err(write_error(error)),
                Ok(file) if file.try_lock().is_ok() => {
                    let number = |found: fs::Metadata| (found.dev(), found.ino());
                    if file.metadata().ok().map(number) == fs::metadata(&path).ok().map(number) {
                        break file;
                    }
                }
                Ok(_) if begin.elapsed() < MOMENT => std::thread::sleep(Duration::from_millis(5)),
                Ok(_) => {
                    let what = format!("a program runs as component '{name}' already");
                    return Err(Error::new(ErrorKind::Exists, what)
                        .hint("wait until it has ended, or give each program a name of its own with --as")
                        .at(directory.display().to_string()));
                }
            }
        };
        let _ = fs::remove_file(directory.join(ENDED));
        Address::forget(&directory);
        let _ = fs::remove_dir_all(super::offers::files(&directory));
        Ok(Self { rendezvous: rendezvous.to_owned(), directory, _running: running })
    }

    /// Says how other nodes reach the launcher.
    ///
    /// # Errors
    /// `Write`.
    pub fn announce(&self, address: &Address) -> Result<()> {
        address.save(&self.directory)
    }

    /// Directory in which it meets others.
    pub fn rendezvous(&self) -> &Path {
        &self.rendezvous
    }

    /// Notes that the program has ended: it offers nothing more, and takes nothing more.
    ///
    /// # Errors
    /// `Write`.
    pub fn ended(&self) -> Result<()> {
        let path = self.directory.join(ENDED);
        fs::write(&path, b"").map_err(|error| Error::write(&path, &error))
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        // Nothing is left to report a failure to; the next run of that name removes what stays.
        let _ = fs::remove_dir_all(&self.directory);
        // Only by the last one.
        let _ = fs::remove_dir(&self.rendezvous);
    }
}

/// Whether a component is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// No run is that component, or its launcher was killed.
    Absent,
    /// Its program runs.
    Running,
    /// Its program has ended, and its launcher waits for those that read its files.
    Ended,
}

impl Presence {
    /// That of the component `name` in the directory `rendezvous`.
    pub fn of(rendezvous: &Path, name: &str) -> Self {
        let directory = rendezvous.join(name);
        let is_locked = |file: File| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock));
        if !File::open(directory.join(RUNNING)).is_ok_and(is_locked) {
            Self::Absent
        } else if directory.join(ENDED).exists() {
            Self::Ended
        } else {
            Self::Running
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_there_as_long_as_its_run() {
        let rendezvous = std::env::temp_dir().join(format!("knarr-component-{}", std::process::id())).join("meet");
        let of = |name: &str| Presence::of(&rendezvous, name);
        assert_eq!(of("a"), Presence::Absent);
        let a = Component::enter(&rendezvous, "a").unwrap();
        assert_eq!((of("a"), of("A"), of("a b")), (Presence::Running, Presence::Absent, Presence::Absent));
        assert_eq!(Component::enter(&rendezvous, "a").unwrap_err().kind(), ErrorKind::Exists);
        let b = Component::enter(&rendezvous, "a b").unwrap();
        a.ended().unwrap();
        assert_eq!((of("a"), of("a b")), (Presence::Ended, Presence::Running));
        drop(a);
        assert_eq!((of("a"), of("a b")), (Presence::Absent, Presence::Running));
        drop(b);
        assert!(!rendezvous.exists());
        fs::remove_dir_all(rendezvous.parent().unwrap()).unwrap();
    }
}
