//! How a captured file ends: the ranks agree that it is complete, and one of them on each node says so.

use std::ffi::c_int;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use knarr_array::comm::{agree, all_gather, read, written};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{Event, HandedOver};
use knarr_config::FileRule;
use serde::{Deserialize, Serialize};

use crate::parent;
use crate::pending::{await_place, save, tell};
use crate::ranks::Ranks;

/// What a rank says of a file that it has closed.
#[derive(Clone, Serialize, Deserialize)]
pub struct Closed {
    /// 0, or the code with which the library does not close the header.
    pub code: c_int,
    /// The first error of handing over.
    pub failed: Option<Error>,
    /// Along the unlimited dimension, where a file has one for all variables.
    pub records: u64,
    /// Variables whose elements have a fill value where nobody has put one, if the file is transferred.
    pub filled: Vec<c_int>,
    /// Bytes of values.
    pub bytes: u64,
    /// Bytes of the records in the log.
    pub logged: u64,
    /// Seconds that the program spent in its calls.
    pub blocked_s: f64,
}

/// A file that all ranks are closing.
pub struct Ending<'f> {
    /// Its ranks.
    pub ranks: &'f Ranks,
    /// The file, in the eyes of the program.
    pub target: &'f Path,
    /// What is to become of it.
    pub rule: &'f FileRule,
    /// In the spool.
    pub directory: &'f Path,
    /// Number of the session if the file is transferred, else 0.
    pub session: u64,
}

/// The ranks agree that the file is complete, and one of them on each node says so. If it is not, what was put is kept, and the
/// launcher is told why. Collective.
///
/// # Errors
/// That of the first rank that has one; `Write` if the rule has closing wait for the file, and it was not delivered.
pub fn finish(file: &Ending<'_>, mine: &Closed) -> Result<()> {
    let comm = file.ranks.comm();
    let is_first = file.ranks.is_first();
    let (begun, unread) = match if is_first { HandedOver::begun(file.directory) } else { Ok(unknown(file)) } {
        Ok(begun) => (begun, None),
        Err(error) => (unknown(file), Some(error)),
    };
    let is_read = unread.is_none();
    let (begun, moved) = match parent::moved(file.directory, file.target) {
        // Other nodes know it by its name.
        Some(now) if file.ranks.are_apart() => (begun, Some(is_elsewhere(&now))),
        Some(target) => (HandedOver { target, ..begun }, None),
        None => (begun, None),
    };
    let mine = Closed { failed: mine.failed.clone().or(unread).or(moved), ..mine.clone() };
    let handed = gather(file, &mine, begun).inspect_err(|_| keep(file, is_first))?;
    if let Some(error) = handed.failure.clone() {
        let kept = match is_first {
            // What it says stays as it is.
            true if !is_read => HandedOver::set_aside(file.directory),
            true => handed.keep(file.directory),
            false => Ok(()),
        };
        if agree(comm, kept).is_err() {
            keep(file, is_first);
        } else if is_first {
            tell(Event::SetAside { directory: file.directory.to_owned() });
        }
        return Err(error);
    }
    let saved = if is_first { save(&handed, file.directory) } else { Ok(()) };
    agree(comm, saved).inspect_err(|_| keep(file, is_first))?;
    if is_first {
        tell(Event::HandedOver { directory: file.directory.to_owned() });
    }
    await_place(comm, (&handed.target, file.rule, file.directory))
}

/// The directory of a file of several nodes has another name than when it was begun.
fn is_elsewhere(now: &Path) -> Error {
    let what = format!("its directory was renamed while it was open: it would be {} now", now.display());
    Error::new(ErrorKind::Write, what).hint("rename the directory back before 'knarr run --recover'")
}

/// Keeps what was put into a file of which nothing more can be said.
fn keep(file: &Ending<'_>, is_first: bool) {
    if is_first {
        // If the name cannot be changed either, the launcher finds a file that was never closed.
        let _ = HandedOver::set_aside(file.directory);
        tell(Event::SetAside { directory: file.directory.to_owned() });
    }
}

/// What is known of a file without its record.
fn unknown(file: &Ending<'_>) -> HandedOver {
    HandedOver::new(file.target.to_owned(), file.rule.clone(), file.ranks.comm().size())
}

/// Milliseconds since 1970.
fn now_ms() -> Option<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(now.as_millis()).ok()
}

/// What the ranks say of a file that all have closed, beside what was said when it was begun. Collective.
fn gather(file: &Ending<'_>, mine: &Closed, begun: HandedOver) -> Result<HandedOver> {
    let comm = file.ranks.comm();
    let all = all_gather(comm, &written(mine)?)?;
    let all = all.iter().map(|bytes| read::<Closed>(bytes)).collect::<Result<Vec<_>>>()?;
    let failed =
        all.iter().enumerate().find_map(|(rank, closed)| Some(closed.failed.clone()?.at(format!("rank {rank}"))));
    let not_closed = |code: c_int| {
        Error::new(ErrorKind::Write, format!("the program's library does not close its header: code {code}"))
    };
    let code = all.iter().map(|closed| closed.code).find(|&code| code != 0);
    Ok(file.ranks.note(HandedOver {
        session: file.session,
        closed_ms: if file.session > 0 { now_ms() } else { None },
        filled: mine.filled.clone(),
        records: all.iter().map(|closed| closed.records).max(),
        bytes: all.iter().map(|closed| closed.bytes).sum(),
        logged: Some(all.iter().map(|closed| closed.logged).sum()),
        blocked_s: all.iter().map(|closed| closed.blocked_s).fold(0.0, f64::max),
        failure: failed.or_else(|| code.map(not_closed)),
        ..begun
    }))
}
