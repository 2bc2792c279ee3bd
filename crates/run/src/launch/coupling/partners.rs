//! The components that this one transfers files with: which launchers they have, and whether these live.
//!
//! They meet in a directory on a file system that all nodes share. One thread of the launcher looks into it, seldom, for all
//! programs of the node. What it finds on this node it asks where nobody else is: in the spools of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::Result;
use knarr_capture::meeting::{Address, Component, ComponentStatus, Launcher, Listed, Presence, Watch, has_local_locks};
use knarr_capture::{ALIVE, ENDED, Part, Snapshot, SpoolPlace, settled};
use knarr_config::Route;

use crate::launch::coupling::status_report::{Key, StatusReport, patience};
use crate::launch::news::spawn;
use crate::notices::Notices;

/// Between two looks when something has changed lately: what comes next comes soon.
const SOON: Duration = Duration::from_millis(50);
/// How long after a change that is.
const LATELY: Duration = Duration::from_secs(2);
/// Between two looks at other times. What happens on this node ends the wait.
const SELDOM: Duration = Duration::from_secs(2);

/// How long a look may take when the run is over.
const ENDING: Duration = Duration::from_secs(1);

/// A launcher of another component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::launch) struct PartnerLauncher {
    pub(in crate::launch) launcher: Launcher,
    /// Its spool is on this node: programs reach what is in it.
    pub(in crate::launch) is_near: bool,
    /// How it is reached from other nodes, if it answers them.
    pub(in crate::launch) address: Option<Address>,
}

/// What is known of a component.
#[derive(Debug, Clone, Default)]
pub(in crate::launch) struct Partner {
    pub(in crate::launch) others: BTreeMap<u64, PartnerLauncher>,
    listed: Listed,
    /// It was there in the life of this run.
    pub(in crate::launch) was_seen: bool,
    /// Why the last look has failed.
    pub(in crate::launch) failed: Option<String>,
}

impl Partner {
    /// Whether it is there. What is on this node is asked again.
    pub(in crate::launch) fn presence(&self) -> Presence {
        let is_near = |other: &&PartnerLauncher| other.is_near;
        let mut near = self.others.values().filter(is_near).peekable();
        if near.peek().is_none() || self.others.values().any(|other| !other.is_near) {
            return self.listed.presence();
        }
        match near.clone().all(|other| lives(&other.launcher.spool)) {
            false => Presence::Absent,
            true if near.all(|other| has_ended(&other.launcher.spool)) => Presence::Ended,
            true => Presence::Running,
        }
    }

    /// True if one of its launchers was killed.
    pub(in crate::launch) fn was_killed(&self, (rendezvous, name): &Key) -> bool {
        self.others.keys().any(|number| Component::was_killed(rendezvous, name, *number))
    }

    /// True if the launcher whose spool has this token is one of those that live.
    pub(in crate::launch) fn has(&self, token: &str) -> bool {
        self.presence() != Presence::Absent && self.others.values().any(|other| other.launcher.token == token)
    }
}

/// True if a spool of this node has a launcher that lives.
pub(in crate::launch) fn lives(spool: &Path) -> bool {
    settled(|| File::open(spool.join(ALIVE))).is_ok_and(|alive| alive.try_lock_shared().is_err())
}

/// True if the program has ended whose launcher has this spool.
pub(in crate::launch) fn has_ended(spool: &Path) -> bool {
    spool.join(ENDED).exists()
}

/// The components, as they were seen last.
#[derive(Clone)]
pub(in crate::launch) struct Partners(Arc<Shared>);

/// As long as it is there somebody looks.
pub(in crate::launch) struct Watching(Partners);

struct Shared {
    /// Without a spool there are no transfers.
    own: Option<SpoolPlace>,
    notices: Arc<dyn Notices>,
    /// Held by whoever looks: those that only read. Of the others programs are told when they are heard.
    looking: Mutex<BTreeMap<Key, StatusReport>>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    known: BTreeMap<Key, Partner>,
    /// Grows with each change.
    changes: u64,
    is_over: bool,
}

impl Partners {
    /// Looks at the components that the rules name, and goes on to look.
    ///
    /// # Errors
    /// `Internal` if there is no thread to be had; `Write` if programs cannot be told what there is.
    pub(in crate::launch) fn begin(snapshot: &Snapshot, notices: &Arc<dyn Notices>) -> Result<(Self, Watching)> {
        let own = snapshot.spool.clone();
        let (writers, readers) = (keys(snapshot, Part::Reads), keys(snapshot, Part::Writes));
        let all = writers.union(&readers).filter(|_| own.is_some());
        let known = all.map(|key| (key.clone(), Partner::default())).collect();
        let readers = readers.difference(&writers);
        let status =
            |(own, key): (&SpoolPlace, &Key)| (key.clone(), StatusReport::new(own, key, patience(snapshot, key)));
        let looking =
            Mutex::new(own.iter().flat_map(|own| readers.clone().map(move |key| (own, key))).map(status).collect());
        let state = Mutex::new(State { known, changes: 0, is_over: false });
        let notices = Arc::clone(notices);
        let partners = Self(Arc::new(Shared { own, notices, looking, state, changed: Condvar::new() }));
        // Programs find out from their launcher, from the first moment on.
        for (rendezvous, name) in partners.0.lock().known.keys() {
            partners.0.save(&ComponentStatus::nobody(), (rendezvous, name))?;
        }
        partners.0.look();
        if !partners.0.lock().known.is_empty() {
            let shared = Arc::clone(&partners.0);
            spawn("partners", move || shared.watch())?;
        }
        Ok((partners.clone(), Watching(partners)))
    }

