//! How a captured file begins and ends.

use std::ffi::{CString, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_capture::Event;
use knarr_pnetcdf::{APART, Agreed, Closed, Ending, Ranks, agree_on_place, finish, forget, wanted};

use super::file::{self, Captured, Shared, lock};
use super::header::Header;
use super::mpi::{Communicator, is_over};
use crate::files::is_open;
use crate::host::{CallerHdf5, Hid};
use crate::lists::{Close, Owned};

/// Codes of HDF5's C headers.
mod code {
    pub(super) const DEFAULT_LIST: i64 = 0;
    /// `H5F_ACC_TRUNC`.
    pub(super) const EMPTIES: u32 = 2;
    /// `H5F_CLOSE_DEFAULT` and `H5F_CLOSE_SEMI`, which is what MPI-IO has for it.
    pub(super) const CLOSE_DEFAULT: i32 = 0;
    pub(super) const CLOSE_SEMI: i32 = 2;
}

pub(super) type Create = unsafe extern "C" fn(*const c_char, c_uint, Hid, Hid) -> Hid;
pub(super) type Open = unsafe extern "C" fn(*const c_char, c_uint, Hid) -> Hid;

/// True if the access list is one of MPI-IO.
fn is_parallel(host: &CallerHdf5, access: Hid) -> bool {
    let null = std::ptr::null_mut::<c_void>();
    access != code::DEFAULT_LIST
        && host
            // SAFETY: the list is the program's own; HDF5 leaves out results that have no place.
            .quietly(|host| host.is_parallel.is_some_and(|get| unsafe { get(access, null, null) } >= 0))
            .unwrap_or(false)
}

/// A list with all that `access` says, for a file without MPI that ranks have for themselves.
fn serial_list<'h>(host: &'h CallerHdf5, access: Hid) -> Option<Owned<'h>> {
    // SAFETY: the list is the program's own; the copy is closed when dropped.
    let list = Owned::new(host, unsafe { host.copy_list?(access) }, Close::List)?;
    let mut degree: c_int = code::CLOSE_DEFAULT;
    // SAFETY: the list is ours, and `degree` a valid place for the result.
    unsafe {
        if host.set_serial?(list.id) < 0 || host.close_degree?(list.id, &raw mut degree) < 0 {
            return None;
        }
        let degree = if degree == code::CLOSE_DEFAULT { code::CLOSE_SEMI } else { degree };
        // Gaps would only make the header longer.
        (host.set_close_degree?(list.id, degree) >= 0 && host.set_alignment?(list.id, 1, 1) >= 0).then_some(list)
    }
}

/// Creates a file whose values are handed over. `None` if it is left to HDF5, which has not been called.
///
/// # Safety
/// The arguments are those of `H5Fcreate`; `real` is that function.
pub(crate) unsafe fn create(
    host: &CallerHdf5,
    real: Create,
    name: *const c_char,
    flags: c_uint,
    creation: Hid,
    access: Hid,
) -> Option<Hid> {
    if name.is_null() || access == code::DEFAULT_LIST {
        return None;
    }
    let start = Instant::now();
    // SAFETY: HDF5 wants a NUL-terminated name.
    let named = unsafe { std::ffi::CStr::from_ptr(name) }.to_bytes();
    let wanted = wanted(named).filter(|wanted| !wanted.rule.compresses_writes() && wanted.part.is_none())?;
    if !is_parallel(host, access) {
        return None;
    }
    if let Some(open) = file::becoming(&wanted.target) {
        // HDF5 refuses to empty a file that is open.
        let path = CString::new(lock(&open).header.path().as_os_str().as_bytes()).ok()?;
        let serial = lock(&open).serial;
        // SAFETY: the program's own flags and list, with the name and the list of the header.
        return Some(unsafe { real(path.as_ptr(), flags, creation, serial) });
    }
    let comm = Communicator::of(host, access)?;
    // A file that is not handed over is packed when it is closed, so nobody is told.
    // SAFETY: the program's own communicator.
    let ranks = unsafe { Ranks::of(comm.0, &wanted.run.rules().adapters) }.ok()?;
    drop(comm);
    let Agreed { directory, log, .. } = match agree_on_place(&wanted, &ranks, flags & code::EMPTIES == 0) {
        Ok(agreed) => agreed,
        Err(why) => {
            if why.is_some_and(|why| why == APART) {
                wanted.run.tell(Event::Apart { path: wanted.target });
            }
            return None;
        }
    };
    let rank = ranks.comm().rank();
    let header = Header::new(&directory, rank);
    let path = CString::new(header.path().as_os_str().as_bytes()).ok()?;
    // SAFETY: the list is the program's own.
    let kept = host.copy_list.map_or(-1, |copy| unsafe { copy(access) });
    let serial = host.quietly(|_| serial_list(host, access)).flatten();
    // A list that cannot be had fails here with HDF5's own words.
    let serial = serial.map_or(-1, |list| {
        let id = list.id;
        std::mem::forget(list);
        id
    });
    // SAFETY: the program's own arguments but for the name and the list.
    let id = unsafe { real(path.as_ptr(), flags, creation, serial) };
    if id < 0 {
        forget(&directory, &ranks);
        return Some(id);
    }
    let captured = Captured {
        named: named.to_vec(),
        target: wanted.target,
        rule: wanted.rule,
        directory,
        header,
        ranks,
        log,
        access: kept,
        serial,
        is_atomic: false,
        failed: None,
        blocked: start.elapsed(),
        process: std::process::id(),
    };
    file::add(path.into_bytes(), captured);
    Some(id)
}

