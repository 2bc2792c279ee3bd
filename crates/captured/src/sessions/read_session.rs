//! A session of a file that another component writes and this program has open: waits for its values and reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::comm::{Comm, agree, all_gather, barrier, read, share, written};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::meeting::{ComponentStatus, SessionLock, Watch};
use knarr_capture::program::run;
use knarr_capture::{Event, HandedOver, NodePart, Point, Published, Reading, SpoolPlace, Took};
use knarr_config::{Publish, TransferRule};
use knarr_handover::{AssembledPuts, Crossed, Pattern, RankValues};

use serde::{Deserialize, Serialize};

use super::awaiting::{LIVES_EVERY, gone, note_read, over};
use super::opened::note_opened;
use crate::parts::{MultiNodeFile, here};
use crate::pending::notify;
use crate::wanted::Wanted;

/// This program calls DTF: what it sees of a session depends on how often both sides have called `dtf_transfer`.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// From now on this program sees of sessions what the writer had put when it called `dtf_transfer` as often.
pub fn count_transfers() {
    COUNTS.store(true, Ordering::Relaxed);
}

/// What was put into a session cannot be had; the launcher was told why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unread;

/// A session that is open here.
pub struct OpenSession {
    /// Its number.
    pub session: u64,
    /// The spool in which it is, by its token.
    pub token: String,
    /// In the spool of the component that writes, or its image in that of this one.
    pub directory: PathBuf,
    /// On the first rank: what this component has open.
    pub session_lock: Option<SessionLock>,
    /// This rank speaks for those of its node.
    pub is_first: bool,
    /// This component has launchers on several nodes.
    pub is_spread: bool,
    /// How long it was waited for.
    pub waited: Duration,
    /// What is known of it.
    pub begun: SessionStart,
}

/// What is known of a session when it is opened.
#[derive(Serialize, Deserialize)]
pub struct SessionStart {
    /// How many ranks write.
    pub ranks: usize,
    /// As in [`HandedOver`].
    parts: Vec<NodePart>,
    part: usize,
    /// When the writer has closed it, if it has.
    closed_ms: Option<u64>,
}

impl From<HandedOver> for SessionStart {
    fn from(HandedOver { ranks, parts, part, closed_ms, .. }: HandedOver) -> Self {
        Self { ranks, parts, part, closed_ms }
    }
}

/// Values of a session.
pub struct ReadSession {
    /// As of [`OpenSession`].
    directory: PathBuf,
    token: String,
    session_lock: Option<SessionLock>,
    is_first: bool,
    is_spread: bool,
    /// If its values are on other nodes: where.
    multi_node: Option<Box<MultiNodeFile>>,
    /// That of this component, in which its launcher says how the other one is.
    spool: &'static SpoolPlace,
    target: PathBuf,
    session: u64,
    rule: TransferRule,
    begun: SessionStart,
    /// A directory in the spool of this component that goes when it has all it wants.
    kept: Option<PathBuf>,
    seen: Option<Seen>,
    /// How often this program has called `dtf_transfer`, if it uses DTF: it sees what was put when the writer has called that as
    /// often, and once more.
    transfers: Option<usize>,
    /// Waiting has failed once: nobody waits again.
    is_lost: bool,
    /// Why this rank could not read what it asked for.
    failed: OnceLock<String>,
    /// How long it was waited for.
    waited: Duration,
    /// Bytes that this rank has got, and how long that took in microseconds.
    bytes: AtomicU64,
    got_us: AtomicU64,
}

/// What the writer lets others see of a session.
pub struct Seen {
    /// What was put.
    pub puts: Arc<AssembledPuts>,
    /// Records along the unlimited dimension.
    records: u64,
    /// Variables that have fill values where nothing was put: known when the writer has closed the file.
    pub filled: BTreeSet<c_int>,
    /// Number of the last collective call that is to be seen; `None` when the writer has closed the file.
    pub point: Option<u64>,
}

