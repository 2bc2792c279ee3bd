//! Waiting for a session of a file that another component writes. Programs look into the spool of their node only, where their
//! launcher shows what there is: many may wait, and a file system that all nodes share would have to answer each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::meeting::{
    ComponentStatus, Gone, Made, Presence, PublishedSessions, SessionLock, SessionsRead, Watch, image_of,
};
use knarr_capture::{Event, HandedOver, SpoolPlace};
use knarr_config::{Publish, TransferRule};
use knarr_handover::PutLog;

use crate::wanted::Wanted;

/// How long a session that one node sees may take to be seen by another one, at most.
const SEEN_WITHIN: Duration = Duration::from_secs(10);
/// How often those that wait look whether the ranks of the other side live.
pub(crate) const LIVES_EVERY: Duration = Duration::from_millis(250);

/// What there is of a file for a component that reads it.
pub(crate) enum Next {
    /// A session that is open here from now on.
    Session { session: u64, directory: PathBuf, handed: Box<HandedOver>, session_lock: SessionLock },
    /// A file instead; if that is known, what of.
    File(Option<Made>),
}

/// A program of a component, and the sessions of a file that it has taken.
pub(crate) struct Reader<'w> {
    pub wanted: &'w Wanted,
    pub name: &'w str,
    pub taken: SessionsRead,
}

/// The last session that this process has closed, of each file and each spool that had some: it gets none of these again.
static CLOSED: Mutex<BTreeMap<(PathBuf, String), u64>> = Mutex::new(BTreeMap::new());

/// This process has closed a session of a file, of the spool with this token.
pub(crate) fn note_closed(target: &Path, token: &str, session: u64) {
    let mut closed = CLOSED.lock().unwrap_or_else(PoisonError::into_inner);
    let last = closed.entry((target.to_owned(), token.to_owned())).or_default();
    *last = session.max(*last);
}

/// Sessions that this process has asked for as files: the last one of each file.
static ASKED: Mutex<BTreeMap<PathBuf, (String, u64)>> = Mutex::new(BTreeMap::new());

/// This process has asked for a session as a file.
pub(crate) fn note_asked(target: &Path, token: &str, session: u64) {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner).insert(target.to_owned(), (token.to_owned(), session));
}

fn has_asked(target: &Path, made: &Made) -> bool {
    let asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    asked.get(target).is_some_and(|(token, session)| *token == made.token && *session >= made.session)
}

fn has_closed(target: &Path, token: &str, session: u64) -> bool {
    let closed = CLOSED.lock().unwrap_or_else(PoisonError::into_inner);
    closed.get(&(target.to_owned(), token.to_owned())).is_some_and(|last| session <= *last)
}

/// Files of which this process has read a session. It does not get what was made of that for a later one.
static READ: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// This process has read a session of a file, and has closed it.
pub(crate) fn note_read(target: &Path, token: &str, session: u64) {
    note_closed(target, token, session);
    READ.lock().unwrap_or_else(PoisonError::into_inner).insert(target.to_owned());
}

fn has_read(target: &Path) -> bool {
    READ.lock().unwrap_or_else(PoisonError::into_inner).contains(target)
}

/// Where the component of this process notes what it has taken of a file: in the spool, or where all its nodes see it if it is
/// `is_spread` over several.
fn taken_by(wanted: &Wanted, reader: &str, is_spread: bool) -> SessionsRead {
    let rendezvous = wanted.rule.transfer().rendezvous();
    let image = image_of(&wanted.spool.directory, rendezvous);
    SessionsRead::of(if is_spread { rendezvous } else { &image }, reader, &wanted.target)
}

/// Said of a file that is there under the name for which a reader waits: what its writer may have done, and what helps.
const NONE_OF_ITS_SESSIONS: &str = "; the file of this name on the disk is none: what netCDF-C or SciPy write in a classic \
                                    format by themselves is not transferred and needs no rule";

