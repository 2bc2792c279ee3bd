//! The sessions of a file. All nodes of the component that writes it give out their numbers together; programs of a node see them
//! as links to directories in spools.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use serde::{Deserialize, Serialize};

use super::images::image_of;
use super::names::in_directory;
use crate::document::{get, put};
use crate::settled::settled;
use knarr_config::TransferRule;

/// Number of the newest session of a file.
const NEWEST: &str = "newest.json";
/// What there is of sessions of which files were made.
const MADE: &str = "made.json";
/// Which of these the component has.
const TAKEN: &str = "taken.json";

/// Directory in that of a component with all that it offers.
pub(super) fn files(component: &Path) -> PathBuf {
    component.join("files")
}

/// Directory in `files` for the file at the absolute path `target`.
pub(super) fn below(files: PathBuf, target: &Path) -> PathBuf {
    files.join(target.strip_prefix("/").unwrap_or(target))
}

/// Begins the next session of the file at the absolute path `target`. Returns its number; the first one is 1.
///
/// # Errors
/// `Write`, `Read`, `Corrupt`.
pub fn begin_session(rule: &TransferRule, target: &Path) -> Result<u64> {
    let directory = below(files(&rule.rendezvous().join(rule.from())), target);
    fs::create_dir_all(&directory).map_err(|error| Error::write(&directory, &error))?;
    let number = get::<u64>(&directory, NEWEST)?.unwrap_or(0) + 1;
    put(&directory, NEWEST, &number)?;
    Ok(number)
}

/// A session of which a file was made because a component had not taken it. What that component opens then is the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The spool in which it was, by its token.
    pub token: String,
    /// Its number.
    pub session: u64,
    /// The component has asked for a file: it stays one to all of its programs.
    pub is_wanted: bool,
}

/// The sessions of one file that programs of a node see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedSessions {
    directory: PathBuf,
}

impl PublishedSessions {
    /// Those of the file at the absolute path `target`, for programs that hand over to `spool`: their launcher shows there what
    /// the component has that writes it.
    pub fn of(spool: &Path, rule: &TransferRule, target: &Path) -> Self {
        Self::shown(spool, rule.rendezvous(), rule.from(), target)
    }

    /// As [`PublishedSessions::of`], of the component `from` that is met in the directory `rendezvous`.
    pub fn shown(spool: &Path, rendezvous: &Path, from: &str, target: &Path) -> Self {
        Self { directory: below(files(&image_of(spool, rendezvous).join(from)), target) }
    }

    /// Directory in which links appear; it may not be there yet.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Offers a session that lies in `directory`; offering it again changes nothing.
    ///
    /// # Errors
    /// `Write`.
    pub fn publish(&self, session: u64, directory: &Path) -> Result<()> {
        fs::create_dir_all(&self.directory).map_err(|error| Error::write(&self.directory, &error))?;
        let link = self.link(session);
        match std::os::unix::fs::symlink(directory, &link) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::write(&link, &error)),
            _ => Ok(()),
        }
    }

    /// Takes an offer back.
    pub fn withdraw(&self, session: u64) {
        let _ = fs::remove_file(self.link(session));
    }

    /// The sessions that are offered, oldest first, with their directories.
    pub fn all(&self) -> Vec<(u64, PathBuf)> {
        let links = |name: OsString| {
            let link = settled(|| fs::read_link(self.directory.join(&name)));
            Some((name.to_str()?.parse().ok()?, link.ok()?))
        };
        let names = in_directory(&self.directory).unwrap_or_default();
        let mut all: Vec<(u64, PathBuf)> = names.into_iter().filter_map(links).collect();
        all.sort_unstable();
        all
    }

    /// Says of which session a file was made last that the component of this node has not taken.
    ///
    /// # Errors
    /// `Write`.
    pub fn note_made(&self, made: &Made) -> Result<()> {
        fs::create_dir_all(&self.directory).map_err(|error| Error::write(&self.directory, &error))?;
        put(&self.directory, MADE, made)
    }

    /// What [`PublishedSessions::note_made`] has said.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn made(&self) -> Result<Option<Made>> {
        get(&self.directory, MADE)
    }

    /// Says that this component has what [`PublishedSessions::made`] says.
    ///
    /// # Errors
    /// `Write`.
    pub fn take_made(&self, made: &Made) -> Result<()> {
        put(&self.directory, TAKEN, made)
    }

    /// What [`PublishedSessions::take_made`] has said last.
    pub fn taken(&self) -> Option<Made> {
        get(&self.directory, TAKEN).ok().flatten()
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
        let rule = TransferRule {
            from: Some("a".to_owned()),
            rendezvous: Some(folder.join("meet")),
            ..TransferRule::default()
        };
        let target = |name: &str| Path::new("/data").join(name);
        let of = |name: &str| PublishedSessions::of(&folder, &rule, &target(name));
        for name in ["hist.nc", "hist.nc.nc", "Hist.nc", "a hist.nc", "1"] {
            for session in 1..=11 {
                assert_eq!(begin_session(&rule, &target(name)).unwrap(), session);
                let spool = folder.join(format!("{name} {session}"));
                of(name).publish(session, &spool).unwrap();
                of(name).publish(session, &spool).unwrap();
            }
            let all = of(name).all();
            assert_eq!(all.iter().map(|(session, _)| *session).collect::<Vec<_>>(), (1..=11).collect::<Vec<_>>());
            assert_eq!(all[9].1, folder.join(format!("{name} 10")));
        }
        of("hist.nc").withdraw(1);
        assert_eq!((of("hist.nc").all().len(), of("Hist.nc").all().len()), (10, 11));
        assert_eq!(of("hist").all(), []);
        assert_eq!(of("1").made().unwrap(), None);
        let made = Made { token: "t".to_owned(), session: 3, is_wanted: false };
        of("1").note_made(&made).unwrap();
        assert_eq!((of("1").made().unwrap(), of("1").all().len()), (Some(made.clone()), 11));
        assert_eq!(of("1").taken(), None);
        of("1").take_made(&made).unwrap();
        assert_eq!((of("1").taken(), of("hist.nc").taken()), (Some(made), None));
        fs::remove_dir_all(folder).unwrap();
    }
}
