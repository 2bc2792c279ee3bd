//! A session of a file that another component writes: waiting for it, and for its values.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::comm::{Comm, agree, barrier};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::config::{Keep, Publish, TransferRule};
use knarr_capture::meeting::{Component, Gone, Offers, Presence, Taken, Watch, Writer};
use knarr_capture::program::run;
use knarr_capture::{Event, HandedOver, NodePart, Published, Reading, SpoolPlace};
use knarr_handover::{Crossed, Gathered, Held, Pattern, PutLog};

use serde::{Deserialize, Serialize};

use crate::apart::{Apart, here};
use crate::codes::EREAD;
use crate::wanted::Wanted;

/// How long a session that one node sees may take to be seen by another one, at most.
const SEEN_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks whether the other side is there, on ranks that only wait for what the first one finds: each look is several
/// questions to a file system that all nodes share.
const LOOK_RARELY: Duration = Duration::from_secs(1);
/// How often those that wait look whether the other side lives.
const LIVES_EVERY: Duration = Duration::from_millis(250);

/// A session that is offered.
pub struct Offered {
    /// Its number.
    pub session: u64,
    /// In the spool of the component that writes, or its image in that of this one.
    pub directory: PathBuf,
    /// This rank speaks for those of its node.
    pub is_first: bool,
    /// This component has launchers on several nodes.
    pub is_spread: bool,
}

/// What is known of a session when it is opened.
#[derive(Serialize, Deserialize)]
pub struct Begun {
    /// How many ranks write.
    pub ranks: usize,
    /// As in [`HandedOver`].
    parts: Vec<NodePart>,
    part: usize,
}

impl From<HandedOver> for Begun {
    fn from(HandedOver { ranks, parts, part, .. }: HandedOver) -> Self {
        Self { ranks, parts, part }
    }
}

/// Waits for the oldest session of the file `target` that the component `reader`, with the spool `own`, has not taken. `None` if
/// there is a file instead. With `is_root` what this rank finds counts; others only wait for that.
///
/// # Errors
/// `NotFound` if none comes: which, and why.
pub(crate) fn await_session(wanted: &Wanted, (reader, is_root): (&str, bool)) -> Result<Option<(u64, PathBuf)>> {
    let Wanted { target, spool: own, rule, .. } = wanted;
    let rule = &rule.transfer;
    let (begin, from) = (Instant::now(), rule.from());
    let (mut watch, mut looked, mut writer) = (Watch::new(), begin, Writer::of(rule, own)?);
    let taken = Taken::of(rule, reader, target);
    let rarely = Component::paced(LOOK_RARELY, Component::launchers(rule.rendezvous(), reader));
    loop {
        let is_due = is_root || looked.elapsed() > rarely;
        if is_due {
            (looked, writer) = (Instant::now(), Writer::of(rule, own)?);
        }
        // In this order: what was offered before the end is there.
        let Writer { met, presence, why } = &writer;
        let offers = Offers::of(met, target);
        watch.on(offers.directory());
        watch.on(&met.rendezvous().join(from));
        let was_seen = note_seen(from, *presence != Presence::Absent || why.is_some());
        let is_next = |(session, directory): &(u64, PathBuf)| {
            HandedOver::is_unread(directory, reader) && !(is_root && taken.has(*session, directory).unwrap_or(false))
        };
        let offered = offers.all().into_iter().find(is_next);
        let missing = |why: String| Err(Error::new(ErrorKind::NotFound, why).at(target.display().to_string()));
        // Sessions are discarded when the launcher of a reader is gone: the next that is there need not be the next one due.
        if is_due && Presence::of(rule.rendezvous(), reader) == Presence::Absent {
            return missing(launcher_gone(reader));
        }
        if offered.is_some() {
            return Ok(offered);
        }
        let (will_come, is_late) = (*presence == Presence::Running, begin.elapsed() > rule.timeout());
        // A file that is there before the writer has come may be of an earlier run.
        let is_over = !will_come && (was_seen || is_late);
        if is_over && rule.keep() != Keep::No && wanted.is_there() {
            return Ok(None);
        }
        if !will_come && was_seen {
            let why = why.as_ref().map_or_else(|| "has ended".to_owned(), |why| format!("is not reached ({why})"));
            return missing(format!("component '{from}' {why}, and there is no session of the file that was not read"));
        }
        if is_late {
            let state = if will_come { "runs and has not begun" } else { "was not started: it has not begun" };
            return missing(format!(
                "component '{from}' {state} a session of the file that was not read, for {} s (timeout)",
                rule.timeout().as_secs_f64()
            ));
        }
        watch.wait();
    }
}

