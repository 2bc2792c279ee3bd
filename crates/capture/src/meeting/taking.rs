//! Which sessions of a file a component has taken, and programs that have one open. A component may have several programs, each
//! of which opens the file for itself, and they may be on several nodes. A session ends for the component when the last of
//! those that have it open closes it. Locks and notes are in a directory that all of them see.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};

use super::offers::below;
use crate::document::{get, put};
use crate::settled::settled;

/// Sessions that are remembered of each spool, at most: older ones have been taken.
const MOST: usize = 1000;

/// Number of the session that the component has removed last.
const REMOVED: &str = "removed.json";

/// What a component has taken of a file, as all of its programs know it at once.
#[derive(Debug, Clone)]
pub struct Taken {
    directory: PathBuf,
}

/// Directory in that of a component with all that it has taken.
pub(super) fn taken(component: &Path) -> PathBuf {
    component.join("taken")
}

/// The sessions that were taken of each spool with sessions of the file, by its token.
type Sessions = BTreeMap<String, BTreeSet<u64>>;

fn read(mut noted: &File) -> std::io::Result<Sessions> {
    let mut text = Vec::new();
    noted.read_to_end(&mut text)?;
    if text.is_empty() { Ok(Sessions::new()) } else { Ok(serde_json::from_slice(&text)?) }
}

fn has(taken: &Sessions, token: &str, session: u64) -> bool {
    let is_old = |known: &BTreeSet<u64>| known.len() >= MOST && known.first().is_some_and(|first| session < *first);
    taken.get(token).is_some_and(|known| known.contains(&session) || is_old(known))
}

impl Taken {
    /// Of the file at the absolute path `target`. All programs of the component see `rendezvous`: that in which it meets others, or
    /// the image of it in the spool if they are on one node.
    pub fn of(rendezvous: &Path, reader: &str, target: &Path) -> Self {
        Self { directory: below(taken(&rendezvous.join(reader)), target) }
    }

    fn path(&self) -> PathBuf {
        self.directory.join("taken.json")
    }

    /// True if the component has taken a session of the spool with this token.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn has(&self, token: &str, session: u64) -> Result<bool> {
        let read_error = |error: std::io::Error| Error::read(&self.path(), &error);
        let noted = match File::open(self.path()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(read_error)?,
        };
        noted.lock_shared().map_err(read_error)?;
        Ok(has(&read(&noted).map_err(read_error)?, token, session))
    }

    /// The program has removed the session that was taken last. False if there is none, or if that was said before.
    ///
    /// # Errors
    /// `Read`, `Corrupt`, `Write`.
    pub fn remove(&self) -> Result<bool> {
        let noted = match File::open(self.path()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened.and_then(|noted| noted.lock_shared().and_then(|()| read(&noted))),
        };
        let taken = noted.map_err(|error| Error::read(&self.path(), &error))?;
        let last = taken.values().filter_map(BTreeSet::last).max().copied().unwrap_or(0);
        if get::<u64>(&self.directory, REMOVED)?.unwrap_or(0) >= last {
            return Ok(false);
        }
        put(&self.directory, REMOVED, &last)?;
        Ok(true)
    }

    /// Notes that the component has taken a session. False if that was noted before.
    ///
    /// # Errors
    /// `Read`, `Corrupt`, `Write`.
    pub fn note(&self, token: &str, session: u64) -> Result<bool> {
        let note = || {
            fs::create_dir_all(&self.directory)?;
            let options = File::options().create(true).truncate(false).read(true).write(true).clone();
            let mut noted = options.open(self.path())?;
            noted.lock()?;
            let mut taken = read(&noted)?;
            if has(&taken, token, session) {
                return Ok(false);
            }
            let known = taken.entry(token.to_owned()).or_default();
            known.insert(session);
            while known.len() > MOST {
                known.pop_first();
            }
            noted.seek(SeekFrom::Start(0))?;
            noted.set_len(0)?;
            noted.write_all(&serde_json::to_vec(&taken)?)?;
            Ok(true)
        };
        note().map_err(|error: std::io::Error| Error::write(&self.path(), &error))
    }
}

/// The sessions of a file of which a component wants files. As long as this lives no other program of the component sees it.
#[derive(Debug)]
pub struct Wanting {
    path: PathBuf,
    noted: File,
}

impl Wanting {
    /// Waits for those who see it.
    ///
    /// # Errors
    /// `Write`.
    pub fn of(taken: &Taken) -> Result<Self> {
        let path = taken.directory.join("wanted.json");
        let open = || {
            fs::create_dir_all(&taken.directory)?;
            let noted = File::options().create(true).truncate(false).read(true).write(true).open(&path)?;
            noted.lock().map(|()| noted)
        };
        open().map_err(|error| Error::write(&path, &error)).map(|noted| Self { path: path.clone(), noted })
    }

    /// The last of them: the token of its spool, and its number.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn last(&self) -> Result<Option<(String, u64)>> {
        let mut text = Vec::new();
        let read = (&self.noted).seek(SeekFrom::Start(0)).and_then(|_| (&self.noted).read_to_end(&mut text));
        read.map_err(|error| Error::read(&self.path, &error))?;
        if text.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&text)
            .map_err(|error| Error::corrupt(error.to_string()).at(self.path.display().to_string()))
    }

    /// The component wants a file of one more.
    ///
    /// # Errors
    /// `Write`.
    pub fn add(&mut self, token: &str, session: u64) -> Result<()> {
        let mut write = || {
            let text = serde_json::to_vec(&Some((token, session)))?;
            self.noted.seek(SeekFrom::Start(0))?;
            self.noted.set_len(0)?;
            self.noted.write_all(&text)
        };
        write().map_err(|error: std::io::Error| Error::write(&self.path, &error))
    }
}