impl ReadSession {
    /// Values of a session.
    pub fn new(wanted: &Wanted, opened: OpenSession) -> Self {
        let OpenSession { session, token, directory, session_lock, is_first, is_spread, waited, begun } = opened;
        let (target, rule) = (wanted.target.clone(), wanted.rule.transfer().clone());
        let of = |parts: &Vec<NodePart>| MultiNodeFile::of(parts.clone(), begun.part, rule.in_flight(), wanted.spool);
        let multi_node = Some(&begun.parts).filter(|parts| !parts.is_empty()).map(|parts| Box::new(of(parts)));
        note_opened(&target, session, begun.closed_ms);
        let counts = rule.publish() == Publish::Transfer && COUNTS.load(Ordering::Relaxed);
        Self {
            directory,
            token,
            session_lock,
            is_first,
            is_spread,
            multi_node,
            spool: wanted.spool,
            target,
            session,
            rule,
            begun,
            kept: None,
            seen: None,
            transfers: counts.then_some(0),
            is_lost: false,
            failed: OnceLock::new(),
            waited,
            bytes: AtomicU64::new(0),
            got_us: AtomicU64::new(0),
        }
    }

    /// Where the session is, as this node sees it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// This rank has got so many bytes, in so long.
    pub fn got(&self, bytes: u64, time: Duration) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.got_us.fetch_add(micros(time), Ordering::Relaxed);
    }

    /// Its number.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// What was put, as far as it was waited for.
    pub fn puts(&self) -> Option<&Arc<AssembledPuts>> {
        self.seen.as_ref().map(|seen| &seen.puts)
    }

    /// The session needs a directory in the spool of this component as long as it is open here.
    pub fn keep(&mut self, directory: PathBuf) {
        self.kept = Some(directory);
    }

    /// True if this component has launchers on several nodes.
    pub fn is_spread(&self) -> bool {
        self.is_spread
    }

    /// What is to be seen: more than at the point `known`, or all of it. `wanted` says what is waited for.
    ///
    /// # Errors
    /// [`Unread`] if that does not come about; the launcher is told why.
    pub fn beyond(
        &mut self,
        known: Option<u64>,
        wanted: impl FnOnce() -> String,
    ) -> std::result::Result<&Seen, Unread> {
        let is_newest = |seen: &Seen| match (seen.point, self.transfers) {
            (None, _) => true,
            // Later points are those of later calls.
            (point, Some(_)) => point > known,
            (point, None) => {
                let is_more = || Published::read(&self.directory).ok().flatten().map(|at| at.newest.order) > point;
                point > known && !HandedOver::is_closed(&self.directory) && !is_more()
            }
        };
        if !self.is_lost && !self.seen.as_ref().is_some_and(is_newest) {
            let wanted = wanted();
            match self.await_more(known, &wanted) {
                Ok(seen) => self.seen = Some(seen),
                Err(error) => {
                    self.is_lost = true;
                    self.failed(&format!("{wanted}: {error}"));
                }
            }
        }
        self.seen.as_ref().filter(|_| !self.is_lost).ok_or(Unread)
    }

    /// Waits for all that the ranks of the writer put. `None` if one of these ranks does not get to it; the launcher was told
    /// why. Collective.
    pub fn await_whole(&mut self, comm: &dyn Comm) -> Option<Arc<AssembledPuts>> {
        let puts = self.beyond(Some(u64::MAX), || "its values".to_owned()).map(|seen| Arc::clone(&seen.puts));
        agree(comm, puts.map_err(|_| Error::new(ErrorKind::Read, "its values do not come"))).ok()
    }

    /// The number of records, and whether it may yet grow.
    ///
    /// # Errors
    /// As for [`ReadSession::beyond`].
    pub fn records(&mut self) -> std::result::Result<(u64, bool), Unread> {
        let what = || "the number of records".to_owned();
        let is_closed = self.seen.as_ref().is_some_and(|seen| seen.point.is_none());
        match self.rule.publish() {
            // With DTF nothing is read before the writer's first transfer. What comes after one that this program has made may wait
            // for it, so its records count until more is read.
            Publish::Transfer if !is_closed => {
                if let (None, Some(point)) = (&self.seen, self.transferred_point()?) {
                    return Ok((point.records, true));
                }
                let seen = self.beyond(None, what)?;
                Ok((seen.records, seen.point.is_some()))
            }
            Publish::Sync | Publish::Wait if !is_closed && !HandedOver::is_closed(&self.directory) => {
                let published = Published::read(&self.directory).ok().flatten();
                Ok((published.map_or(0, |published| published.newest.records), true))
            }
            _ => self.beyond(Some(u64::MAX), what).map(|seen| (seen.records, false)),
        }
    }

    /// What this program could see until it called `dtf_transfer` last; `None` if it has not called it.
    fn transferred_point(&self) -> std::result::Result<Option<Point>, Unread> {
        let Some(last) = self.transfers.and_then(|count| count.checked_sub(1)) else { return Ok(None) };
        let published = Published::read(&self.directory).map_err(|_| Unread)?;
        Ok(published.and_then(|published| published.transfers.get(last).copied()))
    }

    /// The program has called `dtf_transfer`, or `dtf_complete_multiple`, on all ranks: it has what it asked for until now, and sees
    /// what comes next. Collective.
    ///
    /// # Errors
    /// [`Unread`] if the ranks do not come together.
    pub fn transferred(&mut self, comm: &dyn Comm, completes: bool) -> std::result::Result<(), Unread> {
        let Some(count) = self.transfers else { return Ok(()) };
        barrier(comm).map_err(|_| Unread)?;
        let published = Published::read(&self.directory).ok().flatten();
        let stays = published.and_then(|published| published.transfers.get(count).map(|point| point.stays));
        if stays == Some(true) && !completes || stays != Some(true) && completes {
            return Ok(());
        }
        let count = count + 1;
        (self.transfers, self.seen) = (Some(count), self.seen.take().filter(|seen| seen.point.is_none()));
        if self.is_first
            && let Some(reader) = reader()
            && let Err(error) = HandedOver::note_transferred(&self.directory, reader, count as u64)
            && self.directory.exists()
        {
            self.notify(&format!("cannot say that it was transferred: {error}"));
        }
        Ok(())
    }

    /// The first point that this program may see, beyond the point `known`.
    fn point(&self, known: Option<u64>) -> Result<Option<Point>> {
        if self.rule.publish() == Publish::Close {
            return Ok(None);
        }
        let Some(Published { newest, transfers }) = Published::read(&self.directory)? else { return Ok(None) };
        let is_new = |point: &Point| Some(point.order) > known;
        Ok(match self.transfers {
            Some(count) => transfers.into_iter().skip(count).find(is_new),
            None => Some(newest).filter(|newest| is_new(newest) && !HandedOver::is_closed(&self.directory)),
        })
    }

    /// Waits until more is to be seen than at the point `known`; `wanted` says what for.
    fn await_more(&self, known: Option<u64>, wanted: &str) -> Result<Seen> {
        let begin = Instant::now();
        let (mut watch, mut looked, mut has_told) = (Watch::new(), None::<Instant>, false);
        loop {
            watch.on(&self.directory);
            // In this order: what was published before the file was closed, or the writer has ended, is there.
            let status = ComponentStatus::read(&self.spool.directory, self.rule.rendezvous(), self.rule.from());
            let is_closed = HandedOver::is_closed(&self.directory);
            if let Some(Point { order, records, .. }) = self.point(known)? {
                let puts = self.gathered(order, self.begun.ranks)?;
                return Ok(Seen { puts, records, filled: BTreeSet::new(), point: Some(order) });
            }
            if is_closed {
                return self.whole();
            }
            let status = status?;
            if status.is_over(self.rule.timeout()) || looked.is_none_or(|looked| looked.elapsed() > LIVES_EVERY) {
                let over = || status.is_over(self.rule.timeout()).then(|| over(&status, &self.rule));
                // A rank that has closed the file does not hold its log, either.
                if let Some(why) = self.gone().or_else(over).filter(|_| !HandedOver::is_closed(&self.directory)) {
                    return Err(Error::new(ErrorKind::Read, why));
                }
                looked = Some(Instant::now());
            }
            if !has_told && begin.elapsed() > self.rule.timeout() {
                has_told = true;
                let what = format!("component '{}' runs and has not closed the file: {wanted}", self.rule.from());
                notify(Event::Awaits { path: self.target.clone(), what, seconds: begin.elapsed().as_secs() });
            }
            watch.wait();
        }
    }

    /// Why nothing more comes, if that is so.
    fn gone(&self) -> Option<String> {
        let found = HandedOver::find(&self.directory).ok().flatten();
        match found {
            Some(handed) => gone(&self.directory, &handed),
            None => Some(format!("a rank of component '{}' has ended before it had closed the file", self.rule.from())),
        }
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
    fn gathered(&self, last: u64, ranks: usize) -> Result<Arc<AssembledPuts>> {
        static KNOWN: Mutex<BTreeMap<(PathBuf, u64), Arc<Pattern>>> = Mutex::new(BTreeMap::new());
        let held = self.rank_values(ranks);
        if !self.rule.replay() {
            return AssembledPuts::of(last, held).map(Arc::new);
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (self.target.clone(), last);
        let gathered = AssembledPuts::replaying(last, held, known.get(&key).cloned())?;
        // Of each file that of complete sessions, and that of one point before.
        known.retain(|(target, point), _| *target != self.target || *point == last || *point == u64::MAX);
        known.insert(key, gathered.pattern());
        Ok(Arc::new(gathered))
    }

    /// Where the values and logs of so many ranks are.
    fn rank_values(&self, ranks: usize) -> Vec<RankValues> {
        match &self.multi_node {
            Some(multi_node) => multi_node.rank_values(ranks).collect(),
            None => (0..ranks).map(|rank| here(&self.directory, rank)).collect(),
        }
    }

    /// Tells the launcher what did not come.
    pub fn notify(&self, what: &str) {
        let why = format!("session {} from component '{}': {what}", self.session, self.rule.from());
        notify(Event::Missed { path: self.target.clone(), why });
    }

    /// The same of what the program has asked for and the session has: it does not go to this component whole.
    pub fn failed(&self, what: &str) {
        self.notify(what);
        let _ = self.failed.set(what.to_owned());
    }

    /// This program has all it wants when all of its ranks say so. If no other one of the component has the session open, it ends
    /// for the component. Collective.
    pub fn end_together(&mut self, comm: &dyn Comm) {
        note_read(&self.target, &self.token, self.session);
        let ended = self.end(comm);
        if let Err(error) = ended {
            self.notify(&format!("cannot say that it was read: {error}"));
        }
        // All know it before one opens the next session.
        let _ = barrier(comm);
        // Nor does a rank open the header any more, which may be slower than one that has closed it already.
        self.kept.take().iter().for_each(|directory| HandedOver::discard(directory));
    }

    /// Collective.
    fn end(&mut self, comm: &dyn Comm) -> Result<()> {
        let [bytes, got_us] = [&self.bytes, &self.got_us].map(|number| number.load(Ordering::Relaxed));
        let all = all_gather(comm, &written(&(self.failed.get(), bytes, got_us))?)?;
        let (mut failed, mut took) = (None, Took { waited_us: micros(self.waited), ..Took::default() });
        for other in &all {
            let (why, bytes, got_us) = read::<(Option<String>, u64, u64)>(other)?;
            failed = failed.or(why);
            (took.bytes, took.got_us) = (took.bytes + bytes, took.got_us.max(got_us));
        }
        let is_last = share(comm, &self.session_lock.take().map_or(Ok(false), SessionLock::end))??;
        let Some(reader) = reader().filter(|_| self.is_first) else { return Ok(()) };
        let noted = match &failed {
            Some(why) => HandedOver::note_failed(&self.directory, reader, why),
            None => Ok(()),
        };
        let noted = noted.and_then(|()| match is_last {
            true => HandedOver::note(&self.directory, reader, Reading::Done),
            false => Ok(()),
        });
        if failed.is_none() {
            let (from, session, closed_ms) = (self.rule.from().to_owned(), self.session, self.begun.closed_ms);
            notify(Event::Received { path: self.target.clone(), from, session, closed_ms, took });
        }
        // What has gone wants no notes.
        noted.or_else(|error| if self.directory.exists() { Err(error) } else { Ok(()) })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The component of this process.
fn reader() -> Option<&'static str> {
    run().and_then(|run| run.rules().component.as_deref())
}

/// The program has closed the file, in this process: what came of variables with a bound is told.
impl Drop for ReadSession {
    fn drop(&mut self) {
        let (Some(multi_node), Some(run)) = (&self.multi_node, run()) else { return };
        for (within, Crossed { raw, sent, worst }) in multi_node.take_crossed() {
            let (variable, bound) = (within.variable.clone(), within.quality.clone());
            let errors = [worst.max_abs.to_bits(), worst.max_rel.to_bits()];
            let (path, changed) = (self.target.clone(), worst.changed);
            run.notify(Event::LossyTransfer { path, variable, bound, raw, sent, errors, changed });
        }
    }
}

/// A region in words, for messages.
pub fn region_text(region: Option<(&[u64], &[u64])>) -> String {
    region.map_or_else(String::new, |(start, count)| format!("from element {start:?}, {count:?} elements"))
}
