//! Copies of files in a format that PnetCDF reads, in the spool.

use std::ffi::c_int;
use std::path::Path;

use knarr_array::comm::{agree, share};
use knarr_array::error::{Error, Result};
use knarr_capture::{Event, HandedOver, Transcoded, accounts_of};
use knarr_captured::sessions::ReadSession;
use knarr_captured::{CapturedFile, Files, Ranks, Shared, TranscodedFile, Values, Wanted};
use knarr_captured::{await_place, forget, lock, notify, save, set_aside};

use crate::codes::{EWRITE, NOERR, WRITE};
use crate::files::{Key, in_order};
use crate::real::{Opening, library, real};

/// A file that is shown. The session that it is, if another component writes it, is in it.
struct Opened {
    file: CapturedFile,
    /// The program may change it: it is delivered again.
    writes: bool,
}

static OPENED: Files<Key, Opened> = Files::none();

/// A file that is shown, of this library.
fn opened(id: c_int) -> Option<Shared<Opened>> {
    let key = (library(), id);
    OPENED.find(|known| *known == key)
}

/// Opens the classic file that is shown in a directory, by the name that the program gave it. `None` if that cannot be.
/// Collective.
///
/// # Safety
/// The first argument is a call of `ncmpi_open`.
pub(crate) unsafe fn open_transcoded(
    opening: Opening,
    named: &[u8],
    wanted: &Wanted,
    (ranks, TranscodedFile { directory, file }, incoming): (Ranks, TranscodedFile, Option<ReadSession>),
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let (code, number) = unsafe { opening.at(&file) }?;
    let Some(number) = number else {
        forget(&directory, &ranks);
        return Some(code);
    };
    // PnetCDF takes the mode of the first rank.
    let writes = share(ranks.comm(), &(opening.mode & WRITE != 0 && incoming.is_none())).unwrap_or(false);
    if writes && ranks.comm().rank() == 0 {
        begin_to_change(wanted, &directory);
    }
    let file = match incoming {
        Some(mut incoming) => {
            if ranks.comm().rank() == 0 {
                incoming.keep(directory);
            }
            CapturedFile::incoming(wanted, named, ranks, incoming)
        }
        None => CapturedFile::new(wanted, named, (directory, 0), ranks, Values::Elsewhere),
    };
    let key = (library(), number);
    OPENED.take(|known| *known == key);
    OPENED.add(key, Opened { file, writes });
    Some(code)
}

/// Notes that the program may change what is shown in a directory: if it is killed, `--recover` knows what to make of it.
fn begin_to_change(wanted: &Wanted, directory: &Path) {
    let generation = accounts_of(&wanted.spool.directory).map_or(0, |account| account.next_generation(0));
    let open = HandedOver::new(wanted.target.clone(), wanted.rule.clone(), 0);
    // Without it there may be no room left when the file is closed, and the program is told then.
    let _ = open.begin_anew(directory, generation);
}

/// The files that the program changes, of all libraries.
pub(crate) fn all_written() -> Vec<Key> {
    in_order(&OPENED, |opened| opened.writes.then_some(&opened.file))
}

/// Calls `call` with a file that is shown.
pub(crate) fn with<T>(id: c_int, call: impl FnOnce(&CapturedFile) -> T) -> Option<T> {
    opened(id).map(|opened| call(&lock(&opened).file))
}

/// Closes a file that is shown. `None` if `id` is none. Collective.
pub(crate) fn end(id: c_int, aborts: bool) -> Option<c_int> {
    let key = (library(), id);
    let opened = OPENED.take(|known| *known == key)?;
    let Opened { file, writes } = &mut *lock(&opened);
    // SAFETY: PnetCDF's functions for a file that it knows.
    let code = unsafe { if aborts { real!(ncmpi_abort(c_int))(id) } else { real!(ncmpi_close(c_int))(id) } };
    if file.end_incoming() {
        return Some(code);
    }
    // All ranks have closed it.
    let closed = file.ranks.largest(u64::from(code != NOERR));
    if !*writes {
        file.forget();
        return Some(code);
    }
    let comm = file.ranks.comm();
    let handed = match (comm.rank(), closed) {
        (0, Ok(0)) => hand_over(file),
        (0, _) => Err(Error::internal("the program's library does not close it")),
        _ => Ok(()),
    };
    // What cannot be handed over is kept.
    let handed = agree(comm, handed.inspect_err(|_| set_aside(&file.directory)));
    let handed = handed.and_then(|()| await_place(comm, (&file.target, &file.rule, &file.directory)));
    Some(if handed.is_err() && code == NOERR { EWRITE } else { code })
}

/// Hands the changed file over.
fn hand_over(CapturedFile { target, rule, directory, .. }: &CapturedFile) -> Result<()> {
    let classic = directory.join(Transcoded::CLASSIC);
    let begun = HandedOver::left_in(directory)?;
    let begun = begun.unwrap_or_else(|| HandedOver::new(target.clone(), rule.clone(), 0));
    let found = std::fs::metadata(&classic).map_err(|error| Error::read(&classic, &error))?;
    save(&HandedOver { bytes: found.len(), ..begun }, directory)?;
    notify(Event::HandedOver { directory: directory.clone() });
    Ok(())
}
