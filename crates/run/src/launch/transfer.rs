//! Files that are transferred between components: who is there, which sessions readers have yet to take, and what came of
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind};
use knarr_array::quality::Observed;
use knarr_capture::config::{FileRule, Keep, Route};
use knarr_capture::meeting::{Address, Component, Offers, Presence};
use knarr_capture::{Event, HandedOver, Part, Reading, SpoolPlace};
use knarr_handover::Crossed;
use knarr_link::SILENCE;

use super::flight::{Flights, Flown};
use super::nodes::{Fate, Nodes};
use super::outcome::{Files, Outcome};
use super::prepare::Begun;
use crate::notices::Notices;

/// Between two looks for readers that were not there yet. One that is killed before it was seen may come again, and is waited
/// for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between two looks which of them are silent, and whether a launcher of this component was killed.
const LISTEN_EVERY: Duration = Duration::from_millis(500);
/// A launcher on another node that has asked for nothing for so long is gone: the other way, who is silent is asked twice.
const SILENT: Duration = SILENCE.saturating_mul(2);
/// Between two looks at most, if this launcher was not stopped itself.
const AWAKE: Duration = Duration::from_secs(2);

/// A session that the program has closed.
struct Session {
    directory: PathBuf,
    handed: HandedOver,
    since: Instant,
}

impl Session {
    /// The readers that have not taken it, of those that are to.
    fn missing(&self) -> Vec<&str> {
        let rule = &self.handed.rule.transfer;
        let readers = rule.to().iter().filter(|_| rule.is_read(self.handed.session)).map(String::as_str);
        readers.filter(|reader| !HandedOver::is_noted(&self.directory, reader, Reading::Done)).collect()
    }
}

/// What came of a file.
#[derive(Default)]
struct Row {
    sessions: u64,
    /// Sessions that no reader was to have.
    skipped: u64,
    bytes: u64,
    /// `to letkf` or `from scale`.
    way: String,
    failures: Vec<String>,
}

/// The transfers of a run.
pub(super) struct Transfers<'a> {
    components: &'a [Component],
    /// Those that hold parts of sessions.
    nodes: &'a Nodes,
    notices: &'a Arc<dyn Notices>,
    waiting: Vec<Session>,
    /// Readers that were there at any time, with the directory in which they meet.
    seen: BTreeSet<(PathBuf, String)>,
    /// Those of which that is not known, and when it was looked for last.
    unseen: BTreeSet<(PathBuf, String)>,
    looked: Instant,
    listened: Instant,
    /// How many this component had then.
    launchers: usize,
    /// This run's spool.
    own: Option<&'a SpoolPlace>,
    /// Of the launchers of readers.
    addresses: BTreeMap<(PathBuf, String), BTreeMap<u64, Address>>,
    /// Launchers of readers that are to ask for sessions, by the tokens of their spools: since when that is expected.
    expected: BTreeMap<String, Instant>,
    /// Readers that have a launcher which has not asked for long, and its node.
    silent: BTreeMap<(PathBuf, String), String>,
    rows: BTreeMap<PathBuf, Row>,
    /// What came of variables with a bound.
    flown: Flights,
}

impl<'a> Transfers<'a> {
    pub(super) fn new(begun: &'a Begun) -> Self {
        let Begun { components, nodes, notices, snapshot, .. } = begun;
        let rules = snapshot.config.file.iter().filter(|rule| snapshot.part(rule) == Some(Part::Writes));
        let readers = rules.flat_map(|FileRule { transfer, .. }| {
            transfer.to().iter().map(|reader| (transfer.rendezvous().to_owned(), reader.clone()))
        });
        let (waiting, seen, unseen, rows) = (Vec::new(), BTreeSet::new(), readers.collect(), BTreeMap::new());
        let (looked, own) = (Instant::now(), snapshot.spool.as_ref());
        let (addresses, expected, silent) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let listened = looked;
        let mut transfers = Self {
            components,
            nodes,
            notices,
            waiting,
            seen,
            unseen,
            looked,
            listened,
            launchers: 0,
            own,
            addresses,
            expected,
            silent,
            rows,
            flown: Flights::default(),
        };
        transfers.meet();
        transfers
    }

    /// Looks which readers are there: one that is gone before anything is there for it does not come later.
    fn look(&mut self) {
        if self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        // Nobody could be heard while this launcher was stopped.
        if self.looked.elapsed() > AWAKE {
            self.expected.clear();
        }
        self.looked = Instant::now();
        if self.listened.elapsed() >= Component::paced(LISTEN_EVERY, self.launchers) {
            self.listened = self.looked;
            self.launchers = self.components.iter().map(Component::look_after_next).max().unwrap_or(0);
            self.listen();
        }
        self.meet();
    }

