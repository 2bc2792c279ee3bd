//! Files that are shown to the program in another form than they have, in the spool.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use knarr_array::comm::{agree, share};
use knarr_array::error::{Error, Result};
use knarr_capture::{Event, HandedOver, Shown, account_of};
use knarr_captured::sessions::Incoming;
use knarr_captured::{Place, Ranks, Wanted, await_place, forget, save, tell};
use knarr_config::FileRule;

use crate::codes::{EWRITE, NOERR, WRITE, has_opened};
use crate::files::Key;
use crate::real::{Open, library, real};

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

/// By their library, and the number that it gave them.
static OPENED: Mutex<BTreeMap<Key, Opened>> = Mutex::new(BTreeMap::new());

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
    // PnetCDF takes the mode of the first rank.
    let writes = share(ranks.comm(), &(mode & WRITE != 0 && incoming.is_none())).unwrap_or(false);
    if writes && ranks.comm().rank() == 0 {
        begin_to_change(wanted, &directory);
    }
    let opened = Opened { named: named.to_vec(), target, rule, directory, ranks, writes, incoming };
    // SAFETY: the library has put the number there.
    let number = unsafe { *id };
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).insert((library(), number), opened);
    Some(code)
}

/// Notes that the program may change what is shown in a directory: if it is killed, `--recover` knows what to make of it.
fn begin_to_change(wanted: &Wanted, directory: &Path) {
    let generation = account_of(&wanted.spool.directory).map_or(0, |account| account.next_generation(0));
    let open = HandedOver::new(wanted.target.clone(), wanted.rule.clone(), 0);
    // Without it there may be no room left when the file is closed, and the program is told then.
    let _ = open.begin_anew(directory, generation);
}

/// The files that the program changes, of all libraries: the library and the number of each, in an order that all ranks have.
pub(crate) fn all_written() -> Vec<Key> {
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all: Vec<_> = opened.iter().filter(|(_, file)| file.writes && !file.ranks.is_alone()).collect();
    all.sort_by(|(_, one), (_, other)| one.target.cmp(&other.target));
    all.into_iter().map(|(key, _)| *key).collect()
}

/// Calls `call` with the ranks of a file that is shown, and its name.
pub(crate) fn with(id: c_int, call: impl FnOnce(&Ranks, &Path)) {
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(opened) = opened.get(&(library(), id)) {
        call(&opened.ranks, &opened.target);
    }
}

/// The name that the program gave a file that is shown.
pub(crate) fn named(id: c_int) -> Option<Vec<u8>> {
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.get(&(library(), id)).map(|opened| opened.named.clone())
}

/// Closes a file that is shown. `None` if `id` is none. Collective.
pub(crate) fn end(id: c_int, aborts: bool) -> Option<c_int> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner).remove(&(library(), id))?;
    // SAFETY: PnetCDF's functions for a file that it knows.
    let code = unsafe { if aborts { real!(ncmpi_abort(c_int))(id) } else { real!(ncmpi_close(c_int))(id) } };
    let rank = opened.ranks.comm().rank();
    if let Some(incoming) = &mut opened.incoming {
        incoming.end_together(opened.ranks.comm());
        if rank == 0 {
            forget(&opened.directory, &opened.ranks);
        }
        return Some(code);
    }
    // All ranks have closed it.
    let Opened { ranks, target, rule, directory, writes, .. } = &opened;
    let closed = ranks.largest(u64::from(code != NOERR));
    if !writes {
        forget(directory, ranks);
        return Some(code);
    }
    let handed = match (rank, closed) {
        (0, Ok(0)) => hand_over(&opened),
        (0, _) => Err(keep(directory, Error::internal("the program's library does not close it"))),
        _ => Ok(()),
    };
    let handed = agree(ranks.comm(), handed);
    let handed = handed.and_then(|()| await_place(ranks.comm(), (target, rule, directory)));
    Some(if handed.is_err() && code == NOERR { EWRITE } else { code })
}

/// Keeps a changed file that cannot be handed over. Returns why that is.
fn keep(directory: &Path, error: Error) -> Error {
    // If the name cannot be changed either, the launcher finds a file that was never closed.
    let _ = HandedOver::set_aside(directory);
    tell(Event::SetAside { directory: directory.to_owned() });
    error
}

/// Hands the changed file over. If that fails it is kept.
fn hand_over(opened: &Opened) -> Result<()> {
    let Opened { target, rule, directory, .. } = opened;
    let classic = directory.join(Shown::CLASSIC);
    let begun = HandedOver::left_in(directory).map_err(|error| keep(directory, error))?;
    let begun = begun.unwrap_or_else(|| HandedOver::new(target.clone(), rule.clone(), 0));
    let saved = std::fs::metadata(&classic)
        .map_err(|error| Error::read(&classic, &error))
        .and_then(|found| save(&HandedOver { bytes: found.len(), ..begun }, directory));
    saved.map_err(|error| keep(directory, error))?;
    tell(Event::HandedOver { directory: directory.clone() });
    Ok(())
}