fn launcher_gone(reader: &str) -> String {
    format!("the launcher of component '{reader}' is gone, and with it what the program was to read")
}

/// Waits until the session that the first rank has found is seen by this rank, too, which may be on another node. `session` and
/// `origin` are its number and what [`HandedOver::origin`] says. Returns its directory, and what is known of it.
///
/// # Errors
/// `NotFound` if it is not seen: why.
pub(crate) fn await_same(
    rule: &TransferRule,
    own: &SpoolPlace,
    target: &Path,
    reader: &str,
    (session, origin): (u64, &(String, String)),
) -> Result<(PathBuf, HandedOver)> {
    let (begin, mut watch) = (Instant::now(), Watch::new());
    loop {
        let Writer { met, why, .. } = Writer::of(rule, own)?;
        let offers = Offers::of(&met, target);
        watch.on(offers.directory());
        for (_, directory) in offers.all().into_iter().filter(|(number, _)| *number == session) {
            let is_same = |handed: &HandedOver| handed.origin(&directory).is_ok_and(|there| there == *origin);
            if let Some(handed) = HandedOver::find(&directory)?.filter(is_same) {
                return Ok((directory, handed));
            }
        }
        let missing = |why: String| Err(Error::new(ErrorKind::NotFound, why).at(target.display().to_string()));
        if Presence::of(rule.rendezvous(), reader) == Presence::Absent {
            return missing(launcher_gone(reader));
        }
        if begin.elapsed() > SEEN_WITHIN.min(rule.timeout()) {
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            return missing(format!("node '{}' does not see session {session}, which other nodes see{why}", own.node));
        }
        watch.wait();
    }
}

/// Whether the component was there at any time in the life of this process.
fn note_seen(component: &str, is_there: bool) -> bool {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if is_there {
        seen.insert(component.to_owned());
    }
    seen.contains(component)
}

/// Values of a session.
pub struct Incoming {
    /// As of [`Offered`].
    directory: PathBuf,
    /// If its values are on other nodes: where.
    apart: Option<Box<Apart>>,
    target: PathBuf,
    session: u64,
    rule: TransferRule,
    /// How many ranks write.
    ranks: usize,
    /// Those whose logs are in the directory.
    here: Vec<usize>,
    /// As of [`Offered`].
    is_first: bool,
    is_spread: bool,
    /// A directory in the spool of this component that goes when it has all it wants.
    kept: Option<PathBuf>,
    seen: Option<Seen>,
    /// Waiting has failed once: nobody waits again.
    is_lost: bool,
}

/// What the writer lets others see of a session.
pub(crate) struct Seen {
    /// What was put.
    pub(crate) puts: Arc<Gathered>,
    /// Records along the unlimited dimension.
    records: u64,
    /// Variables that have fill values where nothing was put: known when the writer has closed the file.
    pub(crate) filled: BTreeSet<c_int>,
    /// Number of the last collective call that is to be seen; `None` when the writer has closed the file.
    pub(crate) point: Option<u64>,
}

impl Incoming {
    /// Values of a session of which `begun` was known when it was opened.
    pub fn new(wanted: &Wanted, offered: &Offered, begun: &Begun) -> Self {
        let Offered { session, ref directory, is_first, is_spread } = *offered;
        let Begun { ranks, ref parts, part } = *begun;
        let (directory, target, rule) = (directory.clone(), wanted.target.clone(), wanted.rule.transfer.clone());
        let is_whole = parts.is_empty();
        let apart = (!is_whole).then(|| Box::new(Apart::of(parts.clone(), part, rule.in_flight(), wanted.spool)));
        let here = if is_whole {
            (0..ranks).collect()
        } else {
            parts.get(part).map(|part| part.ranks.clone()).unwrap_or_default()
        };
        let (kept, seen, is_lost) = (None, None, false);
        Self { directory, apart, target, session, rule, ranks, here, is_first, is_spread, kept, seen, is_lost }
    }

    /// The session needs a directory in the spool of this component as long as it is open here.
    pub(crate) fn keep(&mut self, directory: PathBuf) {
        self.kept = Some(directory);
    }

