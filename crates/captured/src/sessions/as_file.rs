//! Files of other components to programs that use the C library: scripts, `cdo`, `ncks`, `cp`. They look at a name before any
//! library that Knarr knows opens it, or know no other way. So what a component has closed becomes a file on the disk when a
//! program of a reading component asks for its name. From then on it is a file like any other. When a program has removed it, or
//! given it another name, the next session becomes one; also for a process that has asked for this one and read it with a library,
//! as h5netcdf does. In listings there are also names of what was closed and is no file yet.
//!
//! A component that writes may give a file its name after it has written it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use knarr_array::error::Result;
use knarr_capture::meeting::{Component, Presence, PublishedSessions, SessionLock, Wanting, Watch};
use knarr_capture::program::run;
use knarr_capture::{Event, HandedOver, Part, Reading, Took};
use knarr_config::FileRule;

use super::awaiting::{Reader, note_asked, over};
use crate::wanted::{Wanted, wanted_to};

/// For what a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Await {
    /// For a session that its writer has closed.
    Closed,
    /// Also for one that it has not, as long as the rule's `timeout` says.
    Any,
    /// The same, by a call that may be `rm`'s before it removes the file. What the component has read with a library is gone then,
    /// and is not the next session.
    Next,
    /// For a session, as long as one may come: the program opens the file to write more.
    Open,
}

/// Where a name stands.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// There is a file of a session.
    IsThere,
    /// A file is being made.
    Comes,
    /// A program has the session open: it will not become a file.
    IsOpen,
    /// Nothing was closed that has not been read.
    Nothing,
}

/// A session that was closed and that the component has not taken.
struct Closed {
    directory: PathBuf,
    /// The spool in which its writer has put it.
    token: String,
    session: u64,
}

/// Names that this process has waited for in vain: it does not wait again.
static MISSED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Names of what is gone since this process has looked at it: if it removes them next, it does not mean the next session.
static GONE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn names(set: &Mutex<BTreeSet<PathBuf>>) -> MutexGuard<'_, BTreeSet<PathBuf>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program's file of this name, if this component has that part in its transfer.
fn transferred(named: &[u8], part: Part) -> Option<Wanted> {
    wanted_to(named, Some(part)).filter(|wanted| wanted.part == Some(part) && !is_own(&wanted.target))
}

/// True for what Knarr keeps in spools and beside configurations: a rule may match the names there.
fn is_own(path: &Path) -> bool {
    path.components().any(|part| {
        let name = part.as_os_str().as_bytes();
        name.starts_with(b"knarr-spool-") || name == b".knarr"
    })
}

/// This component, as it reads the file.
fn reader(wanted: &Wanted) -> Reader<'_> {
    let name = wanted.run.rules().component.as_deref().unwrap_or_default();
    Reader::of(wanted, name, Component::launchers(wanted.rule.transfer().rendezvous(), name) > 1)
}

/// The program is about to ask the C library for a name. If the file comes from another component, it is there afterwards,
/// unless nothing came. False if it does not.
pub fn as_file(named: &[u8], what: Await) -> bool {
    let Some(wanted) = transferred(named, Part::Reads) else { return false };
    // The launcher tells its users what goes wrong with a session. A name that cannot be waited for leads to what is there.
    let _ = await_file(&wanted, what);
    true
}

/// Files in a directory, or in all below it, that were closed by other components and are on no disk yet.
pub fn closed_in(directory: &[u8], is_deep: bool) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let Some(run) = run() else { return found };
    let Some(spool) = run.rules().spool.as_ref() else { return found };
    let directory = Path::new(OsStr::from_bytes(if directory.is_empty() { b"." } else { directory }));
    let Ok(directory) = fs::canonicalize(directory) else { return found };
    let reads = |rule: &&FileRule| run.rules().part(rule) == Some(Part::Reads);
    for rule in run.rules().config.file.iter().filter(reads) {
        let sessions = PublishedSessions::of(&spool.directory, rule.transfer(), &directory);
        below(sessions.directory(), &directory, if is_deep { DEEPEST } else { 1 }, &mut found);
    }
    found.retain(|target| {
        let wanted = transferred(target.as_os_str().as_bytes(), Part::Reads);
        wanted.is_some_and(|wanted| !target.exists() && reader(&wanted).has_closed().unwrap_or(false))
    });
    found
}

/// Directories within directories, at most.
const DEEPEST: u32 = 64;

