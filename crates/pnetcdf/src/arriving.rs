//! A program opens a file that another component writes.

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use knarr_capture::{Datasets, Event, Form};
use knarr_captured::sessions::{Arrived, Incoming, arrive, header_of};
use knarr_captured::{Ranks, Wanted, show};

use crate::codes::{ENOENT, WRITE, has_opened};
use crate::file::{Captured, Values};
use crate::files;
use crate::real::Open;
use crate::shown::open_shown;

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
    let mut incoming = Incoming::new(wanted, *offered, begun);
    if matches!(Datasets::read(incoming.directory()), Ok(Some(_))) {
        if incoming.await_whole(ranks.comm()).is_none() {
            return Ok(ENOENT);
        }
        let arguments = (comm, mode & !WRITE, info, id);
        // SAFETY: the caller's promise.
        return Ok(unsafe { open_other(real, arguments, named, wanted, (ranks, incoming)) });
    }
    let Some(header) = header_of(wanted, &ranks, &mut incoming) else { return Ok(ENOENT) };
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
    let (session, directory) = (incoming.session(), incoming.directory().to_owned());
    let values = Values::Incoming(Box::new(incoming));
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
    (ranks, incoming): (Ranks, Incoming),
) -> c_int {
    match show(wanted, &ranks, incoming.directory().to_owned(), Form::Classic) {
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
