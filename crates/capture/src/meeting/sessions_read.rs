//! Which sessions of a file a component has read, and which it has open. A component may have several programs, on several nodes,
//! and each opens the file for itself. The component has read a session when the last program that has it open closes it. Locks
//! and notes are in a directory that all programs see.
//!
//! Each program that has a session open holds a shared lock on a file of it. To find out whether any does, a process tries to
//! lock that file exclusively. Another lock, on the whole directory, serializes this: otherwise a process that only looks would
//! seem to have the session open. Notes are replaced atomically, so a kill or a full disk leaves the old ones, and are read
//! without a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};

use super::published_sessions::below;
use crate::document::{get, put};
use crate::settled::settled;

/// Sessions that are remembered of each spool, at most: older ones have been taken.
const MOST: usize = 1000;

/// The sessions that the component has taken.
const TAKEN: &str = "taken.json";
/// Number of the session that the component has removed last.
const REMOVED: &str = "removed.json";
/// The last session of which the component wants a file.
const WANTED: &str = "wanted.json";
/// Locked for the moment in which one begins, ends, notes or looks.
const ALONE: &str = "alone";
/// Locked by the program that asks for a file.
const WANTING: &str = "wanting";

/// What a component has taken of a file, as all of its programs know it at once.
#[derive(Debug, Clone)]
pub struct SessionsRead {
    directory: PathBuf,
}

/// Directory in that of a component with all that it has taken.
pub(super) fn taken(component: &Path) -> PathBuf {
    component.join("taken")
}

/// The sessions that were taken of each spool with sessions of the file, by its token.
type Sessions = BTreeMap<String, BTreeSet<u64>>;

fn has(taken: &Sessions, token: &str, session: u64) -> bool {
    let is_old = |known: &BTreeSet<u64>| known.len() >= MOST && known.first().is_some_and(|first| session < *first);
    taken.get(token).is_some_and(|known| known.contains(&session) || is_old(known))
}

/// A file whose lock goes with this. Children that were forked meanwhile have it, too, so closing the file would not do.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    /// Opens the file. File systems between nodes give a shared lock only to who may read, and the other one to who may write.
    fn at(path: &Path, may_be_made: bool) -> io::Result<Self> {
        let mut options = File::options();
        options.create(may_be_made).truncate(false).read(true).write(true);
        settled(|| options.open(path)).map(Self)
    }

    /// Waits until nobody else has the lock.
    fn have(self) -> io::Result<Self> {
        resumed(|| self.0.lock())?;
        Ok(self)
    }

    /// False if others have the lock.
    fn is_had(&self, mut lock: impl FnMut(&File) -> std::result::Result<(), TryLockError>) -> io::Result<bool> {
        match resumed(|| lock(&self.0).map_err(io::Error::from)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            tried => tried.map(|()| true),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Goes on with what a signal has interrupted: whoever asks another machine for a lock waits, also if he only tries.
fn resumed(mut lock: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match lock() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            locked => return locked,
        }
    }
}

impl SessionsRead {
    /// Of the file at the absolute path `target`. All programs of the component see `rendezvous`: that in which it meets others, or
    /// the image of it in the spool if they are on one node.
    pub fn of(rendezvous: &Path, reader: &str, target: &Path) -> Self {
        Self { directory: below(taken(&rendezvous.join(reader)), target) }
    }

