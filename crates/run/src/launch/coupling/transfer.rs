//! Files that are transferred between components: which sessions readers have yet to take, and what came of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use knarr_array::error::{Error, ErrorKind};
use knarr_array::quality::Observed;
use knarr_capture::meeting::{Component, Presence, begin_session};
use knarr_capture::{Event, HandedOver, Reading, SpoolPlace};
use knarr_config::{FileRule, Route, WhenLate};
use knarr_handover::Crossed;
use knarr_link::SILENCE;

use crate::launch::aggregators::lossy_transfers::{LossyTransfer, LossyTransfers};
use crate::launch::aggregators::nodes::{Fate, Nodes};
use crate::launch::coupling::partners::{Partner, Partners};
use crate::launch::coupling::status_report::Key;
use crate::launch::outcome::{Files, Outcome};
use crate::launch::start::listening::Listening;
use crate::launch::start::prepare::RunSetup;
use crate::notices::Notices;

/// Between two looks whether a launcher of this component was killed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks at most, if this launcher was not stopped itself.
const AWAKE: Duration = Duration::from_secs(2);

/// A session that the program has closed.
struct Session {
    directory: PathBuf,
    handed: HandedOver,
    since: Instant,
    /// Readers of which it was said that they are late, and that the session waits for them.
    told: Vec<String>,
}

impl Session {
    /// The readers that are to have it.
    fn readers(&self) -> impl Iterator<Item = &str> {
        let rule = self.handed.rule.transfer();
        rule.to().iter().filter(|_| rule.is_read(self.handed.session)).map(String::as_str)
    }

    fn is_noted(&self, reader: &str, reading: Reading) -> bool {
        HandedOver::is_noted(&self.directory, reader, reading)
    }

    fn key(&self, reader: &str) -> Key {
        (self.handed.rule.transfer().rendezvous().to_owned(), reader.to_owned())
    }

    /// The readers that have not taken it, of those that are to.
    fn missing(&self) -> Vec<String> {
        self.readers().filter(|reader| !self.is_noted(reader, Reading::Done)).map(ToOwned::to_owned).collect()
    }

    /// The readers that want a file of it.
    fn wanted_by(&self) -> Vec<String> {
        self.readers().filter(|reader| HandedOver::wants_file(&self.directory, reader)).map(ToOwned::to_owned).collect()
    }

    /// True if a file is made of it when no reader may take it any more.
    fn becomes_file(&self, is_taken: bool) -> bool {
        let rule = self.handed.rule.transfer();
        let is_whole = is_taken && self.failed().is_empty();
        rule.keep() || !is_whole && rule.when_late() != WhenLate::Discard || !self.wanted_by().is_empty()
    }

    /// The readers that have closed it and could not read all of it, and why.
    fn failed(&self) -> Vec<(String, String)> {
        let failure = |reader: &str| Some((reader.to_owned(), HandedOver::failure(&self.directory, reader)?));
        self.readers().filter(|reader| self.is_noted(reader, Reading::Done)).filter_map(failure).collect()
    }
}

/// What is to be expected of a reader.
enum Life {
    /// It lives, or may yet come.
    Comes,
    /// It will not take the session.
    Late(Why),
}

/// Why a reader does not take a session.
enum Why {
    /// It may have come at this moment all the same.
    Missing(String),
    /// Its node is silent: it may have the session open.
    Silent(String),
}

impl Why {
    fn text(&self) -> &str {
        let (Self::Missing(text) | Self::Silent(text)) = self;
        text
    }
}

/// A reader that is late.
struct Late {
    reader: String,
    why: Why,
}

/// A file that was made of a session, which readers did not take or want as a file.
struct MadeOf {
    handed: HandedOver,
    directory: PathBuf,
    /// All of these readers.
    readers: Vec<String>,
    /// Those that want a file.
    wanted_by: Vec<String>,
}