    /// What is to be seen: more than at the point `known`, or all of it. `wanted` says what is waited for.
    ///
    /// # Errors
    /// `NC_EREAD` if that does not come about; the launcher is told why.
    pub(crate) fn beyond(
        &mut self,
        known: Option<u64>,
        wanted: impl FnOnce() -> String,
    ) -> std::result::Result<&Seen, c_int> {
        let is_newest = |seen: &Seen| {
            let is_more =
                || Published::read(&self.directory).ok().flatten().is_some_and(|at| Some(at.order) > seen.point);
            seen.point.is_none() || seen.point > known && !HandedOver::is_closed(&self.directory) && !is_more()
        };
        if !self.is_lost && !self.seen.as_ref().is_some_and(is_newest) {
            match self.await_more(known) {
                Ok(seen) => self.seen = Some(seen),
                Err(error) => {
                    self.is_lost = true;
                    self.tell(&format!("{}: {error}", wanted()));
                }
            }
        }
        self.seen.as_ref().filter(|_| !self.is_lost).ok_or(EREAD)
    }

    /// Waits for all that the ranks of the writer put. `None` if one of these ranks does not get to it; the launcher was told
    /// why. Collective.
    pub fn await_whole(&mut self, comm: &dyn Comm) -> Option<Arc<Gathered>> {
        let puts = self.beyond(Some(u64::MAX), || "its values".to_owned()).map(|seen| Arc::clone(&seen.puts));
        agree(comm, puts.map_err(|_| Error::new(ErrorKind::Read, "its values do not come"))).ok()
    }

    /// The number of records, and whether it may yet grow.
    ///
    /// # Errors
    /// As for [`Incoming::beyond`].
    pub(crate) fn records(&mut self) -> std::result::Result<(u64, bool), c_int> {
        let is_closed = self.seen.as_ref().is_some_and(|seen| seen.point.is_none());
        if self.rule.publish() != Publish::Close && !is_closed && !HandedOver::is_closed(&self.directory) {
            let published = Published::read(&self.directory).ok().flatten();
            // With DTF nothing is read before the writer's first transfer.
            if published.is_some() || self.rule.publish() != Publish::Transfer {
                return Ok((published.map_or(0, |published| published.records), true));
            }
            let seen = self.beyond(None, || "the number of records".to_owned())?;
            return Ok((seen.records, seen.point.is_some()));
        }
        self.beyond(Some(u64::MAX), || "the number of records".to_owned()).map(|seen| (seen.records, false))
    }

    /// Waits until more is to be seen than at the point `known`.
    fn await_more(&self, known: Option<u64>) -> Result<Seen> {
        let (begin, from) = (Instant::now(), self.rule.from());
        let (mut watch, mut looked) = (Watch::new(), None::<Instant>);
        loop {
            watch.on(&self.directory);
            if HandedOver::is_closed(&self.directory) {
                return self.whole();
            }
            if self.rule.publish() != Publish::Close
                && let Some(published) = Published::read(&self.directory)?.filter(|found| Some(found.order) > known)
            {
                let Published { order, records } = published;
                let puts = self.gathered(order, self.ranks)?;
                return Ok(Seen { puts, records, filled: BTreeSet::new(), point: Some(order) });
            }
            if looked.is_none_or(|looked| looked.elapsed() > LIVES_EVERY) {
                // A rank that has closed the file does not hold its log, either.
                if let Some(why) = self.gone().filter(|_| !HandedOver::is_closed(&self.directory)) {
                    return Err(Error::new(ErrorKind::Read, why));
                }
                looked = Some(Instant::now());
            }
            if begin.elapsed() > self.rule.timeout() {
                let waited = self.rule.timeout().as_secs_f64();
                let what = format!("component '{from}' runs and has not closed the file for {waited} s (timeout)");
                return Err(Error::new(ErrorKind::Read, what));
            }
            watch.wait();
        }
    }

    /// Why nothing more comes, if that is so.
    fn gone(&self) -> Option<String> {
        if let Some(why) = Gone::why(&self.directory) {
            return Some(why);
        }
        let is_held = |rank: usize| PutLog::is_held(&self.directory.join(HandedOver::log(rank)));
        let who = match self.here.iter().find(|rank| !is_held(**rank)) {
            Some(rank) => format!("rank {rank}"),
            // An image goes with the launcher of the writer.
            None if !self.directory.exists() => "a rank".to_owned(),
            None => return None,
        };
        Some(format!("{who} of component '{}' has ended before it had closed the file", self.rule.from()))
    }