    /// Waits until nobody else begins, ends, notes or looks. `None` if the directory is not there.
    fn alone(&self) -> Result<Option<Lock>> {
        let path = self.directory.join(ALONE);
        match Lock::at(&path, true).and_then(Lock::have) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            locked => locked.map(Some).map_err(|error| Error::write(&path, &error)),
        }
    }

    /// The same, in a directory that is made if it is not there.
    fn alone_in_own(&self) -> Result<Lock> {
        fs::create_dir_all(&self.directory).map_err(|error| Error::write(&self.directory, &error))?;
        self.alone()?.ok_or_else(|| Error::write(&self.directory, &ErrorKind::NotFound.into()))
    }

    fn sessions(&self) -> Result<Sessions> {
        Ok(get(&self.directory, TAKEN)?.unwrap_or_default())
    }

    /// True if the component has taken a session of the spool with this token.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn has(&self, token: &str, session: u64) -> Result<bool> {
        Ok(has(&self.sessions()?, token, session))
    }

    /// The program has removed the session that was taken last. False if there is none, or if that was said before.
    ///
    /// # Errors
    /// `Read`, `Corrupt`, `Write`.
    pub fn remove(&self) -> Result<bool> {
        let Some(_alone) = self.alone()? else { return Ok(false) };
        let last = self.sessions()?.values().filter_map(BTreeSet::last).max().copied().unwrap_or(0);
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
        let alone = self.alone_in_own()?;
        self.note_alone(&alone, token, session)
    }

    /// The same, by who is [alone](SessionsRead::alone): two that read the notes at the same time would each write only its own.
    fn note_alone(&self, _alone: &Lock, token: &str, session: u64) -> Result<bool> {
        let mut taken = self.sessions()?;
        if has(&taken, token, session) {
            return Ok(false);
        }
        let known = taken.entry(token.to_owned()).or_default();
        known.insert(session);
        while known.len() > MOST {
            known.pop_first();
        }
        put(&self.directory, TAKEN, &taken)?;
        Ok(true)
    }
}

/// The sessions of a file of which a component wants files. As long as this lives no other program of the component sees it.
#[derive(Debug)]
pub struct Wanting {
    directory: PathBuf,
    _lock: Lock,
}

impl Wanting {
    /// Waits for those who see it.
    ///
    /// # Errors
    /// `Write`.
    pub fn of(taken: &SessionsRead) -> Result<Self> {
        let directory = taken.directory.clone();
        let path = directory.join(WANTING);
        let lock = || {
            fs::create_dir_all(&directory)?;
            Lock::at(&path, true)?.have()
        };
        let lock = lock().map_err(|error| Error::write(&path, &error))?;
        Ok(Self { directory, _lock: lock })
    }

    /// The last of them: the token of its spool, and its number.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn last(&self) -> Result<Option<(String, u64)>> {
        get(&self.directory, WANTED)
    }

    /// The component wants a file of one more.
    ///
    /// # Errors
    /// `Write`.
    pub fn add(&mut self, token: &str, session: u64) -> Result<()> {
        put(&self.directory, WANTED, &(token, session))
    }
}

/// A program that has a session open. The lock goes with the process, however that ends.
#[derive(Debug)]
pub struct SessionLock {
    path: PathBuf,
    open: Lock,
    taken: SessionsRead,
    token: String,
    session: u64,
}

impl SessionLock {
    /// Begins to take a session of the spool with this token. `None` if the component has taken it to the end meanwhile.
    ///
    /// # Errors
    /// `Write`, `Read`, `Corrupt`.
    pub fn begin(taken: SessionsRead, token: &str, session: u64) -> Result<Option<Self>> {
        let path = Self::path_of(&taken, token, session);
        let _alone = taken.alone_in_own()?;
        // Whoever ends it notes that before he lets go.
        if taken.has(token, session)? {
            return Ok(None);
        }
        let write_error = |error: io::Error| Error::write(&path, &error);
        let open = Lock::at(&path, true).map_err(write_error)?;
        if !open.is_had(File::try_lock_shared).map_err(write_error)? {
            // All who have it alone do so beneath the other lock. The session is neither taken nor to be passed over.
            return Err(write_error(ErrorKind::WouldBlock.into()));
        }
        Ok(Some(Self { path, open, taken, token: token.to_owned(), session }))
    }

    /// True if some program of the component has the session open.
    ///
    /// # Errors
    /// `Write`.
    pub fn is_open(taken: &SessionsRead, token: &str, session: u64) -> Result<bool> {
        let Some(_alone) = taken.alone()? else { return Ok(false) };
        let path = Self::path_of(taken, token, session);
        match Lock::at(&path, false).and_then(|open| open.is_had(File::try_lock)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            alone => alone.map(|alone| !alone).map_err(|error| Error::write(&path, &error)),
        }
    }

    fn path_of(taken: &SessionsRead, token: &str, session: u64) -> PathBuf {
        taken.directory.join(format!("open {token} {session}"))
    }