    /// What is known of a component.
    pub(in crate::launch) fn of(&self, key: &Key) -> Partner {
        self.0.lock().known.get(key).cloned().unwrap_or_default()
    }

    /// The same, when a program of the component whose launcher has this token has left a note. It may have come after the
    /// last look: then this looks again.
    pub(in crate::launch) fn with(&self, key: &Key, token: &str) -> Partner {
        let partner = self.of(key);
        if partner.has(token) {
            return partner;
        }
        self.0.look();
        self.of(key)
    }

    /// True if something has changed since there were so many changes, which becomes their number now.
    pub(in crate::launch) fn has_changed(&self, known: &mut u64) -> bool {
        let now = self.0.lock().changes + 1;
        std::mem::replace(known, now) != now
    }

    /// True if the launcher with this number is where the component is met.
    pub(in crate::launch) fn is_there(&self, (rendezvous, name): &Key, launcher: u64) -> bool {
        Component::is_there(rendezvous, name, launcher)
    }

    /// Looks again how a launcher is reached that does not answer: when more come that ask it, it may say more.
    pub(in crate::launch) fn look_again(&self, key: &Key, launcher: u64) {
        let _looking = self.0.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(Some(address)) = Address::of(&key.0, &key.1, launcher) else { return };
        let mut state = self.0.lock();
        let found = state.known.get_mut(key).and_then(|partner| partner.others.get_mut(&launcher));
        let is_new = |other: &&mut PartnerLauncher| !other.is_near && other.address.as_ref() != Some(&address);
        let Some(other) = found.filter(is_new) else { return };
        other.address = Some(address);
        state.changes += 1;
        self.0.changed.notify_all();
    }

