//! Which sessions of a file a component has taken, and processes that have one open each for itself. Those do not know of each
//! other, and may be on several nodes: a session ends for the component when the last of those that have it open closes it.
//! Locks and notes are in the directory in which components meet, because launchers of other nodes hear of an end later.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};

use super::offers::Offers;
use crate::config::TransferRule;
use crate::handed_over::HandedOver;

/// What a component has taken of a file, as all of its nodes know it at once.
#[derive(Debug, Clone)]
pub struct Taken {
    path: PathBuf,
}

/// The last session that was taken of each spool with sessions of the file, by its token.
type Last = BTreeMap<String, u64>;

fn read(mut noted: &File) -> std::io::Result<Last> {
    let mut text = Vec::new();
    noted.read_to_end(&mut text)?;
    if text.is_empty() { Ok(Last::new()) } else { Ok(serde_json::from_slice(&text)?) }
}

impl Taken {
    /// Of the file at the absolute path `target`, by the component `reader`.
    pub fn of(rule: &TransferRule, reader: &str, target: &Path) -> Self {
        Self { path: Offers::met(rule.rendezvous(), reader, target).directory().join("taken.json") }
    }

    /// The token of the spool with the session in `directory`; `None` if that is gone.
    fn token(directory: &Path) -> Result<Option<String>> {
        HandedOver::find(directory)?.map(|handed| handed.origin(directory).map(|(token, _)| token)).transpose()
    }

    /// True if the component has taken a session, which lies in `directory`, or if that is gone. The launcher of this node may
    /// not know it yet.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn has(&self, session: u64, directory: &Path) -> Result<bool> {
        let read_error = |error: std::io::Error| Error::read(&self.path, &error);
        let noted = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(read_error)?,
        };
        noted.lock_shared().map_err(read_error)?;
        let last = read(&noted).map_err(read_error)?;
        Ok(Self::token(directory)?.is_none_or(|token| last.get(&token).is_some_and(|last| *last >= session)))
    }

    /// Notes that the component has taken a session, which lies in `directory`.
    ///
    /// # Errors
    /// `Read`, `Corrupt`, `Write`.
    pub fn note(&self, session: u64, directory: &Path) -> Result<()> {
        let Some(token) = Self::token(directory)? else { return Ok(()) };
        let note = || {
            self.path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let mut noted = File::options().create(true).truncate(false).read(true).write(true).open(&self.path)?;
            noted.lock()?;
            let mut last = read(&noted)?;
            last.insert(token, session);
            noted.seek(SeekFrom::Start(0))?;
            noted.set_len(0)?;
            noted.write_all(&serde_json::to_vec(&last)?)
        };
        note().map_err(|error: std::io::Error| Error::write(&self.path, &error))
    }
}

/// A process that has a session open. The lock goes with the process, however that ends.
#[derive(Debug)]
pub struct Taking {
    path: PathBuf,
    open: File,
    taken: Taken,
    session: u64,
    directory: PathBuf,
}

impl Taking {
    /// Begins to take a session, which lies in `directory`, for the component `reader`. `None` if that has taken it to the end
    /// meanwhile.
    ///
    /// # Errors
    /// `Write`, `Read`, `Corrupt`.
    pub fn begin(taken: Taken, reader: &str, session: u64, directory: &Path) -> Result<Option<Self>> {
        let path = taken.path.with_file_name("open");
        let write_error = |error: std::io::Error| Error::write(&path, &error);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(write_error)?;
        let open = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let open = open.map_err(write_error)?;
        match open.try_lock_shared() {
            Ok(()) => {}
            // Somebody ends a session at this moment.
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(write_error(error)),
        }
        let is_next = HandedOver::is_unread(directory, reader) && !taken.has(session, directory)?;
        let directory = directory.to_owned();
        Ok(is_next.then_some(Self { path, open, taken, session, directory }))
    }

    /// This process has what it wants. `end` is called if no other one has the session open.
    ///
    /// # Errors
    /// As for [`Taken::note`]: other nodes hear of it later.
    pub fn end(self, end: impl FnOnce()) -> Result<()> {
        let Self { path, open, taken, session, directory } = self;
        // Children that were forked meanwhile have the lock, too.
        let _ = open.unlock();
        let Ok(last) = File::options().write(true).open(&path) else { return Ok(()) };
        if last.try_lock().is_err() || taken.has(session, &directory).unwrap_or(false) {
            return Ok(());
        }
        let noted = taken.note(session, &directory);
        end();
        noted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// The spool of one node, in which session 1 is shown.
    fn session(folder: &Path, node: &str, token: &str) -> PathBuf {
        let directory = folder.join(node).join("1-0");
        fs::create_dir_all(&directory).unwrap();
        fs::write(folder.join(node).join(crate::ALIVE), token).unwrap();
        fs::write(directory.join(HandedOver::PUBLISHED), b"").unwrap();
        let text = "[[file]]\npattern = \"*\"\nroute = \"transfer\"\nfrom = \"w\"\nto = [\"a\", \"b\"]\n";
        let rule = Config::parse(text).unwrap().file.remove(0);
        HandedOver::new(PathBuf::from("/data/x.h5"), rule, 1).begin(&directory).unwrap();
        directory
    }

    #[test]
    fn the_last_of_those_that_have_it_open_ends_a_session_on_all_nodes() {
        let folder = std::env::temp_dir().join(format!("knarr-taking-{}", std::process::id()));
        let rule = TransferRule { rendezvous: Some(folder.join("meet")), ..TransferRule::default() };
        let target = Path::new("/data/x.h5");
        // Images of one session on two nodes.
        let [here, there] = ["here", "there"].map(|node| session(&folder, node, "token"));
        let taken = |reader: &str| Taken::of(&rule, reader, target);
        let begin = |reader: &str, directory: &Path| Taking::begin(taken(reader), reader, 1, directory).unwrap();
        let has_ended = |reader: &str| taken(reader).has(1, &there).unwrap();
        let [first, second] = [&here, &there].map(|directory| begin("a", directory).unwrap());
        let other = begin("b", &there).unwrap();
        let mut ended = 0;
        first.end(|| ended += 1).unwrap();
        assert!(ended == 0 && !has_ended("a"));
        second.end(|| ended += 1).unwrap();
        assert!(ended == 1 && has_ended("a") && !has_ended("b"));
        // No launcher has told that node.
        assert!(HandedOver::is_unread(&here, "a") && begin("a", &here).is_none());
        other.end(|| ended += 1).unwrap();
        assert_eq!(ended, 2);
        // The writer was started again, and begins with its first session.
        let again = session(&folder, "again", "another token");
        begin("a", &again).unwrap().end(|| ended += 1).unwrap();
        assert_eq!(ended, 3);
        fs::remove_dir_all(&there).unwrap();
        assert!(begin("b", &there).is_none());
        fs::remove_dir_all(folder).unwrap();
    }
}
