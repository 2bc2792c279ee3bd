//! The status of other components, as the programs of this node see it.
//!
//! Programs never read the rendezvous: it lies on a file system that all nodes share, and there may be very many programs. The
//! launcher of their node reads it, and keeps an *image* of it in its own spool: the status of each component, and the sessions
//! that this one is to read.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use knarr_array::error::{Error, Result};
use serde::{Deserialize, Serialize};

use super::component::Presence;
use super::images::image_of;
use crate::document::{get, put};

/// Why what is elsewhere does not come any more.
pub struct Gone;

impl Gone {
    const NAME: &'static str = "gone.json";

    /// Notes it in the directory of a session.
    ///
    /// # Errors
    /// `Write`.
    pub fn note(directory: &Path, why: &str) -> Result<()> {
        put(directory, Self::NAME, &why)
    }

    /// What is noted in a directory.
    pub fn why(directory: &Path) -> Option<String> {
        get(directory, Self::NAME).ok().flatten()
    }

    /// It comes again.
    pub fn clear(directory: &Path) {
        let _ = fs::remove_file(directory.join(Self::NAME));
    }
}

/// What is known of another component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentStatus {
    /// Whether it is there.
    pub presence: Presence,
    /// Why it is not, if its launchers live.
    pub why: Option<String>,
    /// It was there in the life of this run.
    pub was_seen: bool,
    /// One of its launchers was killed. Its program may go on, and writes what it transferred into files.
    #[serde(default)]
    pub was_killed: bool,
    /// When it gave the last sign of life, or this run began: milliseconds since 1970.
    pub since: u64,
}

impl ComponentStatus {
    const NAME: &'static str = "component.json";

    /// One that nobody has seen since this moment.
    pub fn nobody() -> Self {
        Self { presence: Presence::Absent, why: None, was_seen: false, was_killed: false, since: now() }
    }

    /// Directory in which the launcher says what it knows of the component `name` in the directory `rendezvous`.
    pub fn directory(spool: &Path, rendezvous: &Path, name: &str) -> PathBuf {
        image_of(spool, rendezvous).join(name)
    }

    /// Writes it into the spool of this node.
    ///
    /// # Errors
    /// `Write`.
    pub fn save(&self, spool: &Path, rendezvous: &Path, name: &str) -> Result<()> {
        let directory = Self::directory(spool, rendezvous, name);
        fs::create_dir_all(&directory).map_err(|error| Error::write(&directory, &error))?;
        put(&directory, Self::NAME, self)
    }

    /// Says nothing of it any more.
    pub fn withdraw(spool: &Path, rendezvous: &Path, name: &str) {
        let _ = fs::remove_file(Self::directory(spool, rendezvous, name).join(Self::NAME));
    }

    /// What the launcher knows of the component `name` in the directory `rendezvous`.
    ///
    /// # Errors
    /// `Read`, `Corrupt`; `Internal` if it says nothing.
    pub fn read(spool: &Path, rendezvous: &Path, name: &str) -> Result<Self> {
        let nothing = || Error::internal(format!("the launcher says nothing of component '{name}'"));
        get(&Self::directory(spool, rendezvous, name), Self::NAME)?.ok_or_else(nothing)
    }

    /// Gives a sign of life now.
    pub fn heard(&mut self) {
        (self.since, self.was_seen) = (now(), true);
    }

    /// How long it has given no sign of life.
    pub fn silence(&self) -> Duration {
        Duration::from_millis(now().saturating_sub(self.since))
    }

    /// True if nothing more comes of it: it has ended, or has given no sign of life for so long.
    pub fn is_over(&self, patience: Duration) -> bool {
        self.presence != Presence::Running && (self.was_seen && self.why.is_none() || self.silence() > patience)
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_over_when_it_has_ended_or_is_silent_for_long() {
        let patience = Duration::from_secs(60);
        let mut status = ComponentStatus::nobody();
        assert!(!status.is_over(patience), "it may yet come");
        status.since -= 61_000;
        assert!(status.is_over(patience));
        status.presence = Presence::Running;
        assert!(!status.is_over(patience), "it runs, however long it says nothing");
        status.heard();
        for presence in [Presence::Ended, Presence::Absent] {
            status.presence = presence;
            assert!(status.is_over(patience));
        }
        // A network that is cut may come back.
        status.why = Some("not reached".to_owned());
        assert!(!status.is_over(patience));
        status.since -= 61_000;
        assert!(status.is_over(patience));
    }

    #[test]
    fn what_the_launcher_says_comes_to_programs() {
        let spool = std::env::temp_dir().join(format!("knarr-met-{}", std::process::id()));
        let (rendezvous, status) = (Path::new("/data/meet"), ComponentStatus::nobody());
        assert!(ComponentStatus::read(&spool, rendezvous, "a").is_err());
        status.save(&spool, rendezvous, "a").unwrap();
        assert_eq!(ComponentStatus::read(&spool, rendezvous, "a").unwrap(), status);
        assert!(ComponentStatus::read(&spool, rendezvous, "b").is_err());
        fs::remove_dir_all(spool).unwrap();
    }
}