/// A program that has a session open. The lock goes with the process, however that ends.
#[derive(Debug)]
pub struct Taking {
    path: PathBuf,
    open: File,
    taken: Taken,
    token: String,
    session: u64,
}

impl Taking {
    /// Begins to take a session of the spool with this token. `None` if the component has taken it to the end meanwhile.
    ///
    /// # Errors
    /// `Write`, `Read`, `Corrupt`.
    pub fn begin(taken: Taken, token: &str, session: u64) -> Result<Option<Self>> {
        let path = Self::path_of(&taken, token, session);
        let write_error = |error: std::io::Error| Error::write(&path, &error);
        fs::create_dir_all(&taken.directory).map_err(write_error)?;
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let open = open.map_err(write_error)?;
        match open.try_lock_shared() {
            Ok(()) => {}
            // Somebody ends it at this moment.
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(write_error(error)),
        }
        // Whoever ended it has noted that before, and this file may be gone.
        if taken.has(token, session)? {
            let _ = fs::remove_file(&path);
            return Ok(None);
        }
        Ok(Some(Self { path, open, taken, token: token.to_owned(), session }))
    }

    /// True if some program of the component has the session open.
    pub fn is_open(taken: &Taken, token: &str, session: u64) -> bool {
        let path = Self::path_of(taken, token, session);
        let open = settled(|| File::open(&path));
        open.is_ok_and(|open| matches!(open.try_lock(), Err(TryLockError::WouldBlock)))
    }

    fn path_of(taken: &Taken, token: &str, session: u64) -> PathBuf {
        taken.directory.join(format!("open {token} {session}"))
    }

    /// This program has what it wants. True if no other one has the session open: it has ended for the component.
    ///
    /// # Errors
    /// As for [`Taken::note`].
    pub fn end(self) -> Result<bool> {
        let Self { path, open, taken, token, session } = self;
        // Children that were forked meanwhile have the lock, too.
        let _ = open.unlock();
        let Ok(last) = File::options().write(true).open(&path) else { return Ok(false) };
        if last.try_lock().is_err() {
            return Ok(false);
        }
        let is_last = taken.note(&token, session)?;
        let _ = fs::remove_file(&path);
        Ok(is_last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_those_that_have_it_open_ends_a_session() {
        let folder = std::env::temp_dir().join(format!("knarr-taking-{}", std::process::id()));
        let taken = |reader: &str| Taken::of(&folder, reader, Path::new("/data/x.h5"));
        let begin = |reader: &str, session: u64| Taking::begin(taken(reader), "token", session).unwrap();
        let has_ended = |reader: &str, session: u64| taken(reader).has("token", session).unwrap();
        let [first, second] = [(); 2].map(|()| begin("a", 1).unwrap());
        let other = begin("b", 1).unwrap();
        assert!(Taking::is_open(&taken("a"), "token", 1) && !Taking::is_open(&taken("a"), "token", 2));
        assert!(!first.end().unwrap() && !has_ended("a", 1));
        // One is ahead of the others.
        let ahead = begin("a", 2).unwrap();
        assert!(ahead.end().unwrap() && has_ended("a", 2) && !has_ended("a", 1));
        let third = begin("a", 1).unwrap();
        assert!(!second.end().unwrap() && third.end().unwrap());
        assert!(has_ended("a", 1) && !has_ended("b", 1) && begin("a", 1).is_none() && begin("a", 2).is_none());
        assert!(other.end().unwrap() && begin("b", 1).is_none());
        // A script removes what it has read, once.
        assert!(taken("a").remove().unwrap() && !taken("a").remove().unwrap() && !taken("c").remove().unwrap());
        // One that was killed has it open no more.
        drop(begin("a", 3).unwrap());
        assert!(begin("a", 3).unwrap().end().unwrap());
        // The writer was started again, and begins with its first session.
        assert!(Taking::begin(taken("a"), "another token", 1).unwrap().unwrap().end().unwrap());
        let left: Vec<_> =
            fs::read_dir(&taken("a").directory).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(
            left.iter().filter(|name| !["taken.json", "removed.json"].contains(&&*name.to_string_lossy())).count(),
            0
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn one_program_at_a_time_wants_a_file() {
        let folder = std::env::temp_dir().join(format!("knarr-wanting-{}", std::process::id()));
        let taken = Taken::of(&folder, "a", Path::new("/data/x.h5"));
        let programs: Vec<_> = (0..4)
            .map(|_| {
                let taken = taken.clone();
                std::thread::spawn(move || {
                    for _ in 0..20 {
                        let mut wanting = Wanting::of(&taken).unwrap();
                        let last = wanting.last().unwrap().map_or(0, |(_, session)| session);
                        wanting.add("token", last + 1).unwrap();
                    }
                })
            })
            .collect();
        programs.into_iter().for_each(|program| program.join().unwrap());
        assert_eq!(Wanting::of(&taken).unwrap().last().unwrap(), Some(("token".to_owned(), 80)));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn very_many_sessions_are_remembered_in_little() {
        let folder = std::env::temp_dir().join(format!("knarr-taken-many-{}", std::process::id()));
        let taken = Taken::of(&folder, "a", Path::new("/data/x.h5"));
        for session in (7..).step_by(3).take(MOST + 5) {
            assert!(taken.note("token", session).unwrap());
            assert!(!taken.note("token", session).unwrap());
        }
        assert!(taken.has("token", 7).unwrap() && taken.has("token", 7 + 3 * MOST as u64).unwrap());
        assert!(!taken.has("token", 7 + 3 * MOST as u64 + 1).unwrap() && !taken.has("other", 7).unwrap());
        assert!(fs::metadata(taken.path()).unwrap().len() < 10_000);
        fs::remove_dir_all(folder).unwrap();
    }
}
