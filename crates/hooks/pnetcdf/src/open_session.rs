//! A program opens a file that another component writes.

use std::ffi::c_int;
use std::time::Instant;

use knarr_capture::{Event, Form};
use knarr_captured::sessions::{ReadSession, SessionOrFile, header_of, is_hdf5, open_session};
use knarr_captured::{CapturedFile, Ranks, Wanted, transcode};

use crate::codes::ENOENT;
use crate::file::Captured;
use crate::files;
use crate::real::Opening;
use crate::transcoded::open_transcoded;

/// Opens the next session of a file that was not read yet, when it is there. `Err` if there is a file instead, which was not
/// opened. Collective.
///
/// # Safety
/// The arguments are those of `ncmpi_open`.
pub(crate) unsafe fn open(
    opening: Opening,
    named: &[u8],
    wanted: &Wanted,
    ranks: Ranks,
) -> std::result::Result<c_int, Ranks> {
    let start = Instant::now();
    wanted.run.notify(Event::Calls);
    let opened = match open_session(wanted, &ranks) {
        SessionOrFile::Session(opened) => opened,
        SessionOrFile::File => return Err(ranks),
        SessionOrFile::Nothing => return Ok(ENOENT),
    };
    let mut incoming = ReadSession::new(wanted, *opened);
    if is_hdf5(incoming.directory()) {
        if incoming.await_whole(ranks.comm()).is_none() {
            return Ok(ENOENT);
        }
        // SAFETY: the caller's promise.
        return Ok(unsafe { open_other(opening.to_read(), named, wanted, (ranks, incoming)) });
    }
    let Some(header) = header_of(wanted, &ranks, &mut incoming) else { return Ok(ENOENT) };
    // SAFETY: the caller's promise.
    let Some((code, number)) = (unsafe { opening.to_read().at(&header) }) else { return Ok(ENOENT) };
    if let Some(number) = number {
        files::add(Captured::new(number, CapturedFile::incoming(wanted, named, ranks, incoming)), start);
    }
    Ok(code)
}

/// Opens a session that HDF5 has written, as the classic file that the launcher makes of it. Collective.
///
/// # Safety
/// As for [`open`].
unsafe fn open_other(
    opening: Opening,
    named: &[u8],
    wanted: &Wanted,
    (ranks, incoming): (Ranks, ReadSession),
) -> c_int {
    match transcode(wanted, &ranks, incoming.directory().to_owned(), Form::Classic) {
        // SAFETY: the caller's promise.
        Ok(shown) => unsafe {
            open_transcoded(opening, named, wanted, (ranks, shown, Some(incoming))).unwrap_or(ENOENT)
        },
        Err(error) => {
            incoming.notify(&format!("it cannot be read with PnetCDF: {error}"));
            ENOENT
        }
    }
}
