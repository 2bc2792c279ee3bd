//! What a component offers of a file: links to sessions in its spool.

use std::fs;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};

use crate::config::TransferRule;
use crate::document::{get, put};

/// Number of the newest session of a file.
const NEWEST: &str = "newest.json";

/// Directory in that of a component with all that it offers.
pub(super) fn files(component: &Path) -> PathBuf {
    component.join("files")
}

/// The sessions of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offers {
    directory: PathBuf,
}

impl Offers {
    /// Those of the file at the absolute path `target`.
    pub fn of(rule: &TransferRule, target: &Path) -> Self {
        Self::met(rule.rendezvous(), rule.from(), target)
    }

    /// As [`Offers::of`], of the component `from` in a directory in which components meet.
    pub fn met(rendezvous: &Path, from: &str, target: &Path) -> Self {
        let name = target.strip_prefix("/").unwrap_or(target);
        Self { directory: files(&rendezvous.join(from)).join(name) }
    }

    /// Directory in which links appear; it may not be there yet.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Begins the next session. Returns its number; the first one is 1.
    ///
    /// # Errors
    /// `Write`, `Read`, `Corrupt`.
    pub fn begin(&self) -> Result<u64> {
        fs::create_dir_all(&self.directory).map_err(|error| Error::write(&self.directory, &error))?;
        let number = get::<u64>(&self.directory, NEWEST)?.unwrap_or(0) + 1;
        put(&self.directory, NEWEST, &number)?;
        Ok(number)
    }

    /// Offers a session that lies in `directory`; offering it again changes nothing.
    ///
    /// # Errors
    /// `Write`.
    pub fn offer(&self, session: u64, directory: &Path) -> Result<()> {
        fs::create_dir_all(&self.directory).map_err(|error| Error::write(&self.directory, &error))?;
        let link = self.link(session);
        match std::os::unix::fs::symlink(directory, &link) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::write(&link, &error)),
            _ => Ok(()),
        }
    }

    /// True if the session is offered.
    pub fn has(&self, session: u64) -> bool {
        fs::symlink_metadata(self.link(session)).is_ok()
    }

    /// Takes an offer back.
    pub fn withdraw(&self, session: u64) {
        let _ = fs::remove_file(self.link(session));
    }

    /// The sessions that are offered, oldest first, with their directories.
    pub fn all(&self) -> Vec<(u64, PathBuf)> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let offer = |path: PathBuf| Some((path.file_name()?.to_str()?.parse().ok()?, fs::read_link(&path).ok()?));
        let mut all: Vec<(u64, PathBuf)> = entries.filter_map(|entry| offer(entry.path())).collect();
        all.sort_unstable();
        all
    }

    fn link(&self, session: u64) -> PathBuf {
        self.directory.join(session.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_names_that_look_alike_are_kept_apart() {
        let folder = std::env::temp_dir().join(format!("knarr-offers-{}", std::process::id()));
        let rule =
            TransferRule { from: Some("a".to_owned()), rendezvous: Some(folder.clone()), ..TransferRule::default() };
        let of = |name: &str| Offers::of(&rule, &Path::new("/data").join(name));
        for name in ["hist.nc", "hist.nc.nc", "Hist.nc", "a hist.nc", "1"] {
            for session in 1..=11 {
                assert_eq!(of(name).begin().unwrap(), session);
                let spool = folder.join(format!("{name} {session}"));
                of(name).offer(session, &spool).unwrap();
                of(name).offer(session, &spool).unwrap();
            }
            let all = of(name).all();
            assert_eq!(all.iter().map(|(session, _)| *session).collect::<Vec<_>>(), (1..=11).collect::<Vec<_>>());
            assert_eq!(all[9].1, folder.join(format!("{name} 10")));
        }
        of("hist.nc").withdraw(1);
        assert_eq!((of("hist.nc").all().len(), of("Hist.nc").all().len()), (10, 11));
        assert_eq!(of("hist").all(), []);
        fs::remove_dir_all(folder).unwrap();
    }
}