    /// Sees the readers that are there. One whose program has ended may be that of an earlier run.
    fn meet(&mut self) {
        let is_there = |(rendezvous, reader): &(PathBuf, String)| Presence::of(rendezvous, reader) == Presence::Running;
        let (there, unseen): (BTreeSet<_>, _) = std::mem::take(&mut self.unseen).into_iter().partition(is_there);
        self.unseen = unseen;
        self.seen.extend(there);
    }

    /// Looks which launchers of readers on other nodes are silent. Those that are near need not ask.
    fn listen(&mut self) {
        self.silent.clear();
        let Some(own) = self.own.filter(|_| self.are_open()) else { return };
        for (rendezvous, reader) in self.seen.iter().chain(&self.unseen) {
            // What a run that was killed has left is silent, too, and that run may be started again.
            if Presence::of(rendezvous, reader) != Presence::Running {
                continue;
            }
            // What cannot be read is told by others.
            let known = self.addresses.entry((rendezvous.clone(), reader.clone())).or_default();
            let found = Address::all_with(rendezvous, reader, |number| known.get(&number).cloned());
            let launchers = found.unwrap_or_default();
            known.clone_from(&launchers);
            // A component on several nodes is asked by all that read.
            for address in launchers.into_values().filter(|address| self.launchers > 1 || !address.is_near(own)) {
                let since = *self.expected.entry(address.token.clone()).or_insert(self.looked);
                let last = self.nodes.heard(&address.token).map_or(since, |heard| heard.max(since));
                if last.elapsed() > SILENT {
                    self.silent.insert((rendezvous.clone(), reader.clone()), address.peer.node);
                }
            }
        }
    }