    /// All of it, when the writer has closed the file.
    fn whole(&self) -> Result<Seen> {
        let handed = HandedOver::read(&self.directory)?;
        let handed = handed.ok_or_else(|| Error::new(ErrorKind::Read, "its values are gone"))?;
        let puts = self.gathered(u64::MAX, handed.ranks)?;
        let filled = handed.filled.into_iter().collect();
        Ok(Seen { puts, records: handed.records.unwrap_or(0), filled, point: None })
    }

    /// The puts of so many ranks up to number `last`. If the rule says so, what was found out about those of the session before
    /// is used for equal ones.
    fn gathered(&self, last: u64, ranks: usize) -> Result<Arc<Gathered>> {
        static KNOWN: Mutex<BTreeMap<(PathBuf, u64), Arc<Pattern>>> = Mutex::new(BTreeMap::new());
        let held = self.held(ranks);
        if !self.rule.replay() {
            return Gathered::of(last, held).map(Arc::new);
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (self.target.clone(), last);
        let gathered = Gathered::replaying(last, held, known.get(&key).cloned())?;
        // Of each file that of complete sessions, and that of one point before.
        known.retain(|(target, point), _| *target != self.target || *point == last || *point == u64::MAX);
        known.insert(key, gathered.pattern());
        Ok(Arc::new(gathered))
    }

    /// Where the values and logs of so many ranks are.
    fn held(&self, ranks: usize) -> Vec<Held> {
        match &self.apart {
            Some(apart) => apart.held(ranks).collect(),
            None => (0..ranks).map(|rank| here(&self.directory, rank)).collect(),
        }
    }

    /// Tells the launcher what did not come.
    pub fn tell(&self, what: &str) {
        let why = format!("session {} from component '{}': {what}", self.session, self.rule.from());
        if let Some(run) = run() {
            run.tell(Event::Missed { path: self.target.clone(), why });
        }
    }

    /// This component has all it wants when all of these ranks say so. Collective.
    pub fn end_together(&self, comm: &dyn Comm) {
        let mut together = barrier(comm);
        if self.is_spread {
            // Launchers of other nodes hear of it later.
            let reader = run().and_then(|run| run.rules().component.as_deref()).filter(|_| comm.rank() == 0);
            let taken = reader.map(|reader| Taken::of(&self.rule, reader, &self.target));
            if let Some(Err(error)) = taken.map(|taken| taken.note(self.session, &self.directory)) {
                self.tell(&format!("cannot say on other nodes that it was read: {error}"));
            }
            together = together.and_then(|()| barrier(comm));
        }
        if together.is_ok() {
            self.end();
        }
        // All know it before one opens the next session.
        let _ = barrier(comm);
    }

    /// This component has all it wants. On all ranks: one of each node says so.
    pub fn end(&self) {
        self.kept.iter().for_each(|directory| HandedOver::discard(directory));
        let Some(run) = run().filter(|_| self.is_first) else { return };
        if let Some(reader) = &run.rules().component
            && let Err(error) = HandedOver::note(&self.directory, reader, Reading::Done)
            && self.directory.exists()
        {
            self.tell(&format!("cannot say that it was read: {error}"));
        }
        if !self.is_lost {
            let (from, session) = (self.rule.from().to_owned(), self.session);
            run.tell(Event::Received { path: self.target.clone(), from, session });
        }
    }
}

/// The program has closed the file, in this process: what came of variables with a bound is told.
impl Drop for Incoming {
    fn drop(&mut self) {
        let (Some(apart), Some(run)) = (&self.apart, run()) else { return };
        for (within, Crossed { raw, sent, worst }) in apart.take_crossed() {
            let (variable, bound) = (within.variable.clone(), within.quality.clone());
            let errors = [worst.max_abs.to_bits(), worst.max_rel.to_bits()];
            let (path, changed) = (self.target.clone(), worst.changed);
            run.tell(Event::Flown { path, variable, bound, raw, sent, errors, changed });
        }
    }
}

/// A region in words, for messages.
pub(crate) fn shown(region: Option<(&[u64], &[u64])>) -> String {
    region.map_or_else(String::new, |(start, count)| format!("from element {start:?}, {count:?} elements"))
}
