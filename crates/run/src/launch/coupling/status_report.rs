//! Reports the status of another component to programs. They wait by it, so it must be true: a status that can no longer be
//! written is removed, for which a file system always has room, and programs that find none stop waiting.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use knarr_array::error::Result;
use knarr_capture::meeting::{ComponentStatus, Presence};
use knarr_capture::{Snapshot, SpoolPlace};
use knarr_config::Route;

/// A component, and the directory in which it is met.
pub(in crate::launch) type Key = (PathBuf, String);

/// Whether a component is there, if not, why, and whether it was killed.
type Known = (Presence, Option<String>, bool);

/// What programs are told of a component.
pub(in crate::launch) struct StatusReport {
    own: SpoolPlace,
    /// The component, and the directory in which it is met.
    key: Key,
    /// How long programs may be told what is not so any more.
    patience: Duration,
    /// What is known now.
    now: ComponentStatus,
    /// What they were told last.
    told: Option<Known>,
    /// Since when they cannot be told.
    failing: Option<Instant>,
}

impl StatusReport {
    /// Of a component of which nothing is known yet.
    pub(in crate::launch) fn new(own: &SpoolPlace, key: &Key, patience: Duration) -> Self {
        Self { own: own.clone(), key: key.clone(), patience, now: ComponentStatus::nobody(), told: None, failing: None }
    }

    /// Whether it is there, and if not, why, if its launchers live. [`StatusReport::notify`] says it.
    pub(in crate::launch) fn set(&mut self, presence: Presence, why: Option<String>) {
        if presence != Presence::Absent || self.now.presence != Presence::Absent {
            self.now.heard();
        }
        (self.now.presence, self.now.why) = (presence, why);
    }

    /// Whether one of its launchers was killed.
    pub(in crate::launch) fn set_killed(&mut self, was_killed: bool) {
        self.now.was_killed = was_killed;
    }

    /// It gives a sign of life now.
    pub(in crate::launch) fn heard(&mut self) {
        self.now.heard();
    }

    /// Tells programs, unless they know it. To be tried again, seldom, after an error: when that has gone on for long nothing is
    /// said any more of the component.
    ///
    /// # Errors
    /// `Write`.
    pub(in crate::launch) fn notify(&mut self) -> Result<()> {
        let state = (self.now.presence, self.now.why.clone(), self.now.was_killed);
        if self.told.as_ref() == Some(&state) {
            return Ok(());
        }
        let (spool, (rendezvous, name)) = (&self.own.directory, &self.key);
        match self.now.save(spool, rendezvous, name) {
            Ok(()) => {
                (self.told, self.failing) = (Some(state), None);
                Ok(())
            }
            Err(error) => {
                self.told = None;
                if self.failing.get_or_insert_with(Instant::now).elapsed() >= self.patience {
                    ComponentStatus::withdraw(spool, rendezvous, name);
                }
                Err(error)
            }
        }
    }
}

/// How long programs wait for a component at most that gives no sign of life, whatever rule they wait by.
pub(in crate::launch) fn patience(snapshot: &Snapshot, (rendezvous, name): &Key) -> Duration {
    let transfers =
        snapshot.config.file.iter().filter(|rule| rule.route() == Route::Transfer).map(|rule| rule.transfer());
    let of_it =
        transfers.filter(|rule| rule.rendezvous() == rendezvous && (rule.from() == name || rule.to().contains(name)));
    of_it.map(|rule| rule.timeout()).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    #[test]
    fn what_cannot_be_told_for_long_is_taken_back() {
        let folder = std::env::temp_dir().join(format!("knarr-telling-{}", std::process::id()));
        let (disk, node, token) = (folder.clone(), String::new(), String::new());
        let own = SpoolPlace { directory: folder.clone(), most: 1, disk, places: Vec::new(), node, token, peer: None };
        let key = (PathBuf::from("/meet"), "w".to_owned());
        let met = || ComponentStatus::read(&folder, Path::new("/meet"), "w");
        for patience in [Duration::from_secs(60), Duration::ZERO] {
            let mut status = StatusReport::new(&own, &key, patience);
            status.set(Presence::Running, None);
            status.notify().unwrap();
            // No document can be written there.
            let beside = ComponentStatus::directory(&folder, &key.0, &key.1).join("component.json.new");
            fs::create_dir(&beside).unwrap();
            status.set(Presence::Ended, None);
            assert!(status.notify().is_err());
            assert_eq!(met().ok().map(|met| met.presence), (!patience.is_zero()).then_some(Presence::Running));
            fs::remove_dir(&beside).unwrap();
            status.notify().unwrap();
            assert_eq!(met().unwrap().presence, Presence::Ended);
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
