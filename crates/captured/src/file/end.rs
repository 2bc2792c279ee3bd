//! How a captured file ends: the ranks agree that it is complete, and one of them on each node says so.

use std::ffi::c_int;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use knarr_array::comm::{agree, all_gather, read, written};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{Event, HandedOver};
use knarr_handover::PutLog;
use serde::{Deserialize, Serialize};

use super::begin::forget;
use super::{CapturedFile, Values, parent};
use crate::pending::{await_place, notify, save};

/// What the hooks of a library say of a file that this rank has closed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Closed {
    /// 0, or the code with which the library does not close the header.
    pub code: c_int,
    /// The error, if the hooks can say more of it than the file remembers.
    pub failed: Option<Error>,
    /// Along the unlimited dimension, where a file has one for all variables.
    pub records: u64,
    /// Variables whose elements have a fill value where nobody has put one, if the file is transferred.
    pub filled: Vec<c_int>,
}

/// What a rank says of a file that it has closed.
#[derive(Serialize, Deserialize)]
struct Said {
    closed: Closed,
    /// Bytes of values, and of the records in the log.
    bytes: u64,
    logged: u64,
    /// Seconds that the program spent in its calls.
    blocked_s: f64,
}

impl CapturedFile {
    /// This rank puts nothing more into the file. Returns the bytes of the records in its log.
    pub fn close_log(&mut self) -> u64 {
        self.log().map_or(0, PutLog::close)
    }

    /// The component has what it wants of a session that this program has read. False if the file is none, and nothing was done.
    /// Collective.
    pub fn end_incoming(&mut self) -> bool {
        let Self { ranks, values, .. } = self;
        let Values::ReadSession(incoming) = values else { return false };
        incoming.end_together(ranks.comm());
        true
    }

    /// The ranks agree that the file is complete, and one of them on each node says so. If it is not, what was put is kept, and
    /// the launcher is told why. The program is in the call since `begin`. Collective.
    ///
    /// # Errors
    /// That of the first rank that has one; `Write` if the rule has closing wait for the file, and it was not delivered.
    pub fn finish(&mut self, closed: Closed, begin: Instant) -> Result<()> {
        let (bytes, logged) = (self.log().map_or(0, |log| log.bytes()), self.close_log());
        self.blocked_since(begin);
        let mut mine = Said { closed, bytes, logged, blocked_s: self.blocked.as_secs_f64() };
        let file = &*self;
        let comm = file.ranks.comm();
        let is_first = file.ranks.is_first();
        let (begun, unread) = match if is_first { HandedOver::begun(&file.directory) } else { Ok(unknown(file)) } {
            Ok(begun) => (begun, None),
            Err(error) => (unknown(file), Some(error)),
        };
        let is_read = unread.is_none();
        let (begun, moved) = match parent::moved(&file.directory, &file.target) {
            // Other nodes know it by its name.
            Some(now) if file.ranks.span_nodes() => (begun, Some(is_elsewhere(&now))),
            Some(target) => (HandedOver { target, ..begun }, None),
            None => (begun, None),
        };
        mine.closed.failed = mine.closed.failed.or_else(|| file.failed().cloned()).or(unread).or(moved);
        let handed = gather(file, mine, begun).inspect_err(|_| keep(file, is_first))?;
        if let Some(error) = handed.failure.clone() {
            let kept = match is_first {
                // What it says stays as it is.
                true if !is_read => HandedOver::set_aside(&file.directory),
                true => handed.keep(&file.directory),
                false => Ok(()),
            };
            if agree(comm, kept).is_err() {
                keep(file, is_first);
            } else if is_first {
                notify(Event::SetAside { directory: file.directory.clone() });
            }
            return Err(error);
        }
        let saved = if is_first { save(&handed, &file.directory) } else { Ok(()) };
        agree(comm, saved).inspect_err(|_| keep(file, is_first))?;
        if is_first {
            notify(Event::HandedOver { directory: file.directory.clone() });
        }
        await_place(comm, (&handed.target, &file.rule, &file.directory))
    }

    /// Removes what was handed over of a file that nothing will be made of.
    pub fn forget(&self) {
        forget(&self.directory, &self.ranks);
    }
}

/// The directory of a file of several nodes has another name than when it was begun.
fn is_elsewhere(now: &Path) -> Error {
    let what = format!("its directory was renamed while it was open: it would be {} now", now.display());
    Error::new(ErrorKind::Write, what).hint("rename the directory back before 'knarr run --recover'")
}

/// Keeps what was put into a file of which nothing more can be said.
fn keep(file: &CapturedFile, is_first: bool) {
    if is_first {
        set_aside(&file.directory);
    }
}

/// Keeps what is in the directory of a file that cannot be handed over, and tells the launcher.
pub fn set_aside(directory: &Path) {
    // If the name cannot be changed either, the launcher finds a file that was never closed.
    let _ = HandedOver::set_aside(directory);
    notify(Event::SetAside { directory: directory.to_owned() });
}

/// What is known of a file without its record.
fn unknown(file: &CapturedFile) -> HandedOver {
    HandedOver::new(file.target.clone(), file.rule.clone(), file.ranks.comm().size())
}

/// Milliseconds since 1970.
fn now_ms() -> Option<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(now.as_millis()).ok()
}

/// What the ranks say of a file that all have closed, beside what was said when it was begun. Collective.
fn gather(file: &CapturedFile, mine: Said, begun: HandedOver) -> Result<HandedOver> {
    let comm = file.ranks.comm();
    let all = all_gather(comm, &written(&mine)?)?;
    let all = all.iter().map(|bytes| read::<Said>(bytes)).collect::<Result<Vec<_>>>()?;
    let closed = || all.iter().map(|said| &said.closed);
    let failed =
        closed().enumerate().find_map(|(rank, closed)| Some(closed.failed.clone()?.at(format!("rank {rank}"))));
    let not_closed = |code: c_int| {
        Error::new(ErrorKind::Write, format!("the program's library does not close its header: code {code}"))
    };
    let code = closed().map(|closed| closed.code).find(|&code| code != 0);
    Ok(file.ranks.note(HandedOver {
        session: file.session,
        closed_ms: if file.session > 0 { now_ms() } else { None },
        filled: mine.closed.filled,
        records: closed().map(|closed| closed.records).max(),
        bytes: all.iter().map(|said| said.bytes).sum(),
        logged: Some(all.iter().map(|said| said.logged).sum()),
        blocked_s: all.iter().map(|said| said.blocked_s).fold(0.0, f64::max),
        failure: failed.or_else(|| code.map(not_closed)),
        ..begun
    }))
}
