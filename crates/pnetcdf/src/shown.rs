//! Files that are shown to the program in another form than they have, in the spool.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use knarr_array::comm::{barrier, share};
use knarr_array::error::{Error, Result};
use knarr_capture::config::FileRule;
use knarr_capture::program::run;
use knarr_capture::{Event, Form, HandedOver, Shown};
use serde::{Deserialize, Serialize};

use crate::apart::Homes;
use crate::begin_end::{forget, make_directory};
use crate::codes::{NOERR, WRITE, has_opened};
use crate::incoming::Incoming;
use crate::ranks::Ranks;
use crate::real::{Open, real};
use crate::waiting::LOOK_EVERY;
use crate::wanted::Wanted;

/// A file that is shown.
struct Opened {
    named: Vec<u8>,
    target: PathBuf,
    rule: FileRule,
    directory: PathBuf,
    ranks: Ranks,
    /// The program may change it: it is delivered again.
    writes: bool,
    /// The session that it is, if another component writes it.
    incoming: Option<Incoming>,
}

static OPENED: Mutex<BTreeMap<c_int, Opened>> = Mutex::new(BTreeMap::new());

/// Where something is shown.
#[derive(Serialize, Deserialize)]
pub struct Place {
    /// What goes when the program has closed it: in the spool of the first rank.
    pub directory: PathBuf,
    /// The file, where all ranks reach it.
    pub file: PathBuf,
}

/// Has the launcher show what is at `source`, which the first rank knows, and waits for it. Collective.
///
/// # Errors
/// That of the launcher; `Internal` if it is gone.
pub fn show(wanted: &Wanted, ranks: &Ranks, source: PathBuf, form: Form) -> Result<Place> {
    let homes = Homes::meet(ranks.comm(), wanted.spool)?;
    let asked = match ranks.comm().rank() {
        0 => ask(wanted, source, form, homes.are_apart()),
        _ => Err(Error::internal("the first rank asks")),
    };
    share(ranks.comm(), &asked)?
}

/// Asks for it. If the ranks are on several nodes, the file lies on the disk that they share.
fn ask(wanted: &Wanted, source: PathBuf, form: Form, are_apart: bool) -> Result<Place> {
    let name = make_directory(&wanted.spool.directory)?;
    let directory = wanted.spool.directory.join(&name);
    let mut file = directory.join(Shown::file(form));
    if are_apart {
        let there = wanted.spool.disk.join(format!("shown-{}-{name}.nc", wanted.spool.token));
        // It goes with the directory.
        std::os::unix::fs::symlink(&there, &file).map_err(|error| Error::write(&file, &error))?;
        file = there;
    }
    let shown = Shown { source, rule: wanted.rule.clone(), form };
    let outcome = shown.ask(&directory).and_then(|()| {
        wanted.run.tell(Event::Shown { directory: directory.clone() });
        loop {
            match Shown::outcome(&directory)? {
                Some(outcome) => return outcome,
                None if wanted.run.is_alive() => std::thread::sleep(LOOK_EVERY),
                None => return Err(Error::internal("the launcher is gone")),
            }
        }
    });
    if outcome.is_err() {
        HandedOver::discard(&directory);
    }
    outcome.map(|()| Place { directory, file })
}

/// Opens the classic file that is shown in a directory, by the name that the program gave it. `None` if that cannot be.
/// Collective.
///
/// # Safety
/// The first arguments are those of `ncmpi_open`; `real` is that function.
pub(crate) unsafe fn open_shown(
    real: Open,
    (comm, mode, info, id): (usize, c_int, usize, *mut c_int),
    named: &[u8],
    wanted: &Wanted,
    (ranks, Place { directory, file }, incoming): (Ranks, Place, Option<Incoming>),
) -> Option<c_int> {
    let classic = CString::new(file.as_os_str().as_bytes()).ok()?;
    // SAFETY: the program's own arguments but for the name.
    let code = unsafe { real(comm, classic.as_ptr(), mode, info, id) };
    if !has_opened(code) {
        forget(&directory, &ranks);
        return Some(code);
    }
    let (target, rule) = (wanted.target.clone(), wanted.rule.clone());
    let opened = Opened { named: named.to_vec(), target, rule, directory, ranks, writes: mode & WRITE != 0, incoming };
    // SAFETY: the library has put the number there.
    let number = unsafe { *id };
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).insert(number, opened);
    Some(code)
}

/// The name that the program gave a file that is shown.
pub(crate) fn named(id: c_int) -> Option<Vec<u8>> {
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.get(&id).map(|opened| opened.named.clone())
}

/// Closes a file that is shown. `None` if `id` is none. Collective.
pub(crate) fn end(id: c_int, aborts: bool) -> Option<c_int> {
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)?;
    // SAFETY: PnetCDF's functions for a file that it knows.
    let code = unsafe { if aborts { real!(ncmpi_abort(c_int))(id) } else { real!(ncmpi_close(c_int))(id) } };
    let rank = opened.ranks.comm().rank();
    if let Some(incoming) = &opened.incoming {
        incoming.end_together(opened.ranks.comm());
        if rank == 0 {
            forget(&opened.directory, &opened.ranks);
        }
        return Some(code);
    }
    // All ranks have closed it.
    let together = barrier(opened.ranks.comm());
    if rank != 0 {
        return Some(code);
    }
    let handed = if opened.writes && code == NOERR { together.and_then(|()| hand_over(&opened)) } else { Ok(false) };
    match handed {
        Ok(true) => {}
        Ok(false) => forget(&opened.directory, &opened.ranks),
        Err(error) => tell(Event::Passed { path: opened.target, why: format!("changes are lost: {error}") }),
    }
    Some(code)
}

fn hand_over(opened: &Opened) -> Result<bool> {
    let classic = opened.directory.join(Shown::CLASSIC);
    let bytes = std::fs::metadata(&classic).map_err(|error| Error::read(&classic, &error))?.len();
    let (target, rule) = (opened.target.clone(), opened.rule.clone());
    HandedOver { bytes, ..HandedOver::new(target, rule, 0) }.save(&opened.directory)?;
    tell(Event::HandedOver { directory: opened.directory.clone() });
    Ok(true)
}

fn tell(event: Event) {
    if let Some(run) = run() {
        run.tell(event);
    }
}
