//! A program opens a file that another component writes.

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Instant;

use knarr_array::comm::share;
use knarr_array::error::{Error, Result};
use knarr_capture::{Datasets, Event, Form, HandedOver, Reading};
use serde::{Deserialize, Serialize};

use crate::begin_end::Wanted;
use crate::codes::{ENOENT, WRITE, has_opened};
use crate::file::{Captured, Values};
use crate::files;
use crate::incoming::{Begun, Incoming, Offered, await_session};
use crate::ranks::Ranks;
use crate::real::Open;
use crate::shown::{open_shown, show};

/// What the first rank found.
#[derive(Serialize, Deserialize)]
enum Found {
    /// A session, and what is known of it.
    Session { session: u64, directory: PathBuf, begun: Begun },
    /// There is a file.
    File,
    /// Neither comes.
    Nothing,
}

/// What comes of a file that another component writes.
pub enum Arrived {
    /// The next session that was not read yet, and what is known of it.
    Session(Offered, Begun),
    /// There is a file instead.
    File,
    /// Neither; the launcher was told why.
    Nothing,
}

/// Waits for the next session of a file. All ranks wait here, and not for each other in MPI, which takes a core for that. What
/// the first one finds counts. Collective.
pub fn arrive(wanted: &Wanted, ranks: &Ranks) -> Arrived {
    let reader = wanted.run.rules().component.as_deref().unwrap_or_default();
    let offered = await_session(&wanted.rule.transfer, wanted.spool, &wanted.target, reader);
    let found = if ranks.comm().rank() == 0 {
        offered.and_then(|offered| begin(offered, reader)).unwrap_or_else(|error| {
            wanted.run.tell(Event::Missed { path: wanted.target.clone(), why: error.message().to_owned() });
            Found::Nothing
        })
    } else {
        Found::Nothing
    };
    match share(ranks.comm(), &found) {
        Ok(Found::Session { session, directory, begun }) => Arrived::Session(Offered { session, directory }, begun),
        Ok(Found::File) => Arrived::File,
        Ok(Found::Nothing) | Err(_) => Arrived::Nothing,
    }
}

/// Opens the next session of a file that was not read yet, when it is there. `Err` if there is a file instead, which was not
/// opened. Collective.
///
/// # Safety
/// The arguments are those of `ncmpi_open`, and `real` is that function.
pub(crate) unsafe fn open(
    real: Open,
    (comm, mode, info, id): (usize, c_int, usize, *mut c_int),
    named: &[u8],
    wanted: &Wanted,
    ranks: Ranks,
) -> std::result::Result<c_int, Ranks> {
    let start = Instant::now();
    wanted.run.tell(Event::Calls);
    let (offered, begun) = match arrive(wanted, &ranks) {
        Arrived::Session(offered, begun) => (offered, begun),
        Arrived::File => return Err(ranks),
        Arrived::Nothing => return Ok(ENOENT),
    };
    let mut incoming = Incoming::new(&offered, &wanted.target, wanted.rule.transfer.clone(), &begun);
    if matches!(Datasets::read(&offered.directory), Ok(Some(_))) {
        if incoming.beyond(Some(u64::MAX), || "its values".to_owned()).is_err() {
            return Ok(ENOENT);
        }
        let arguments = (comm, mode & !WRITE, info, id);
        // SAFETY: the caller's promise.
        return Ok(unsafe { open_other(real, arguments, named, wanted, (ranks, offered, incoming)) });
    }
    let header = offered.directory.join(HandedOver::PUBLISHED);
    let Ok(header) = CString::new(header.as_os_str().as_bytes()) else { return Ok(ENOENT) };
    // Puts are refused as for any file that is opened for reading.
    // SAFETY: the program's own arguments but for name and mode.
    let code = unsafe { real(comm, header.as_ptr(), mode & !WRITE, info, id) };
    if !has_opened(code) {
        return Ok(code);
    }
    // SAFETY: the library has put the number there.
    let number = unsafe { *id };
    let (target, rule) = (wanted.target.clone(), wanted.rule.clone());
    let values = Values::Incoming(incoming);
    let Offered { session, directory } = offered;
    files::add(Captured::new(number, named.to_vec(), target, rule, directory, session, ranks, values, start.elapsed()));
    Ok(code)
}

/// Opens a session that HDF5 has written, as the classic file that the launcher makes of it. Collective.
///
/// # Safety
/// As for [`open`].
unsafe fn open_other(
    real: Open,
    arguments: (usize, c_int, usize, *mut c_int),
    named: &[u8],
    wanted: &Wanted,
    (ranks, offered, incoming): (Ranks, Offered, Incoming),
) -> c_int {
    match show(wanted, &ranks, offered.directory, Form::Classic) {
        // SAFETY: the caller's promise.
        Ok(shown) => unsafe {
            open_shown(real, arguments, named, wanted, (ranks, shown, Some(incoming))).unwrap_or(ENOENT)
        },
        Err(error) => {
            incoming.tell(&format!("it cannot be read with PnetCDF: {error}"));
            ENOENT
        }
    }
}

/// Notes that this component reads a session.
fn begin(offered: Option<Offered>, reader: &str) -> Result<Found> {
    let Some(Offered { session, directory }) = offered else { return Ok(Found::File) };
    let begun = HandedOver::find(&directory)?.ok_or_else(|| Error::internal("nothing is known of the session"))?;
    HandedOver::note(&directory, reader, Reading::Begun)?;
    Ok(Found::Session { session, directory, begun: begun.into() })
}