    /// The same, when it is something else than it was after so many changes, or after a while. With the number of changes.
    pub(in crate::launch) fn await_change(&self, key: &Key, known: u64, most: Duration) -> (Partner, u64) {
        let mut state = self.0.lock();
        if state.changes == known && !state.is_over {
            state = self.0.changed.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0;
        }
        (state.known.get(key).cloned().unwrap_or_default(), state.changes)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let Partners(shared) = &self.0;
        shared.lock().is_over = true;
        shared.changed.notify_all();
        // Nothing is written any more into a spool that goes. Only a file system that hangs takes long.
        let end = Instant::now() + ENDING;
        while shared.looking.try_lock().is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The other components of the rules in which this one has that part.
pub(in crate::launch) fn keys(snapshot: &Snapshot, part: Part) -> BTreeSet<Key> {
    let transfers = snapshot.config.file.iter().filter(|rule| rule.route() == Route::Transfer);
    let mine = transfers.filter(|rule| snapshot.part(rule) == Some(part)).map(|rule| rule.transfer());
    let others = mine.flat_map(|rule| {
        let names = match part {
            Part::Reads => vec![rule.from().to_owned()],
            Part::Writes => rule.to().to_vec(),
        };
        names.into_iter().map(|name| (rule.rendezvous().to_owned(), name))
    });
    others.collect()
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks until the run is over.
    fn watch(&self) {
        let (mut watch, mut changed) = (Watch::new(), Instant::now());
        loop {
            let (keys, launchers) = {
                let state = self.lock();
                if state.is_over {
                    return;
                }
                let most = state.known.values().map(|partner| partner.others.len()).max().unwrap_or(0);
                (state.known.keys().cloned().collect::<Vec<_>>(), most)
            };
            for (rendezvous, name) in &keys {
                watch.on(&rendezvous.join(name));
            }
            let pace = if changed.elapsed() < LATELY { SOON } else { SELDOM };
            watch.wait_for(Component::paced(pace, launchers));
            if self.look() {
                changed = Instant::now();
            }
        }
    }

    fn save(&self, met: &ComponentStatus, (rendezvous, name): (&Path, &str)) -> Result<()> {
        self.own.as_ref().map_or(Ok(()), |own| met.save(&own.directory, rendezvous, name))
    }

    /// Looks once. True if something has changed.
    fn look(&self) -> bool {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lock().is_over {
            return false;
        }
        let before: Vec<(Key, Partner)> =
            self.lock().known.iter().map(|(key, partner)| (key.clone(), partner.clone())).collect();
        let mut has_changed = false;
        for ((rendezvous, name), before) in before {
            let near = |launcher: &Launcher| {
                let Launcher { node, spool, token, .. } = launcher;
                self.own.as_ref().is_some_and(|own| own.is_near(node, spool, token))
            };
            // Where locks do not tell whether a launcher of another node lives, that is found out by asking it.
            let is_asked = before.others.values().any(|other| !other.is_near) && has_local_locks(&rendezvous);
            let asked = |launcher: &Launcher| match near(launcher) {
                true => Some(lives(&launcher.spool)),
                false => is_asked.then_some(true),
            };
            let listed = Listed::read(&rendezvous, &name, &before.listed, asked);
            let mut now = Partner { was_seen: before.was_seen, ..Partner::default() };
            for (number, launcher) in &listed.launchers {
                let known = before.others.get(number).filter(|other| other.launcher == *launcher);
                let mut other = known.cloned().unwrap_or_else(|| {
                    let is_near = near(launcher);
                    PartnerLauncher { launcher: launcher.clone(), is_near, address: None }
                });
                if other.address.is_none() && !other.is_near && listed.answering.contains(number) {
                    match Address::of(&rendezvous, &name, *number) {
                        Ok(address) => other.address = address,
                        Err(error) => now.failed = Some(error.to_string()),
                    }
                }
                now.others.insert(*number, other);
            }
            now.was_seen |= listed.presence() != Presence::Absent;
            now.listed = listed;
            if let Some(status) = looking.get_mut(&(rendezvous.clone(), name.clone())) {
                status.set(now.presence(), None);
                // The next look tries again.
                let _ = status.notify();
            }
            if let Some(why) = now.failed.as_ref().filter(|_| now.failed != before.failed) {
                self.notices.warn(&format!("component '{name}': {why}"));
            }
            if (&now.others, &now.listed, &now.failed) != (&before.others, &before.listed, &before.failed) {
                has_changed = true;
                self.lock().known.insert((rendezvous, name), now);
            }
        }
        if has_changed {
            self.lock().changes += 1;
            self.changed.notify_all();
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_config::Config;
    use std::fs;

    struct Quiet;

    impl Notices for Quiet {
        fn notify(&self, _: &str) {}
        fn warn(&self, _: &str) {}
    }

    fn place(folder: &Path, token: &str) -> SpoolPlace {
        let (directory, disk) = (folder.join(token), folder.to_owned());
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(ALIVE), token).unwrap();
        SpoolPlace {
            directory,
            most: 1,
            disk,
            places: Vec::new(),
            node: "n".to_owned(),
            token: token.to_owned(),
            peer: None,
        }
    }

    #[test]
    fn launchers_of_this_node_are_asked_in_their_spools() {
        let folder = std::env::temp_dir().join(format!("knarr-partners-{}", std::process::id()));
        let (own, other) = (place(&folder, "own"), place(&folder, "other"));
        let rendezvous = folder.join("meet");
        let text = "[[file]]\npattern = \"*\"\nroute = \"transfer\"\nfrom = \"w\"\nto = [\"r\"]\n";
        let mut config = Config::parse(text).unwrap();
        config.file[0].transfer_mut().unwrap().rendezvous = Some(rendezvous.clone());
        let (component, spool) = (Some("w".to_owned()), Some(own.clone()));
        let snapshot = Snapshot { component, spool, ..Snapshot::new(config) };
        let notices: Arc<dyn Notices> = Arc::new(Quiet);
        let key = (rendezvous.clone(), "r".to_owned());
        assert_eq!(keys(&snapshot, Part::Writes), BTreeSet::from([key.clone()]));
        assert!(keys(&snapshot, Part::Reads).is_empty());
        let (partners, watching) = Partners::begin(&snapshot, &notices).unwrap();
        assert!(!partners.of(&key).was_seen && partners.of(&key).presence() == Presence::Absent);
        assert!(!ComponentStatus::read(&own.directory, &rendezvous, "r").unwrap().was_seen);

        let alive = File::open(other.directory.join(ALIVE)).unwrap();
        alive.lock().unwrap();
        let near = Launcher {
            run: "1".to_owned(),
            node: "n".to_owned(),
            spool: other.directory.clone(),
            token: "other".to_owned(),
            ..Launcher::default()
        };
        let component = Component::enter(&rendezvous, "r", &near).unwrap();
        // One that has just come is known when it has left a note, however busy the thread is that looks.
        assert!(partners.with(&key, "other").has("other"));
        let begin = Instant::now();
        let mut changes = 0;
        while partners.of(&key).presence() != Presence::Running {
            assert!(begin.elapsed() < Duration::from_secs(10));
            (_, changes) = partners.await_change(&key, changes, Duration::from_millis(100));
        }
        let seen = partners.of(&key);
        assert!(seen.was_seen && seen.has("other") && !seen.has("own"));
        assert!(seen.others.values().all(|other| other.is_near && other.address.is_none()));
        // Nobody has to look into the rendezvous for these.
        fs::write(other.directory.join(ENDED), b"").unwrap();
        assert_eq!(seen.presence(), Presence::Ended);
        let met = ComponentStatus::read(&own.directory, &rendezvous, "r").unwrap();
        assert!(met.was_seen && met.presence == Presence::Running, "no program waits for it");
        drop(alive);
        assert_eq!(seen.presence(), Presence::Absent);
        drop((watching, component));
        fs::remove_dir_all(folder).unwrap();
    }
}