/// Waits for the oldest session of a file that the component `reader` has not taken, or for what is there in its place, and
/// begins to take it.
///
/// # Errors
/// `NotFound` if nothing comes: which, and why.
pub(crate) fn await_next(wanted: &Wanted, reader: &str, is_spread: bool) -> Result<Next> {
    let reader = Reader::of(wanted, reader, is_spread);
    let mut told = None;
    let begin = Instant::now();
    let mut watch = Watch::new();
    loop {
        // In this order: what was offered before the end is there.
        let status = reader.status(&mut watch);
        if let Some(next) = reader.next()? {
            return Ok(next);
        }
        let (status, rule) = (status?, wanted.rule.transfer());
        if status.is_over(rule.timeout()) {
            // A file that is there before the writer has come may be of an earlier run. One that is there behind the end of its
            // launcher may be half written: the program goes on.
            if has_read(&wanted.target) && wanted.is_there() {
                return Err(reader.missed_beside_file(&status));
            }
            if !rule.may_make_files() || !wanted.is_there() || status.was_killed {
                return Err(reader.missed(&status));
            }
            if !status.was_seen {
                let what =
                    format!("{}; the file on the disk is read, which may be of an earlier run", over(&status, rule));
                let seconds = begin.elapsed().as_secs();
                wanted.run.notify(Event::Awaits { path: wanted.target.clone(), what, seconds });
            }
            return Ok(Next::File(None));
        }
        if !wanted.run.is_alive() {
            let what = format!(
                "the launcher of component '{}' is gone, and with it what the program was to read",
                reader.name
            );
            return Err(Error::new(ErrorKind::NotFound, what).at(wanted.target.display().to_string()));
        }
        if told.is_none() && begin.elapsed() > rule.timeout() {
            told = Some(());
            let mut what = format!("component '{}' runs and has not closed a session that was not read", rule.from());
            if wanted.is_there() {
                what.push_str(NONE_OF_ITS_SESSIONS);
            }
            wanted.run.notify(Event::Awaits { path: wanted.target.clone(), what, seconds: begin.elapsed().as_secs() });
        }
        watch.wait();
    }
}

/// Waits, asleep, until there is something for a component, or will not be: for ranks that are then told by the first one what
/// it is. In MPI they would keep their cores busy.
pub(crate) fn await_any(wanted: &Wanted, reader: &str) {
    let reader = Reader::of(wanted, reader, false);
    let rule = wanted.rule.transfer();
    let mut watch = Watch::new();
    while let Ok(status) = reader.status(&mut watch) {
        let is_there = || reader.published().iter().any(|(_, directory)| is_ready(rule, directory));
        let is_made = || {
            reader.new_file().is_ok_and(|made| made.is_some())
                || reader.file().is_ok_and(|made| made.is_some_and(|made| !reader.is_had(&made)))
        };
        if is_there() || is_made() || status.is_over(rule.timeout()) || !wanted.run.is_alive() {
            return;
        }
        watch.wait();
    }
}

/// True if the session in a directory may be opened: its definitions are complete, and those that count if it is read when it is
/// closed.
fn is_ready(rule: &TransferRule, directory: &Path) -> bool {
    rule.publish() != Publish::Close || HandedOver::is_closed(directory)
}

impl<'w> Reader<'w> {
    pub(crate) fn of(wanted: &'w Wanted, name: &'w str, is_spread: bool) -> Self {
        Self { wanted, name, taken: taken_by(wanted, name, is_spread) }
    }

    pub(crate) fn sessions(&self) -> PublishedSessions {
        PublishedSessions::of(&self.wanted.spool.directory, self.wanted.rule.transfer(), &self.wanted.target)
    }

    /// What is known of the component that writes.
    pub(crate) fn status(&self, watch: &mut Watch) -> Result<ComponentStatus> {
        let (spool, rule) = (&self.wanted.spool.directory, self.wanted.rule.transfer());
        let status = || ComponentStatus::read(spool, rule.rendezvous(), rule.from());
        watch.on(self.sessions().directory());
        // They are there before they are closed.
        self.published().iter().for_each(|(_, directory)| watch.on(directory));
        watch.on(&ComponentStatus::directory(spool, rule.rendezvous(), rule.from()));
        status().map_err(|error| {
            Error::new(ErrorKind::NotFound, error.message()).at(self.wanted.target.display().to_string())
        })
    }

    /// Sessions that are offered and that the component has not taken, oldest first.
    pub(crate) fn published(&self) -> Vec<(u64, PathBuf)> {
        let mut all = self.sessions().all();
        all.retain(|(_, directory)| HandedOver::is_unread(directory, self.name));
        all
    }