/// What came of a file.
#[derive(Default)]
struct Row {
    /// Sessions that a reader has had, all of them.
    sessions: u64,
    /// Number of the last of these, and when it was closed: in milliseconds since 1970.
    last: (u64, Option<u64>),
    /// Sessions that no reader was to have.
    skipped: u64,
    bytes: u64,
    /// On the side that reads.
    spent: Option<Spent>,
    /// `to letkf` or `from scale`.
    way: String,
    /// What was not as it should be, and no values are lost of.
    notes: Vec<String>,
    /// What did not come from another component.
    missed: Vec<String>,
    /// What nobody will have.
    discarded: Vec<String>,
}

/// What reading sessions took.
#[derive(Default)]
struct Spent {
    /// Waiting for them.
    waited: Duration,
    /// The gets.
    got: Duration,
}

/// Where in a row something is said.
type Column = fn(&mut Row) -> &mut Vec<String>;

const NOTES: Column = |row| &mut row.notes;
const MISSED: Column = |row| &mut row.missed;
const DISCARDED: Column = |row| &mut row.discarded;

/// The transfers of a run.
pub(in crate::launch) struct Transfers<'a> {
    components: &'a [Component],
    listening: Listening,
    partners: &'a Partners,
    /// Those that hold parts of sessions.
    nodes: &'a Nodes,
    notices: &'a Arc<dyn Notices>,
    waiting: Vec<Session>,
    /// Readers that have opened a session in the life of this run.
    begun_by: BTreeSet<(Key, String)>,
    begun: Instant,
    looked: Instant,
    lately: Instant,
    /// How many this component had then.
    launchers: usize,
    /// This run's spool.
    own: Option<&'a SpoolPlace>,
    /// Launchers of readers that are to ask for sessions, by the tokens of their spools: since when that is expected.
    expected: BTreeMap<String, Instant>,
    /// Sessions of which files are to be made because readers are late, by their directories.
    making: BTreeMap<PathBuf, MadeOf>,
    /// Those of which files were made, and that these readers have not opened yet.
    made: BTreeMap<PathBuf, MadeOf>,
    /// Files that got names under which others read them, so far.
    renamed: u64,
    rows: BTreeMap<PathBuf, Row>,
    /// What came of variables with a bound.
    lossy_transfers: LossyTransfers,
}

impl<'a> Transfers<'a> {
    pub(in crate::launch) fn new(setup: &'a RunSetup) -> Self {
        let RunSetup { components, nodes, notices, partners, snapshot, .. } = setup;
        let now = Instant::now();
        Self {
            components,
            listening: Listening::new(snapshot),
            partners,
            nodes,
            notices,
            waiting: Vec::new(),
            begun_by: BTreeSet::new(),
            begun: now,
            looked: now,
            lately: now,
            launchers: 0,
            own: snapshot.spool.as_ref(),
            expected: BTreeMap::new(),
            making: BTreeMap::new(),
            made: BTreeMap::new(),
            renamed: 0,
            rows: BTreeMap::new(),
            lossy_transfers: LossyTransfers::default(),
        }
    }

    /// Looks after the other launchers of this component, and lets those of readers reach this one.
    fn look(&mut self) {
        let around = (self.partners, self.nodes);
        if let Err(error) = self.listening.look(around, self.components, self.own) {
            self.notices.warn(&format!("components on other nodes cannot reach this one: {error}"));
        }
        // Nobody could be heard while this launcher was stopped.
        if self.lately.elapsed() > AWAKE {
            self.expected.clear();
        }
        self.lately = Instant::now();
        if self.looked.elapsed() >= Component::paced(LOOK_EVERY, self.launchers) {
            self.looked = self.lately;
            self.launchers = self.components.iter().map(Component::look_after_next).max().unwrap_or(0);
        }
    }

