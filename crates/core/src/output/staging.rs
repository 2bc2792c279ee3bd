//! A directory that is filled beside its final place and put there in one step.

use super::access::take_access;
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a staged directory is.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Name for people: `Zarr store`.
    pub noun: &'static str,
    /// Whether a directory is one: nothing else is replaced, because that removes all it holds.
    pub is: fn(&Path) -> bool,
    /// Something in it that is not of it, which would be removed with it.
    pub foreign: fn(&Path) -> Option<PathBuf>,
    /// True for directories of very many files, which are synced with all of their file system at once.
    pub many_files: bool,
}

/// Dropped without [`Staging::publish`], everything written is removed.
#[derive(Debug)]
pub struct Staging {
    kind: Kind,
    target: PathBuf,
    dir: PathBuf,
    /// Locked as long as somebody writes to the directory; `None` where the file system has no locks.
    _lock: Option<File>,
    force: bool,
    files: u64,
    bytes: u64,
    published: bool,
}

impl Staging {
    /// Makes an empty directory beside `target`. What programs left there that were killed while they wrote the same
    /// target is removed.
    ///
    /// # Errors
    /// `Exists` if the target is there and may not be replaced, `Usage` if it has no name, `Write`.
    pub fn create(target: &Path, kind: Kind, force: bool) -> Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        check_target(target, kind, force)?;
        let Some(name) = target.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::usage("the output has no name").at(target.display().to_string()));
        };
        remove_abandoned(target, name);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let dir = target.with_file_name(format!("{}{}-{count}", prefix(name), std::process::id()));
        fs::create_dir(&dir).map_err(|error| Error::write(target, &error))?;
        let lock = File::open(&dir).ok().filter(|lock| lock.try_lock().is_ok());
        let made =
            Self { kind, _lock: lock, target: target.to_owned(), dir, force, files: 0, bytes: 0, published: false };
        made.take_access().map_err(|error| Error::write(target, &error))?;
        Ok(made)
    }

    /// Takes what access there is to the directory that is to be replaced, if there is one. This program can still
    /// write.
    fn take_access(&self) -> std::io::Result<()> {
        let Ok(replaced) = fs::metadata(&self.target) else { return Ok(()) };
        let made = File::open(&self.dir)?;
        take_access(&made, &replaced)?;
        made.set_permissions(Permissions::from_mode(replaced.permissions().mode() & 0o777 | 0o700))
    }

    /// Path of the finished output.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Writes a whole new file at `relative`, making directories on the way.
    ///
    /// # Errors
    /// `Write`, `Internal` if the file is there.
    pub fn write(&mut self, relative: &str, bytes: &[u8]) -> Result<()> {
        match self.append(relative, bytes)? {
            0 => Ok(()),
            _ => Err(Error::internal(format!("'{relative}' was written twice"))),
        }
    }

    /// Adds bytes to the end of a file and returns the offset they start at.
    ///
    /// # Errors
    /// `Write`.
    pub fn append(&mut self, relative: &str, bytes: &[u8]) -> Result<u64> {
        let path = self.dir.join(relative);
        let write_error = |error: std::io::Error| Error::write(&self.target, &error);
        let open = |new: bool| OpenOptions::new().create_new(new).append(true).open(&path);
        let mut made = open(true);
        if made.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            self.make_parents(relative).map_err(write_error)?;
            made = open(true);
        }
        let mut file = match made {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => open(false),
            made => {
                self.files += u64::from(made.is_ok());
                made
            }
        }
        .map_err(write_error)?;
        let offset = file.metadata().map_err(write_error)?.len();
        file.write_all(bytes).map_err(write_error)?;
        self.bytes += bytes.len() as u64;
        Ok(offset)
    }

    /// Copies a file that is part of the data.
    ///
    /// # Errors
    /// `Read` or `Write`.
    pub fn copy(&mut self, from: &Path, relative: &str) -> Result<()> {
        let to = self.dir.join(relative);
        self.make_parents(relative).map_err(|error| Error::write(&self.target, &error))?;
        // `fs::copy` does not say which side failed; reading is tried first.
        File::open(from).map_err(|error| Error::read(from, &error))?;
        self.bytes += fs::copy(from, &to).map_err(|error| Error::write(&self.target, &error))?;
        self.files += 1;
        Ok(())
    }

    /// Makes the directories that lead to `relative`, but not the staged one: if somebody took that away, what was
    /// written is lost.
    fn make_parents(&self, relative: &str) -> std::io::Result<()> {
        let mut path = self.dir.clone();
        let parents = Path::new(relative).parent().into_iter().flat_map(Path::components);
        parents.into_iter().try_for_each(|component| {
            path.push(component);
            match fs::create_dir(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(()),
            }
        })
    }

    /// Refuses to publish a directory from which somebody took files while it was written. Others count their own.
    fn check_files(&self) -> Result<()> {
        let write_error = |error: std::io::Error| Error::write(&self.target, &error);
        if !self.kind.many_files || tally(&self.dir).map_err(write_error)? == (self.files, self.bytes) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Write, "files were removed or changed while it was written")
            .mend("repeat this, and keep what cleans up away from names that begin with a dot")
            .at(self.target.display().to_string()))
    }

    /// Path that the directory has until it is published.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Syncs everything and gives the directory its final name. Returns the bytes written by this.
    ///
    /// # Errors
    /// `Exists` if the target has appeared meanwhile and may not be replaced, `Write`.
    pub fn publish(mut self) -> Result<u64> {
        let write_error = |error: std::io::Error| Error::write(&self.target, &error);
        self.sync().map_err(write_error)?;
        self.check_files()?;
        let parent = match self.target.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        check_target(&self.target, self.kind, self.force)?;
        match renameat_with(CWD, &self.dir, CWD, &self.target, RenameFlags::NOREPLACE) {
            Ok(()) => self.published = true,
            Err(rustix::io::Errno::EXIST) if self.force => self.replace()?,
            Err(rustix::io::Errno::EXIST) => return Err(exists(&self.target)),
            // File systems without this flag: the check above has to do.
            Err(_) if !self.target.exists() => {
                fs::rename(&self.dir, &self.target).map_err(write_error)?;
                self.published = true;
            }
            Err(_) => self.replace()?,
        }
        File::open(&parent).and_then(|dir| dir.sync_all()).map_err(|error| Error::write(&parent, &error))?;
        Ok(self.bytes)
    }

    /// Makes everything in the directory durable.
    fn sync(&self) -> std::io::Result<()> {
        #[cfg(target_os = "linux")]
        if self.kind.many_files && rustix::fs::syncfs(File::open(&self.dir)?).is_ok() {
            return Ok(());
        }
        sync_tree(&self.dir)
    }

    /// Swaps the finished directory with the existing one and removes the latter.
    fn replace(&mut self) -> Result<()> {
        let write_error = |error: std::io::Error| Error::write(&self.target, &error);
        if renameat_with(CWD, &self.dir, CWD, &self.target, RenameFlags::EXCHANGE).is_ok() {
            // `dir` is now the old store; dropping `self` removes it.
            return Ok(());
        }
        // No atomic exchange on this file system: for a moment only the two temporary names exist.
        let mut old = self.dir.clone().into_os_string();
        old.push(".old");
        fs::rename(&self.target, &old).map_err(write_error)?;
        if let Err(error) = fs::rename(&self.dir, &self.target) {
            let _ = fs::rename(&old, &self.target);
            return Err(write_error(error));
        }
        self.published = true;
        fs::remove_dir_all(&old).map_err(write_error)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.published {
            // Nothing is left to report a failure to.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// What the names of directories begin with that are staged for a target of this name.
fn prefix(name: &str) -> String {
    format!(".{name}.knarr-")
}

/// Removes directories that were staged for `target` and that nobody has locked any more. What cannot be removed stays.
fn remove_abandoned(target: &Path, name: &str) {
    let parent = target.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let staged =
            path.file_name().and_then(|other| other.to_str()).and_then(|other| other.strip_prefix(&prefix(name)));
        // Process and counter, and nothing else.
        let is_numbers = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        if staged.is_some_and(is_numbers) && File::open(&path).is_ok_and(|directory| directory.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn exists(target: &Path) -> Error {
    Error::new(ErrorKind::Exists, "the output exists")
        .mend("give another name, or --force to replace it")
        .at(target.display().to_string())
}

fn check_target(target: &Path, kind: Kind, force: bool) -> Result<()> {
    match fs::symlink_metadata(target) {
        Err(_) => Ok(()),
        Ok(_) if !force => Err(exists(target)),
        Ok(found) if found.is_dir() && (kind.is)(target) => match (kind.foreign)(target) {
            None => Ok(()),
            Some(foreign) => Err(Error::new(ErrorKind::Exists, format!("it is not of the {}", kind.noun))
                .mend("move it elsewhere: what is replaced goes with all it holds")
                .at(foreign.display().to_string())),
        },
        Ok(_) => Err(Error::new(ErrorKind::Exists, format!("the output exists and is no {}", kind.noun))
            .mend("give another name, or remove it yourself")
            .at(target.display().to_string())),
    }
}

/// Number and length of all files.
fn tally(dir: &Path) -> std::io::Result<(u64, u64)> {
    let mut all = (0, 0);
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (files, bytes) =
            if entry.file_type()?.is_dir() { tally(&entry.path())? } else { (1, entry.metadata()?.len()) };
        all = (all.0 + files, all.1 + bytes);
    }
    Ok(all)
}

fn sync_tree(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANYTHING: Kind = Kind { noun: "directory", is: Path::is_dir, foreign: |_| None, many_files: false };

    #[test]
    fn what_killed_programs_left_is_removed_and_what_others_write_is_not() {
        let parent = std::env::temp_dir().join(format!("knarr-staging-{}", std::process::id()));
        let target = parent.join("set");
        for name in [".set.knarr-1-0", ".set.knarr-mine", ".other.knarr-1-0"] {
            fs::create_dir_all(parent.join(name).join("below")).unwrap();
        }
        let alive = Staging::create(&target, ANYTHING, false).unwrap();
        let staging = Staging::create(&target, ANYTHING, false).unwrap();
        assert!(!parent.join(".set.knarr-1-0").exists());
        assert!(
            alive.dir.exists() && parent.join(".set.knarr-mine").exists() && parent.join(".other.knarr-1-0").exists()
        );
        drop(alive);
        staging.publish().unwrap();
        assert!(target.is_dir());
        fs::remove_dir_all(parent).unwrap();
    }
}