    /// What is there now.
    fn next(&self) -> Result<Option<Next>> {
        let target = &self.wanted.target;
        // A file is opened by as many programs as there are, until they remove it.
        if let Some(made) = self.file()?.filter(|made| !self.is_had(made)) {
            return Ok(Some(Next::File(Some(made))));
        }
        for (session, directory) in self.published() {
            // It goes as soon as it was taken.
            let Ok(Some(handed)) = HandedOver::find(&directory) else { continue };
            let Ok((token, _)) = handed.origin(&directory) else { continue };
            if has_closed(target, &token, session) || self.taken.has(&token, session)? {
                continue;
            }
            // An older one may have become a file meanwhile.
            if let Some(made) = self.made(Some((&token, session)))? {
                return Ok(Some(Next::File(Some(made))));
            }
            if !is_ready(self.wanted.rule.transfer(), &directory) {
                // Sessions follow each other.
                return match gone(&directory, &handed) {
                    Some(why) if !HandedOver::is_closed(&directory) => {
                        note_closed(target, &token, session);
                        // One program of the component hears of it; the others wait for the next one.
                        if !self.taken.note(&token, session)? {
                            continue;
                        }
                        let what =
                            format!("session {session} from component '{}': {why}", handed.rule.transfer().from());
                        Err(Error::new(ErrorKind::NotFound, what).at(target.display().to_string()))
                    }
                    _ => Ok(None),
                };
            }
            if let Some((session_lock, handed)) = self.begin(&directory, &token, session)? {
                let handed = Box::new(handed);
                return Ok(Some(Next::Session { session, directory, handed, session_lock }));
            }
        }
        Ok(self.made(None)?.map(|made| Next::File(Some(made))))
    }

    /// Begins to take the session in a directory. `None` if it is gone.
    ///
    /// # Errors
    /// `Write`, `Read`, `Corrupt`.
    pub(crate) fn begin(
        &self,
        directory: &Path,
        token: &str,
        session: u64,
    ) -> Result<Option<(SessionLock, HandedOver)>> {
        let Some(session_lock) = SessionLock::begin(self.taken.clone(), token, session)? else { return Ok(None) };
        match HandedOver::note_begun(directory, self.name, &self.wanted.spool.token) {
            Err(error) if directory.exists() => return Err(error),
            Err(_) => return Ok(None),
            Ok(()) => {}
        }
        // Whoever takes it back looks for this note afterwards.
        if !HandedOver::is_unread(directory, self.name) {
            return Ok(None);
        }
        Ok(HandedOver::find(directory)?.map(|handed| (session_lock, handed)))
    }

    /// The session that is older than `than`, or any, of which a file was made for this component: now it has it.
    fn made(&self, than: Option<(&str, u64)>) -> Result<Option<Made>> {
        let is_older = |made: &Made| than.is_none_or(|(token, session)| made.token == token && made.session < session);
        let Some(made) = self.new_file()?.filter(is_older) else { return Ok(None) };
        let is_first = self.taken.note(&made.token, made.session)?;
        note_closed(&self.wanted.target, &made.token, made.session);
        self.sessions().take_made(&made)?;
        Ok(Some(made).filter(|_| is_first))
    }

    /// The session of which a file was made for this component, unless this process knows it.
    fn new_file(&self) -> Result<Option<Made>> {
        let is_new = |made: &Made| !made.is_wanted && !has_closed(&self.wanted.target, &made.token, made.session);
        Ok(self.sessions().made()?.filter(is_new))
    }

    /// The session that the component has asked for as a file, if that is there.
    pub(crate) fn file(&self) -> Result<Option<Made>> {
        Ok(self.sessions().made()?.filter(|made| made.is_wanted && self.wanted.is_there()))
    }