/// Opens a captured file that this process has open. `None` if it has not.
///
/// # Safety
/// The arguments are those of `H5Fopen`; `real` is that function.
pub(crate) unsafe fn reopened(real: Open, name: *const c_char, flags: c_uint) -> Option<Hid> {
    if !file::any() || name.is_null() {
        return None;
    }
    // SAFETY: HDF5 wants a NUL-terminated name.
    let named = PathBuf::from(OsStr::from_bytes(unsafe { std::ffi::CStr::from_ptr(name) }.to_bytes()));
    let absolute = std::path::absolute(named).ok()?;
    let target = std::fs::canonicalize(&absolute).unwrap_or(absolute);
    let file = file::becoming(&target)?;
    let (path, serial) = {
        let file = lock(&file);
        (CString::new(file.header.path().as_os_str().as_bytes()).ok()?, file.serial)
    };
    // SAFETY: the program's own flags, with the name and the list of its header.
    Some(unsafe { real(path.as_ptr(), flags, serial) })
}

/// The same for a file that this process has closed: waits until it is there.
///
/// # Safety
/// `name` is null or NUL-terminated.
pub(crate) unsafe fn await_named(name: *const c_char) {
    // SAFETY: the caller's promise.
    unsafe { knarr_pnetcdf::await_named(name) };
}

/// To be called after a call that may have closed captured files. Returns false if the values of one could not be handed
/// over. Collective if one was closed.
pub(crate) fn ended(host: &CallerHdf5) -> bool {
    let process = std::process::id();
    let gone = file::take(|file| file.process == process && !is_open(file.header.path()));
    // Each is ended, whatever comes of the others.
    let ended: Vec<bool> = gone.iter().map(|file| end(host, file)).collect();
    !ended.contains(&false)
}

fn end(host: &CallerHdf5, file: &Shared) -> bool {
    let start = Instant::now();
    let mut file = lock(file);
    for list in [file.access, file.serial] {
        drop(Owned::new(host, list, Close::List));
    }
    if let Err(error) = file.header.closed() {
        file.fail(error);
    }
    if is_over() {
        // The other ranks are not there any more. What was put is kept, as of a program that was killed.
        return false;
    }
    // A put names its dataset by a number, which all ranks must give alike.
    match file.ranks.largest(file.header.digest()) {
        Ok(largest) if largest == file.header.digest() => {}
        Ok(_) => file.fail(Error::usage("the ranks have not created the same datasets in the same order")),
        Err(error) => file.fail(error),
    }
    let blocked: Duration = file.blocked + start.elapsed();
    let mine = Closed {
        code: 0,
        failed: file.failed.clone(),
        records: 0,
        filled: Vec::new(),
        bytes: file.log.bytes(),
        blocked_s: blocked.as_secs_f64(),
    };
    let Captured { ranks, target, rule, directory, .. } = &*file;
    let finished: Result<()> = finish(&Ending { ranks, target, rule, directory, session: 0 }, &mine);
    finished
        .map_err(|error: Error| {
            if file.failed.is_none() {
                eprintln!("knarr: {}: {error}", file.target.display())
            }
        })
        .is_ok()
}