    /// How long a launcher of a reader on another node has asked for nothing, if that is long, and its node. Those that are near
    /// need not ask.
    fn silence(&mut self, partner: &Partner) -> Option<(Duration, String)> {
        let own = self.own?;
        let mut longest: Option<(Duration, String)> = None;
        for other in partner.others.values().filter(|other| !other.is_near && other.launcher.token != own.token) {
            let since = *self.expected.entry(other.launcher.token.clone()).or_insert(self.lately);
            let last = self.nodes.heard(&other.launcher.token).map_or(since, |heard| heard.max(since));
            let silent = last.elapsed();
            if silent > SILENCE && longest.as_ref().is_none_or(|(longest, _)| silent > *longest) {
                longest = Some((silent, other.launcher.node.clone()));
            }
        }
        longest
    }

    /// True if sessions wait for readers.
    pub(in crate::launch) fn are_open(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The program has ended: it offers and takes nothing more.
    pub(in crate::launch) fn ended(&self) {
        for component in self.components {
            if let Err(error) = component.ended() {
                self.notices.warn(&format!("the other components do not hear that the program has ended: {error}"));
            }
        }
    }

    /// The program has closed a file. False if it is not transferred, or if another node looks after the session.
    pub(in crate::launch) fn close(&mut self, directory: &Path, handed: &HandedOver) -> bool {
        if handed.rule.route() != Route::Transfer || handed.maker().is_some() {
            return false;
        }
        let row = self.rows.entry(handed.target.clone()).or_default();
        row.way = format!("to {}", handed.rule.transfer().to().join(", "));
        let (directory, told) = (directory.to_owned(), Vec::new());
        self.waiting.push(Session { directory, handed: handed.clone(), since: Instant::now(), told });
        true
    }

    /// What a process of the program tells of files from other components.
    pub(in crate::launch) fn on_event(&mut self, event: &Event) {
        match event {
            Event::Received { path, from, session, closed_ms, took } => {
                let row = self.rows.entry(path.clone()).or_default();
                row.sessions += 1;
                row.last = (*session, *closed_ms);
                row.way = format!("from {from}");
                row.bytes += took.bytes;
                let Spent { waited, got } = row.spent.get_or_insert_default();
                *waited += Duration::from_micros(took.waited_us);
                *got += Duration::from_micros(took.got_us);
            }
            Event::LossyTransfer { path, variable, bound, raw, sent, errors, changed } => {
                let [max_abs, max_rel] = errors.map(f64::from_bits);
                let worst = Observed { max_abs, max_rel, worst: 0, changed: *changed };
                let crossed = Crossed { raw: *raw, sent: *sent, worst };
                self.lossy_transfers
                    .add(path, LossyTransfer { variable: variable.clone(), bound: bound.clone(), crossed });
            }
            Event::Missed { path, why } => self.say(path, why, MISSED),
            Event::Awaits { path, what, seconds } => {
                self.notices.warn(&format!("{}: waited {seconds} s: {what}", path.display()));
            }
            _ => {}
        }
    }

    /// What came of variables with a bound.
    pub(in crate::launch) fn take_lossy_transfers(&mut self) -> LossyTransfers {
        std::mem::take(&mut self.lossy_transfers)
    }

    /// The node that looks after a session is gone, and with it the session.
    pub(in crate::launch) fn lost(&mut self, path: &Path, error: &Error) {
        self.say(path, &format!("a session is lost: {error}"), DISCARDED);
    }

    /// Says what is not as it should be.
    fn say(&mut self, path: &Path, what: &str, of: Column) {
        let said = of(self.rows.entry(path.to_owned()).or_default());
        // Every rank tells of it.
        if !said.iter().any(|known| known == what) {
            self.notices.warn(&format!("{}: {what}", path.display()));
            said.push(what.to_owned());
        }
    }

    /// Looks which sessions readers have taken, and which nobody will take. What is not kept leaves the spool. Returns the
    /// directories of those of which files are to be made.
    pub(in crate::launch) fn settle(&mut self) -> Vec<PathBuf> {
        self.look();
        let mut kept = Vec::new();
        // Files of one name are made in the order of their sessions: an older one does not replace a newer one.
        let mut open = BTreeSet::new();
        for mut session in std::mem::take(&mut self.waiting) {
            let missing = session.missing();
            let late: Vec<Late> = missing
                .iter()
                .filter_map(|reader| match self.life(&session, reader) {
                    Life::Comes => None,
                    Life::Late(why) => Some(Late { reader: reader.clone(), why }),
                })
                .collect();
            let waits = !late.is_empty() && session.handed.rule.transfer().when_late() == WhenLate::Wait;
            if waits {
                self.tell_waits(&mut session, &late);
            }
            let follows = open.contains(&session.handed.target) && session.becomes_file(late.is_empty());
            let is_taken_back = || late.is_empty() || self.take_back(&session, &late);
            if late.len() < missing.len() || waits || follows || !is_taken_back() {
                open.insert(session.handed.target.clone());
                self.waiting.push(session);
                continue;
            }
            kept.extend(self.end(&session, &late));
        }
        kept
    }

    /// Says that a session goes on to wait for readers that are late.
    fn tell_waits(&mut self, session: &mut Session, late: &[Late]) {
        for Late { reader, why } in late {
            let why = why.text();
            if !session.told.contains(reader) {
                session.told.push(reader.clone());
                let number = session.handed.session;
                let said = format!("session {number}: component '{reader}' {why}; it waits for it (when_late)");
                self.say(&session.handed.target, &said, NOTES);
            }
        }
    }

    /// Takes a session back. False if a reader that was late has opened it meanwhile.
    fn take_back(&self, session: &Session, late: &[Late]) -> bool {
        if !HandedOver::take_back(&session.directory) {
            return true;
        }
        // A reader that opens it notes that first, and then looks whether it is there.
        let has_come = |late: &Late| {
            let is_missing = matches!(late.why, Why::Missing(_));
            let token = is_missing.then(|| HandedOver::begun_by(&session.directory, &late.reader)).flatten();
            token.is_some_and(|token| self.partners.with(&session.key(&late.reader), &token).has(&token))
        };
        !(late.iter().any(has_come) && HandedOver::offer_again(&session.directory))
    }

    /// What is to be expected of a reader that has not taken a session.
    fn life(&mut self, session: &Session, reader: &str) -> Life {
        let (key, timeout) = (session.key(reader), session.handed.rule.transfer().timeout());
        let mut partner = self.partners.of(&key);
        if let Some(token) = HandedOver::begun_by(&session.directory, reader)
            && self.begun_by.insert((key.clone(), token.clone()))
        {
            partner = self.partners.with(&key, &token);
        }
        let has_begun = self.begun_by.iter().any(|(other, _)| *other == key);
        match partner.presence() {
            Presence::Running => match self.silence(&partner) {
                Some((silent, node)) if silent > timeout => {
                    let seconds = silent.as_secs();
                    let why = format!("has not taken it, and its node '{node}' has asked for nothing for {seconds} s");
                    Life::Late(Why::Silent(why))
                }
                _ => Life::Comes,
            },
            _ if partner.was_seen || has_begun => Life::Late(Why::Missing("has ended without it".to_owned())),
            // It may come late, but not later than that.
            _ if session.since.max(self.begun).elapsed() > timeout => {
                Life::Late(Why::Missing(format!("did not come for it within {} s", timeout.as_secs_f64())))
            }
            _ => Life::Comes,
        }
    }

    /// A session goes. `late` are those that have not taken it and will not. Returns its directory if a file is to be
    /// made of it.
    fn end(&mut self, session: &Session, late: &[Late]) -> Option<PathBuf> {
        let HandedOver { rule, target, session: number, .. } = &session.handed;
        let named = |Late { reader, why }: &Late| (reader.clone(), why.text().to_owned());
        let mut without: Vec<(String, String)> = late.iter().map(named).collect();
        let failed = session.failed();
        without.extend(failed.into_iter().map(|(reader, why)| (reader, format!("could not read all of it ({why})"))));
        let row = self.rows.entry(target.clone()).or_default();
        if !rule.transfer().is_read(*number) {
            row.skipped += 1;
        } else if without.len() < rule.transfer().to().len() {
            row.sessions += 1;
            row.last = (*number, session.handed.closed_ms);
            row.bytes += session.handed.bytes;
        }
        let is_kept = session.becomes_file(late.is_empty());
        for (reader, why) in &without {
            let then = if is_kept { "a file is made of it" } else { "its values are discarded" };
            let said = format!("session {number}: component '{reader}' {why}; {then}");
            self.say(target, &said, if is_kept { NOTES } else { DISCARDED });
        }
        if !is_kept {
            self.free(session, without.is_empty());
            return None;
        }
        let wanted_by = session.wanted_by();
        for reader in &wanted_by {
            self.say(target, &format!("session {number}: component '{reader}' has it as a file"), NOTES);
        }
        let mut readers = wanted_by.clone();
        if rule.transfer().when_late() != WhenLate::Discard {
            readers.extend(without.into_iter().map(|(reader, _)| reader).filter(|reader| !wanted_by.contains(reader)));
        }
        let (handed, directory) = (session.handed.clone(), session.directory.clone());
        if !readers.is_empty() {
            self.making.insert(directory.clone(), MadeOf { handed, directory: directory.clone(), readers, wanted_by });
        }
        Some(directory)
    }

    /// A file was made of what lies in a directory.
    pub(in crate::launch) fn made(&mut self, path: &Path, directory: &Path) {
        if let Some(made) = self.making.remove(directory) {
            self.show_made(path, made);
        }
    }

    /// The program of this component has given a file a name under which other components read it.
    pub(in crate::launch) fn renamed(&mut self, path: &Path, rule: &FileRule) {
        let shown = self.own.ok_or_else(|| Error::internal("a component without a spool")).and_then(|own| {
            let session = begin_session(rule.transfer(), path)?;
            let handed = HandedOver { session, ..HandedOver::new(path.to_owned(), rule.clone(), 0) };
            let directory = own.directory.join(format!("{}-renamed-{}", std::process::id(), self.renamed));
            self.renamed += 1;
            let readers = rule.transfer().to().to_vec();
            Ok(MadeOf { handed, directory, wanted_by: readers.clone(), readers })
        });
        match shown {
            Ok(made) => {
                let row = self.rows.entry(path.to_owned()).or_default();
                row.way = format!("to {}", made.readers.join(", "));
                row.sessions += 1;
                row.last = (made.handed.session, None);
                self.show_made(path, made);
            }
            Err(error) => self.notices.warn(&format!("{}: others do not hear of its name: {error}", path.display())),
        }
    }

    /// Readers are to open the file at `path` from now on.
    fn show_made(&mut self, path: &Path, made: MadeOf) {
        if let Some(before) = self.made.remove(path) {
            for reader in before.readers.iter().filter(|reader| !before.is_taken(reader)) {
                let said = format!(
                    "session {}: component '{reader}' has not opened the file that was made of it, and session {} has replaced it",
                    before.handed.session, made.handed.session
                );
                self.say(path, &said, DISCARDED);
            }
            HandedOver::discard(&before.directory);
        }
        if let Err(error) = made.handed.note_file(&made.directory, &made.readers, &made.wanted_by) {
            self.notices.warn(&format!("{}: readers do not hear of the file: {error}", path.display()));
        }
        self.made.insert(path.to_owned(), made);
    }

    /// A session leaves the spools. Its memory is not used again if a reader may yet have it open.
    fn free(&self, session: &Session, is_read: bool) {
        self.nodes.notify(&session.handed, Ok(if is_read { Fate::Done } else { Fate::Discarded }));
        self.nodes.forget(&session.directory);
        if is_read {
            session.handed.remove(&session.directory);
        } else {
            HandedOver::discard(&session.directory);
        }
    }

    /// A session that no reader can have goes, unless its values are kept.
    pub(in crate::launch) fn break_off(&mut self, directory: &Path, open: &HandedOver, why: &str, is_kept: bool) {
        if open.rule.transfer().is_read(open.session) {
            let then = if is_kept { "" } else { "; its values are discarded" };
            let said = format!("session {}: {why}{then}", open.session);
            self.say(&open.target, &said, if is_kept { NOTES } else { DISCARDED });
        }
        if !is_kept {
            HandedOver::discard(directory);
        }
    }

    /// What came of all files. Sessions that still wait are discarded, or returned if files may be made of them: the run was
    /// interrupted.
    pub(in crate::launch) fn finish(&mut self, files: &mut Files) -> Vec<PathBuf> {
        let mut kept = Vec::new();
        for session in std::mem::take(&mut self.waiting) {
            let HandedOver { target, session: number, .. } = &session.handed;
            HandedOver::take_back(&session.directory);
            if session.handed.is_owed(&session.directory) {
                kept.push(session.directory.clone());
                continue;
            }
            let missing = session.missing().join(", ");
            if !missing.is_empty() {
                let said = format!("session {number}: interrupted before {missing} had it; its values are discarded");
                self.say(&target.clone(), &said, DISCARDED);
            }
            self.free(&session, false);
        }
        for made in std::mem::take(&mut self.made).into_values() {
            HandedOver::discard(&made.directory);
        }
        for (path, row) in std::mem::take(&mut self.rows) {
            row.report(path, files);
        }
        kept
    }
}

/// A time in milliseconds since 1970 as words, in UTC.
fn shown_time(ms: u64) -> String {
    UNIX_EPOCH
        .checked_add(Duration::from_millis(ms))
        .map_or_else(String::new, |time| humantime::format_rfc3339_seconds(time).to_string())
}

impl MadeOf {
    fn is_taken(&self, reader: &str) -> bool {
        let has_it = self.wanted_by.iter().any(|other| other == reader);
        has_it || HandedOver::is_noted(&self.directory, reader, Reading::Done)
    }
}

impl Row {
    /// Says it of the file, beside what else became of it.
    fn report(self, path: PathBuf, files: &mut Files) {
        let Self { sessions, last: (last, closed_ms), skipped, bytes, spent, way, notes, missed, discarded } = self;
        let times = if sessions == 1 { "once".to_owned() } else { format!("{sessions} times") };
        let skipped = if skipped == 0 { String::new() } else { format!(" ({skipped} more were skipped)") };
        let closed = closed_ms.map_or_else(String::new, |closed_ms| format!(", closed {}", shown_time(closed_ms)));
        let last = if sessions == 0 { String::new() } else { format!(", last session {last}{closed}") };
        let error = |said: &[String]| Error::new(ErrorKind::Read, said.join("; "));
        if !discarded.is_empty() {
            files.add_loss(path.clone(), Outcome::Discarded(Error::new(ErrorKind::Write, discarded.join("; "))));
        }
        if !missed.is_empty() {
            files.add_beside(path, Outcome::Missed(error(&missed)), &notes.join("; "));
        } else if sessions > 0 || discarded.is_empty() {
            let spent = spent.map_or_else(String::new, |Spent { waited, got }| {
                format!("; waited {:.2} s for it, and read it in {:.2} s", waited.as_secs_f64(), got.as_secs_f64())
            });
            let words = format!("transferred {way}, {times}{skipped}{last}{spent}");
            files.add_beside(path, Outcome::Transferred { bytes, words }, &notes.join("; "));
        }
    }
}