/// The files with sessions in a directory with offers, which stands for `directory`.
fn below(sessions: &Path, directory: &Path, depth: u32, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(sessions).into_iter().flatten().flatten() {
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let target = directory.join(entry.file_name());
            found.insert(target.clone());
            below(&entry.path(), &target, depth - 1, found);
        }
    }
}

/// Waits until a file is there, or nothing comes.
///
/// # Errors
/// What cannot be looked at; with [`Await::Open`] also `NotFound` if nothing comes.
pub(crate) fn await_file(wanted: &Wanted, what: Await) -> Result<()> {
    let (rule, reader) = (wanted.rule.transfer(), reader(wanted));
    if what == Await::Next && reader.file()?.is_none() && reader.taken.remove()? {
        names(&GONE).insert(wanted.target.clone());
        return Ok(());
    }
    let (begin, mut watch) = (Instant::now(), Watch::new());
    loop {
        // In this order: what was closed before the end is there.
        let status = reader.status(&mut watch)?;
        let is_over = status.is_over(rule.timeout()) || !wanted.run.is_alive();
        let is_late = begin.elapsed() > rule.timeout();
        let has_missed = || names(&MISSED).contains(&wanted.target);
        // Other files may match the rule: those that are there, and any name if the rule does not say how names end.
        let is_other = || what != Await::Open && (wanted.is_there() || !says_end(wanted));
        match reader.state()? {
            State::IsThere | State::IsOpen => return Ok(()),
            State::Nothing if what == Await::Open && is_over && !wanted.is_there() => {
                return Err(reader.missed(&status));
            }
            // Nobody else says why a file is not there of which no writer was ever seen.
            State::Nothing if is_over && what != Await::Closed && !is_other() && !has_missed() && !status.was_seen => {
                names(&MISSED).insert(wanted.target.clone());
                let (what, seconds) = (over(&status, rule), begin.elapsed().as_secs());
                wanted.run.notify(Event::Awaits { path: wanted.target.clone(), what, seconds });
                return Ok(());
            }
            State::Nothing if what == Await::Closed || is_over || is_other() || has_missed() => return Ok(()),
            State::Comes | State::Nothing if is_late && what != Await::Open => {
                names(&MISSED).insert(wanted.target.clone());
                let what = format!("component '{}' has closed no session that was not read (timeout)", rule.from());
                let seconds = begin.elapsed().as_secs();
                wanted.run.notify(Event::Awaits { path: wanted.target.clone(), what, seconds });
                return Ok(());
            }
            // Its launcher has ended, after it had made its files.
            State::Comes if status.presence == Presence::Absent && status.is_over(rule.timeout()) => return Ok(()),
            State::Comes if !wanted.run.is_alive() => return Ok(()),
            State::Comes | State::Nothing => watch.wait(),
        }
    }
}

/// True if the pattern of a file's rule says how names end, as `hist_*.nc` does.
fn says_end(wanted: &Wanted) -> bool {
    !wanted.rule.pattern.as_str().ends_with(['*', '?', ']', '}'])
}