    /// True if sessions wait for readers.
    pub(super) fn are_open(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The program has ended: it offers and takes nothing more.
    pub(super) fn ended(&self) {
        for component in self.components {
            if let Err(error) = component.ended() {
                self.notices.warn(&format!("the other components do not hear that the program has ended: {error}"));
            }
        }
    }

    /// The program has closed a file. False if it is not transferred, or if another node looks after the session.
    pub(super) fn close(&mut self, directory: &Path) -> bool {
        let Ok(Some(handed)) = HandedOver::read(directory) else { return false };
        if handed.rule.route != Route::Transfer || handed.maker().is_some() {
            return false;
        }
        let row = self.rows.entry(handed.target.clone()).or_default();
        if handed.rule.transfer.is_read(handed.session) {
            row.sessions += 1;
            row.bytes += handed.bytes;
        } else {
            row.skipped += 1;
        }
        row.way = format!("to {}", handed.rule.transfer.to().join(", "));
        self.waiting.push(Session { directory: directory.to_owned(), handed, since: Instant::now() });
        true
    }

    /// What a process of the program tells of files from other components.
    pub(super) fn hear(&mut self, event: &Event) {
        match event {
            Event::Received { path, from, .. } => {
                let row = self.rows.entry(path.clone()).or_default();
                row.sessions += 1;
                row.way = format!("from {from}");
            }
            Event::Flown { path, variable, bound, raw, sent, errors, changed } => {
                let [max_abs, max_rel] = errors.map(f64::from_bits);
                let worst = Observed { max_abs, max_rel, worst: 0, changed: *changed };
                let crossed = Crossed { raw: *raw, sent: *sent, worst };
                self.flown.add(path, Flown { variable: variable.clone(), bound: bound.clone(), crossed });
            }
            Event::Missed { path, why } => self.failed(path, why),
            _ => {}
        }
    }

    /// What came of variables with a bound.
    pub(super) fn take_flown(&mut self) -> Flights {
        std::mem::take(&mut self.flown)
    }

    /// The node that looks after a session is gone, and with it the session.
    pub(super) fn lost(&mut self, path: &Path, error: &Error) {
        self.failed(path, &format!("a session is lost: {error}"));
    }

    fn failed(&mut self, path: &Path, why: &str) {
        let row = self.rows.entry(path.to_owned()).or_default();
        // Every rank tells of it.
        if !row.failures.iter().any(|known| known == why) {
            self.notices.warn(&format!("{}: {why}", path.display()));
            row.failures.push(why.to_owned());
        }
    }

    /// Looks which sessions readers have taken, and which nobody will take. What is not kept leaves the spool. Returns the
    /// directories of those of which files are to be made.
    pub(super) fn settle(&mut self) -> Vec<PathBuf> {
        self.look();
        let mut kept = Vec::new();
        for session in std::mem::take(&mut self.waiting) {
            let (rule, missing) = (&session.handed.rule.transfer, session.missing());
            let is_late = session.since.elapsed() > rule.timeout();
            // Nobody takes memory away from a reader that is at work.
            let comes = |reader: &str| !is_late || HandedOver::is_noted(&session.directory, reader, Reading::Begun);
            let absent: Vec<(&str, Option<String>)> =
                missing.iter().map(|reader| (*reader, self.gone(&session, reader))).collect();
            if absent.iter().any(|(reader, gone)| gone.is_none() && comes(reader)) {
                self.waiting.push(session);
                continue;
            }
            if let Some(keeps) = self.end(&session, &absent) {
                kept.push(keeps);
            }
        }
        kept
    }

    /// What is said of a reader that was there and will take nothing more.
    fn gone(&mut self, session: &Session, reader: &str) -> Option<String> {
        let rendezvous = session.handed.rule.transfer.rendezvous();
        let presence = Presence::of(rendezvous, reader);
        let key = (rendezvous.to_owned(), reader.to_owned());
        if presence != Presence::Absent || HandedOver::is_noted(&session.directory, reader, Reading::Begun) {
            self.seen.insert(key.clone());
        }
        if presence != Presence::Running && self.seen.contains(&key) {
            return Some("has ended without it".to_owned());
        }
        let node = self.silent.get(&key)?;
        Some(format!("has not taken it, and its node '{node}' is gone: it has not asked for {} s", SILENT.as_secs()))
    }

    /// A session goes. `missing` are those that have not taken it, and why they will not.
    fn end(&mut self, session: &Session, missing: &[(&str, Option<String>)]) -> Option<PathBuf> {
        let HandedOver { rule, target, session: number, .. } = &session.handed;
        Offers::of(&rule.transfer, target).withdraw(*number);
        let is_kept = match rule.transfer.keep() {
            Keep::No => false,
            Keep::Yes => true,
            Keep::Late => !missing.is_empty(),
        };
        for (reader, gone) in missing {
            let late = || format!("did not come for it within {} s", rule.transfer.timeout().as_secs_f64());
            let why = gone.clone().unwrap_or_else(late);
            let then = if is_kept { "a file is made of it" } else { "its values are discarded" };
            let said = format!("session {number}: component '{reader}' {why}; {then}");
            self.failed(&target.clone(), &said);
        }
        if is_kept {
            return Some(session.directory.clone());
        }
        self.free(session, missing.is_empty());
        None
    }

    /// A session leaves the spools. Its memory is not used again if a reader may yet have it open.
    fn free(&self, session: &Session, is_read: bool) {
        self.nodes.tell(&session.handed, Ok(if is_read { Fate::Done } else { Fate::Discarded }));
        self.nodes.forget(&session.directory);
        if is_read {
            session.handed.remove(&session.directory);
        } else {
            HandedOver::discard(&session.directory);
        }
    }

    /// A session that the program has not closed goes, because the program has ended.
    pub(super) fn break_off(&mut self, directory: &Path, open: &HandedOver) {
        Offers::of(&open.rule.transfer, &open.target).withdraw(open.session);
        if open.rule.transfer.is_read(open.session) {
            let said = format!("session {}: the program has ended before it had closed the file", open.session);
            self.failed(&open.target.clone(), &said);
        }
        if !open.may_be_kept() {
            HandedOver::discard(directory);
        }
    }

    /// What came of all files. Sessions that still wait are discarded, or returned if files may be made of them: the run was
    /// interrupted.
    pub(super) fn finish(&mut self, files: &mut Files) -> Vec<PathBuf> {
        let mut kept = Vec::new();
        for session in std::mem::take(&mut self.waiting) {
            let HandedOver { rule, target, session: number, .. } = &session.handed;
            Offers::of(&rule.transfer, target).withdraw(*number);
            if session.handed.may_be_kept() {
                kept.push(session.directory.clone());
                continue;
            }
            let missing = session.missing().join(", ");
            if !missing.is_empty() {
                self.failed(&target.clone(), &format!("session {number}: interrupted before {missing} had it"));
            }
            self.free(&session, false);
        }
        for (path, Row { sessions, skipped, bytes, way, failures }) in std::mem::take(&mut self.rows) {
            let times = if sessions == 1 { "once".to_owned() } else { format!("{sessions} times") };
            let outcome = match failures.len() {
                0 => {
                    let skipped = if skipped == 0 { String::new() } else { format!(" ({skipped} more were skipped)") };
                    Outcome::Transferred { bytes, words: format!("transferred {way}, {times}{skipped}") }
                }
                _ => Outcome::Missed(Error::new(ErrorKind::Read, failures.join("; "))),
            };
            files.add_beside(path, outcome);
        }
        kept
    }
}