    /// This program has what it wants. True if no other one has the session open: it has ended for the component. False also if
    /// the directory is gone, and with it those who would want to know.
    ///
    /// # Errors
    /// As for [`SessionsRead::note`]. The session is not noted then: who begins it gets it once more.
    pub fn end(self) -> Result<bool> {
        let Self { path, open, taken, token, session } = self;
        let Some(alone) = taken.alone()? else { return Ok(false) };
        drop(open);
        // By its name: the directory may be that of a later run of the component, which is to have the session itself.
        let last = match Lock::at(&path, false).and_then(|last| Ok(last.is_had(File::try_lock)?.then_some(last))) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            tried => tried.map_err(|error| Error::write(&path, &error))?,
        };
        let Some(_last) = last else { return Ok(false) };
        let is_last = taken.note_alone(&alone, &token, session)?;
        let _ = fs::remove_file(&path);
        Ok(is_last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    #[test]
    fn the_last_of_those_that_have_it_open_ends_a_session() {
        let folder = std::env::temp_dir().join(format!("knarr-taking-{}", std::process::id()));
        let taken = |reader: &str| SessionsRead::of(&folder, reader, Path::new("/data/x.h5"));
        let begin = |reader: &str, session: u64| SessionLock::begin(taken(reader), "token", session).unwrap();
        let has_ended = |reader: &str, session: u64| taken(reader).has("token", session).unwrap();
        let [first, second] = [(); 2].map(|()| begin("a", 1).unwrap());
        let other = begin("b", 1).unwrap();
        let is_open = |session: u64| SessionLock::is_open(&taken("a"), "token", session).unwrap();
        assert!(is_open(1) && !is_open(2) && !SessionLock::is_open(&taken("nobody"), "token", 1).unwrap());
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
        assert!(SessionLock::begin(taken("a"), "another token", 1).unwrap().unwrap().end().unwrap());
        let left: Vec<_> =
            fs::read_dir(&taken("a").directory).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left.iter().filter(|name| ![TAKEN, REMOVED, ALONE].contains(&&*name.to_string_lossy())).count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn who_looks_whether_a_session_is_open_disturbs_neither_its_beginning_nor_its_end() {
        const SESSIONS: u64 = 500;
        let folder = std::env::temp_dir().join(format!("knarr-looking-{}", std::process::id()));
        let taken = SessionsRead::of(&folder, "a", Path::new("/data/x.h5"));
        let (current, seen, is_over) = (AtomicU64::new(1), AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let session = current.load(Ordering::Relaxed);
                    if SessionLock::is_open(&taken, "token", session).unwrap() {
                        seen.store(session, Ordering::Relaxed);
                    }
                }
            });
            let begun = catch_unwind(AssertUnwindSafe(|| {
                for session in 1..=SESSIONS {
                    current.store(session, Ordering::Relaxed);
                    // As a reader does: the first one that was not taken and can be begun.
                    let mut next = (session..=SESSIONS).filter(|next| !taken.has("token", *next).unwrap());
                    let taking =
                        next.find_map(|next| SessionLock::begin(taken.clone(), "token", next).unwrap()).unwrap();
                    assert_eq!(taking.session, session, "out of order");
                    // It does see some.
                    while session % 50 == 0 && seen.load(Ordering::Relaxed) != session && !looks.is_finished() {
                        std::thread::yield_now();
                    }
                    assert!(taking.end().unwrap(), "session {session} has no end");
                    assert!(taken.has("token", session).unwrap(), "session {session} comes once more");
                }
            }));
            is_over.store(true, Ordering::Relaxed);
            begun.unwrap();
        });
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn each_session_ends_once_for_programs_that_have_it_open_together() {
        let folder = std::env::temp_dir().join(format!("knarr-together-{}", std::process::id()));
        let taken = SessionsRead::of(&folder, "a", Path::new("/data/x.h5"));
        for session in 1..=100 {
            let all: Vec<_> =
                (0..4).map(|_| SessionLock::begin(taken.clone(), "token", session).unwrap().unwrap()).collect();
            let ends: Vec<_> = all.into_iter().map(|one| std::thread::spawn(move || one.end().unwrap())).collect();
            let last = ends.into_iter().map(|end| end.join().unwrap()).filter(|is_last| *is_last).count();
            assert!(last == 1 && taken.has("token", session).unwrap(), "session {session}: {last}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_forked_child_keeps_nothing_open() {
        let folder = std::env::temp_dir().join(format!("knarr-forked-{}", std::process::id()));
        let taken = SessionsRead::of(&folder, "a", Path::new("/data/x.h5"));
        let begin = |session| SessionLock::begin(taken.clone(), "token", session).unwrap().unwrap();
        // Descriptors of the same opened file, as a child has them.
        let alone = taken.alone_in_own().unwrap();
        let taking = {
            let _child = alone.0.try_clone().unwrap();
            drop(alone);
            begin(1)
        };
        let child = taking.open.0.try_clone().unwrap();
        assert!(taking.end().unwrap() && !SessionLock::is_open(&taken, "token", 1).unwrap());
        // The same of a program that has broken off.
        let taking = begin(2);
        let other_child = taking.open.0.try_clone().unwrap();
        drop(taking);
        assert!(!SessionLock::is_open(&taken, "token", 2).unwrap() && begin(2).end().unwrap());
        let wanting = Wanting::of(&taken).unwrap();
        let wanting_child = wanting._lock.0.try_clone().unwrap();
        drop(wanting);
        drop(Wanting::of(&taken).unwrap());
        drop((child, other_child, wanting_child));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_was_taken_outlives_a_note_that_is_not_written() {
        let folder = std::env::temp_dir().join(format!("knarr-torn-{}", std::process::id()));
        let taken = SessionsRead::of(&folder, "a", Path::new("/data/x.h5"));
        assert!(taken.note("token", 1).unwrap());
        Wanting::of(&taken).unwrap().add("token", 1).unwrap();
        // What a process that was killed in the middle leaves.
        let beside = taken.directory.join(format!("{TAKEN}.new"));
        fs::write(&beside, b"{\"token\":[1,2,3,4,5,6,7,8,9").unwrap();
        assert!(taken.has("token", 1).unwrap() && !taken.has("token", 2).unwrap());
        assert!(taken.note("token", 2).unwrap() && taken.has("token", 1).unwrap() && !taken.has("token", 3).unwrap());
        // There is no room for more.
        for name in [TAKEN, WANTED] {
            fs::create_dir(taken.directory.join(format!("{name}.new"))).unwrap();
        }
        let taking = SessionLock::begin(taken.clone(), "token", 3).unwrap().unwrap();
        assert!(taken.note("token", 4).is_err() && taking.end().is_err());
        assert!(taken.has("token", 2).unwrap() && !taken.has("token", 3).unwrap());
        let mut wanting = Wanting::of(&taken).unwrap();
        assert!(wanting.add("token", 2).is_err() && wanting.last().unwrap() == Some(("token".to_owned(), 1)));
        drop(wanting);
        fs::remove_dir(beside).unwrap();
        // That one is not taken: it comes once more.
        assert!(SessionLock::begin(taken.clone(), "token", 3).unwrap().unwrap().end().unwrap());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn one_program_at_a_time_wants_a_file() {
        let folder = std::env::temp_dir().join(format!("knarr-wanting-{}", std::process::id()));
        let taken = SessionsRead::of(&folder, "a", Path::new("/data/x.h5"));
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
        let taken = SessionsRead::of(&folder, "a", Path::new("/data/x.h5"));
        for session in (7..).step_by(3).take(MOST + 5) {
            assert!(taken.note("token", session).unwrap());
            assert!(!taken.note("token", session).unwrap());
        }
        assert!(taken.has("token", 7).unwrap() && taken.has("token", 7 + 3 * MOST as u64).unwrap());
        assert!(!taken.has("token", 7 + 3 * MOST as u64 + 1).unwrap() && !taken.has("other", 7).unwrap());
        assert!(fs::metadata(taken.directory.join(TAKEN)).unwrap().len() < 10_000);
        fs::remove_dir_all(folder).unwrap();
    }
}