impl Reader<'_> {
    /// Where the name stands; if there is something newer than what is there, a file is asked for.
    fn state(&self) -> Result<State> {
        // One program of the component at a time: two must not ask for two sessions.
        let mut wanting = Wanting::of(&self.taken)?;
        let file = self.file()?;
        // A program that has read it with a library may go on to the next one.
        if file.as_ref().is_some_and(|made| !self.is_had(made)) {
            return Ok(State::IsThere);
        }
        let made = self.sessions().made()?;
        // Files of one name are made in the order of their sessions. A writer that was started anew begins with others.
        let has_come = |(token, session): &(String, u64)| {
            made.as_ref().is_some_and(|made| made.token != *token || made.session >= *session)
        };
        if wanting.last()?.is_some_and(|last| !has_come(&last)) {
            return Ok(State::Comes);
        }
        for next in self.closed()? {
            if self.is_open(&next)? {
                return Ok(State::IsOpen);
            }
            if self.ask(&mut wanting, &next)? {
                return Ok(State::Comes);
            }
        }
        Ok(if file.is_some() { State::IsThere } else { State::Nothing })
    }

    fn is_open(&self, Closed { token, session, .. }: &Closed) -> Result<bool> {
        SessionLock::is_open(&self.taken, token, *session)
    }

    /// True if there is a session that was closed and that the component has not taken.
    fn has_closed(&self) -> Result<bool> {
        Ok(!self.closed()?.is_empty())
    }

    /// The sessions that were closed and that the component has not taken, oldest first.
    fn closed(&self) -> Result<Vec<Closed>> {
        let mut closed = Vec::new();
        for (session, directory) in self.published() {
            // It goes as soon as it was taken.
            let Ok(Some(handed)) = HandedOver::find(&directory) else { continue };
            let Ok((token, _)) = handed.origin(&directory) else { continue };
            if self.taken.has(&token, session)? {
                continue;
            }
            // Sessions follow each other.
            if !HandedOver::is_closed(&directory) {
                break;
            }
            closed.push(Closed { directory, token, session });
        }
        Ok(closed)
    }

    /// Removes the session that the component has taken last, or else the oldest one that was closed. False if there is none.
    fn remove(&self) -> Result<bool> {
        let _one_at_a_time = Wanting::of(&self.taken)?;
        if self.taken.remove()? {
            return Ok(true);
        }
        for next in self.closed()? {
            if self.is_open(&next)? {
                // Whoever has it open ends it.
                return Ok(true);
            }
            if let Some((session_lock, _)) = self.begin(&next.directory, &next.token, next.session)? {
                if session_lock.end()? {
                    HandedOver::note(&next.directory, self.name, Reading::Done)?;
                }
                return self.taken.remove();
            }
        }
        Ok(false)
    }

    /// Asks for a file of a session. False if it is gone.
    fn ask(&self, wanting: &mut Wanting, Closed { directory, token, session }: &Closed) -> Result<bool> {
        let Some((session_lock, handed)) = self.begin(directory, token, *session)? else { return Ok(false) };
        HandedOver::want_file(directory, self.name)?;
        wanting.add(token, *session)?;
        note_asked(&self.wanted.target, token, *session);
        if session_lock.end()? {
            HandedOver::note(directory, self.name, Reading::Done)?;
        }
        let (path, from) = (self.wanted.target.clone(), handed.rule.transfer().from().to_owned());
        let took = Took { bytes: handed.bytes, ..Took::default() };
        self.wanted.run.notify(Event::Received { path, from, session: *session, closed_ms: handed.closed_ms, took });
        Ok(true)
    }
}

/// The program removes a file that is on no disk. True if another component has written it: this one has read the session, or does
/// not want it.
pub fn removed(named: &[u8]) -> bool {
    let Some(wanted) = transferred(named, Part::Reads) else { return false };
    names(&GONE).remove(&wanted.target) || reader(&wanted).remove().unwrap_or(false)
}

/// The program is about to take a name from a file that other components were to read: a file is made of what nobody has begun
/// to read. Waits for what becomes a file; for components that have it open meanwhile no longer than the rule's `timeout`: they
/// may be waiting for this program themselves.
pub fn leaves(named: &[u8]) {
    let Some(wanted) = transferred(named, Part::Writes) else { return };
    let (begin, mut is_late) = (Instant::now(), false);
    let is_of = |handed: &HandedOver| handed.target == wanted.target && handed.session > 0;
    for directory in HandedOver::directories(&wanted.spool.directory).unwrap_or_default() {
        let Some(handed) = HandedOver::read(&directory).ok().flatten().filter(is_of) else { continue };
        let (rule, session) = (handed.rule.transfer(), handed.session);
        let is_noted = |reader: &str, reading| HandedOver::is_noted(&directory, reader, reading);
        for reader in rule.to().iter().filter(|reader| !is_noted(reader, Reading::Begun)) {
            let noted = HandedOver::want_file(&directory, reader)
                .and_then(|()| HandedOver::note(&directory, reader, Reading::Done));
            if noted.is_err() {
                return;
            }
        }
        // No file is made of what all read with a library, unless the rule says so.
        let is_file = handed.may_be_kept() || rule.to().iter().any(|reader| HandedOver::wants_file(&directory, reader));
        let mut watch = Watch::new();
        watch.on(&directory);
        // Files are made in the order of their sessions: those behind one that is late are late, too.
        while is_file && !is_late && wanted.run.is_alive() && HandedOver::is_closed(&directory) {
            watch.wait();
            let reading = rule.to().iter().find(|reader| !is_noted(reader, Reading::Done));
            if let Some(reader) = reading.filter(|_| begin.elapsed() > rule.timeout()) {
                let what =
                    format!("component '{reader}' has not read session {session}, which becomes a file (timeout)");
                let seconds = begin.elapsed().as_secs();
                wanted.run.notify(Event::Awaits { path: wanted.target.clone(), what, seconds });
                is_late = true;
            }
        }
    }
}

/// The program has given a file a name. Other components that read files of this name are told of it.
pub fn renamed_to(named: &[u8]) {
    if let Some(wanted) = transferred(named, Part::Writes) {
        wanted.run.notify(Event::Renamed { path: wanted.target });
    }
}
