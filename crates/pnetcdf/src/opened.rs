//! Files that a program opens. PnetCDF reads classic files only; a netCDF-4 file, as Knarr makes them of what was handed over,
//! is shown to it as a classic one in the spool.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use knarr_array::comm::{barrier, share};
use knarr_array::error::{Error, Result};
use knarr_capture::config::{FileRule, Output, zarr_name};
use knarr_capture::program::run;
use knarr_capture::{Event, HandedOver, Part, Shown};
use serde::{Deserialize, Serialize};

use crate::apart::Homes;
use crate::arriving;
use crate::begin_end::{LOOK_EVERY, Wanted, await_delivery, forget, make_directory, wanted};
use crate::codes::{NOERR, WRITE};
use crate::ranks::Ranks;
use crate::real::{Open, real};

/// A file that is shown.
struct Opened {
    named: Vec<u8>,
    target: PathBuf,
    rule: FileRule,
    directory: PathBuf,
    ranks: Ranks,
    /// The program may change it: it is delivered again.
    writes: bool,
}

static OPENED: Mutex<BTreeMap<c_int, Opened>> = Mutex::new(BTreeMap::new());

/// What the first rank found.
#[derive(Serialize, Deserialize)]
enum Found {
    /// The library opens the file itself.
    Classic,
    /// Name of the directory where it is shown, and path of the classic file.
    In(String, Vec<u8>),
}

/// Opens a file, after what was handed over under its name has been delivered. `None` if the library is to open the file
/// itself.
///
/// # Safety
/// The arguments are those of `ncmpi_open`; `real` is that function.
pub(crate) unsafe fn open(
    real: Open,
    comm: usize,
    path: *const c_char,
    mode: c_int,
    info: usize,
    id: *mut c_int,
) -> Option<c_int> {
    if path.is_null() || id.is_null() {
        return None;
    }
    // SAFETY: PnetCDF wants a NUL-terminated name.
    let named = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
    let wanted = wanted(named)?;
    // SAFETY: the program's own communicator.
    let mut ranks = unsafe { Ranks::of(comm, &wanted.run.rules().adapters) }.ok()?;
    if wanted.part == Some(Part::Reads) {
        // SAFETY: the program's own arguments.
        match unsafe { arriving::open(real, (comm, mode, info, id), named, &wanted, ranks) } {
            Ok(code) => return Some(code),
            Err(back) => ranks = back,
        }
    }
    let homes = Homes::meet(ranks.comm(), wanted.spool).ok()?;
    let found = if ranks.comm().rank() == 0 {
        await_delivery(&wanted.target);
        show(&wanted, homes.are_apart()).unwrap_or_else(|error| {
            // The library's own error comes next.
            wanted.run.tell(Event::Passed { path: wanted.target.clone(), why: error.to_string() });
            Found::Classic
        })
    } else {
        Found::Classic
    };
    let Ok(Found::In(name, classic)) = share(ranks.comm(), &found) else { return None };
    let directory = wanted.spool.directory.join(name);
    let classic = CString::new(classic).ok()?;
    // SAFETY: the program's own arguments but for the name.
    let code = unsafe { real(comm, classic.as_ptr(), mode, info, id) };
    if code != NOERR {
        forget(&directory, &ranks);
        return Some(code);
    }
    let Wanted { target, rule, .. } = wanted;
    let opened = Opened { named: named.to_vec(), target, rule, directory, ranks, writes: mode & WRITE != 0 };
    // SAFETY: the library has put the number there.
    let number = unsafe { *id };
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).insert(number, opened);
    Some(code)
}

/// Has the launcher show the file if it is a netCDF-4 file, and waits for it. If the ranks are on several nodes, the classic
/// file lies where all of them reach it.
fn show(wanted: &Wanted, are_apart: bool) -> Result<Found> {
    let store = zarr_name(&wanted.target);
    let source = if is_hdf5(&wanted.target) {
        wanted.target.clone()
    } else if wanted.rule.compress.output() == Output::Zarr && !wanted.target.exists() && store.is_dir() {
        store
    } else {
        return Ok(Found::Classic);
    };
    let name = make_directory(&wanted.spool.directory)?;
    let directory = wanted.spool.directory.join(&name);
    let mut classic = directory.join(Shown::CLASSIC);
    if are_apart {
        let there = wanted.spool.disk.join(format!("classic-{}-{name}.nc", wanted.spool.token));
        // It goes with the directory.
        std::os::unix::fs::symlink(&there, &classic).map_err(|error| Error::write(&classic, &error))?;
        classic = there;
    }
    let shown = Shown { source, rule: wanted.rule.clone() };
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
    outcome.map(|()| Found::In(name, classic.as_os_str().as_bytes().to_vec()))
}

fn is_hdf5(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *b"\x89HDF\r\n\x1a\n"
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
