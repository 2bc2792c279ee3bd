//! A program opens a file that another component writes: its own HDF5 opens the header, and values come from the spool.
//!
//! HDF5 has no call that ends definitions, so a session can be opened when the writer has closed the file. A session that PnetCDF
//! has written is opened as a netCDF-4 copy that holds the values.

use std::ffi::{CString, OsStr, c_char, c_uint};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use knarr_array::comm::agree;
use knarr_array::error::{Error, Result};
use knarr_capture::{Event, Form, Part};
use knarr_captured::sessions::{ReadSession, SessionOrFile, header_of, is_hdf5, open_session};
use knarr_captured::{CapturedFile, Ranks, TranscodedFile, Wanted, transcode, wanted};

use super::begin_end::{Open, is_parallel};
use super::file::{self, Captured};
use super::header::Header;
use super::mpi::ranks_of;
use super::values::order::Order;
use crate::host::{CallerHdf5, Hid};

/// What comes of a file that the program opens.
pub(super) enum Comes {
    /// A session, and the path of its header. As long as this is held the file counts as open.
    Session(CString, HeaderGuard),
    /// A session whose header is a classic file, which PnetCDF opens.
    Classic,
    /// There is a file instead.
    File,
    /// Nothing, and why was told.
    Nothing,
}

/// Keeps a header open that HDF5 has not opened yet. If it does not, the file is closed by [`ended`](super::ended).
pub(super) struct HeaderGuard(#[expect(dead_code, reason = "a file is open as long as it is held")] File);

/// What this program has to do with a file of this name, if it is to read it from another component.
pub(super) fn read_here(named: &[u8]) -> Option<Wanted> {
    wanted(named).filter(|wanted| wanted.part == Some(Part::Reads))
}

/// As [`await_session`], among ranks that may not be known: then nothing comes.
pub(super) fn comes(wanted: &Wanted, named: &[u8], ranks: Result<Ranks>, has_pnetcdf: bool) -> Comes {
    match ranks {
        Ok(ranks) => await_session(wanted, named, ranks, has_pnetcdf),
        Err(error) => missed(wanted, &error),
    }
}

/// Tells the launcher why nothing comes.
fn missed(wanted: &Wanted, error: &Error) -> Comes {
    wanted.run.notify(Event::Missed { path: wanted.target.clone(), why: error.to_string() });
    Comes::Nothing
}

/// Waits for the next session, and captures the file. With `has_pnetcdf` a classic one is left to that. Collective.
fn await_session(wanted: &Wanted, named: &[u8], ranks: Ranks, has_pnetcdf: bool) -> Comes {
    let start = Instant::now();
    let opened = match open_session(wanted, &ranks) {
        SessionOrFile::Session(opened) => opened,
        SessionOrFile::File => return Comes::File,
        SessionOrFile::Nothing => return Comes::Nothing,
    };
    // PnetCDF waits for it again, and finds it at once.
    if has_pnetcdf && !is_hdf5(&opened.directory) {
        return Comes::Classic;
    }
    let incoming = ReadSession::new(wanted, *opened);
    capture(wanted, named, ranks, incoming, start).unwrap_or_else(|error| missed(wanted, &error))
}

/// Captures a file that is to be opened.
fn capture(wanted: &Wanted, named: &[u8], ranks: Ranks, mut incoming: ReadSession, start: Instant) -> Result<Comes> {
    let (directory, comm) = (incoming.directory().to_owned(), ranks.comm());
    // It is offered before the ranks of the writer agree that they have closed it.
    if incoming.await_whole(comm).is_none() {
        return Ok(Comes::Nothing);
    }
    let header = if is_hdf5(&directory) {
        let Some(path) = header_of(wanted, &ranks, &mut incoming) else { return Ok(Comes::Nothing) };
        hold_open(&path).and_then(|(path, held)| Ok((Header::arrived(&directory, &wanted.target, path)?, held)))
    } else {
        let TranscodedFile { directory: shown, file } = transcode(wanted, &ranks, directory, Form::NetCdf4)?;
        let header = hold_open(&file).map(|(path, held)| (Header::with_values(&shown, &wanted.target, path), held));
        if comm.rank() == 0 {
            incoming.keep(shown);
        }
        header
    };
    let (header, held) = agree(comm, header)?;
    let name = CString::new(header.path().as_os_str().as_bytes());
    let name = name.map_err(|_| Error::internal("a name with a zero in it"))?;
    let captured = CapturedFile::incoming(wanted, named, ranks, incoming);
    file::add(Captured::new(captured, header, Order::default()), start);
    Ok(Comes::Session(name, held))
}

/// Opens a header. Returns the name by which it is known when it is opened again.
fn hold_open(path: &Path) -> Result<(PathBuf, HeaderGuard)> {
    let opened = std::fs::canonicalize(path).and_then(|path| Ok((File::open(&path)?, path)));
    opened.map(|(file, path)| (path, HeaderGuard(file))).map_err(|error| Error::read(path, &error))
}

/// Opens a file that another component writes. `None` if the file is to be opened as it is.
///
/// # Safety
/// The arguments are those of `H5Fopen`; `real` is that function.
pub(crate) unsafe fn opened(
    host: &CallerHdf5,
    real: Open,
    name: *const c_char,
    flags: c_uint,
    access: Hid,
) -> Option<Hid> {
    if name.is_null() {
        return None;
    }
    // SAFETY: HDF5 wants a NUL-terminated name.
    let named = unsafe { std::ffi::CStr::from_ptr(name) }.to_bytes();
    let wanted = read_here(named)?;
    let ranks = ranks_of(host, access, &wanted, is_parallel(host, access))?;
    match comes(&wanted, named, ranks, false) {
        // SAFETY: the program's own flags and list.
        Comes::Session(header, _held) => unsafe { super::reopened(host, real, header.as_ptr(), flags, access) },
        Comes::File | Comes::Classic => None,
        // SAFETY: the program's own flags and list.
        Comes::Nothing => Some(unsafe { missing(real, &wanted, flags, access) }),
    }
}

/// HDF5's own error for a file that is not there. A file of an earlier run may be, which must not be opened.
///
/// # Safety
/// As for [`opened`].
unsafe fn missing(real: Open, wanted: &Wanted, flags: c_uint, access: Hid) -> Hid {
    let name = wanted.target.file_name().unwrap_or(OsStr::new("file"));
    let absent = wanted.spool.directory.join("not-transferred").join(name);
    let Ok(absent) = CString::new(absent.as_os_str().as_bytes()) else { return -1 };
    // SAFETY: the caller's promise.
    unsafe { real(absent.as_ptr(), flags, access) }
}