    /// True if this process has asked for a file of this session, has opened it with a library and closed it. Others may open it
    /// more than once for the same work, as ncdump does.
    pub(crate) fn is_had(&self, made: &Made) -> bool {
        let is_open = |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|path| path == self.wanted.target);
        has_closed(&self.wanted.target, &made.token, made.session)
            && has_asked(&self.wanted.target, made)
            && !fs::read_dir("/proc/self/fd").into_iter().flatten().flatten().any(is_open)
    }

    /// Why nothing comes.
    pub(crate) fn missed(&self, status: &ComponentStatus) -> Error {
        self.missing(status, "")
    }

    /// The same where a file of that name is on the disk, and the process has read a session of it.
    fn missed_beside_file(&self, status: &ComponentStatus) -> Error {
        let file = "; the file of this name on the disk is of sessions that this process has read, or was not transferred: \
                    another process can open it";
        self.missing(status, file)
    }

    fn missing(&self, status: &ComponentStatus, file: &str) -> Error {
        let over = over(status, self.wanted.rule.transfer());
        let what = format!("{over}, and there is no session of the file that was not read{file}");
        Error::new(ErrorKind::NotFound, what).at(self.wanted.target.display().to_string())
    }
}

/// Why nothing more comes of a component of which [`ComponentStatus::is_over`] says so.
pub(crate) fn over(status: &ComponentStatus, rule: &TransferRule) -> String {
    let (from, timeout) = (rule.from(), rule.timeout().as_secs_f64());
    match &status.why {
        _ if status.was_killed => format!("the 'knarr run' of component '{from}' was killed"),
        Some(why) => format!("component '{from}' has not been reached for {timeout} s (timeout): {why}"),
        None if status.presence == Presence::Absent && !status.was_seen => {
            format!("component '{from}' was not started within {timeout} s (timeout)")
        }
        None => format!("component '{from}' has ended"),
    }
}

/// Why nothing more comes of a session that its writer has not closed, if that is known in its directory.
pub(crate) fn gone(directory: &Path, handed: &HandedOver) -> Option<String> {
    if let Some(why) = Gone::why(directory) {
        return Some(why);
    }
    let here = match handed.own_part() {
        Some(part) => part.ranks.clone(),
        None if handed.parts.is_empty() => (0..handed.ranks).collect(),
        None => Vec::new(),
    };
    let is_held = |rank: usize| PutLog::is_held(&directory.join(HandedOver::log(rank)));
    let who = match here.into_iter().find(|rank| !is_held(*rank)) {
        Some(rank) => format!("rank {rank}"),
        // An image goes with the launcher of the writer.
        None if !directory.exists() => "a rank".to_owned(),
        None => return None,
    };
    Some(format!("{who} of component '{}' has ended before it had closed the file", handed.rule.transfer().from()))
}

/// Waits until the session that the first rank has found is seen by this rank, too, which may be on another node. `session` and
/// `origin` are its number and what [`HandedOver::origin`] says. Returns its directory, and what is known of it.
///
/// # Errors
/// `NotFound` if it is not seen: why.
pub(crate) fn await_same(
    wanted: &Wanted,
    reader: &str,
    (session, origin): (u64, &(String, String)),
) -> Result<(PathBuf, HandedOver)> {
    let Wanted { target, rule, spool: own, run, .. } = wanted;
    let rule = rule.transfer();
    let (begin, mut watch) = (Instant::now(), Watch::new());
    let SpoolPlace { directory: spool, node, .. } = own;
    loop {
        let sessions = PublishedSessions::of(spool, rule, target);
        watch.on(sessions.directory());
        for (_, directory) in sessions.all().into_iter().filter(|(number, _)| *number == session) {
            watch.on(&directory);
            let is_same = |handed: &HandedOver| {
                let is_ready = is_ready(rule, &directory);
                is_ready && handed.origin(&directory).is_ok_and(|there| there == *origin)
            };
            if let Some(handed) = HandedOver::find(&directory)?.filter(is_same) {
                return Ok((directory, handed));
            }
        }
        let missing = |why: String| Err(Error::new(ErrorKind::NotFound, why).at(target.display().to_string()));
        if !run.is_alive() {
            let what = "is gone, and with it what the program was to read";
            return missing(format!("the launcher of component '{reader}' on node '{node}' {what}"));
        }
        if begin.elapsed() > SEEN_WITHIN.min(rule.timeout()) {
            let why = ComponentStatus::read(spool, rule.rendezvous(), rule.from()).ok().and_then(|status| status.why);
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            return missing(format!("node '{node}' does not see session {session}, which other nodes see{why}"));
        }
        watch.wait();
    }
}
