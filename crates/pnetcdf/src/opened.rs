//! Files that a program opens. PnetCDF reads classic files only; a netCDF-4 file, as Knarr makes them of what was handed over,
//! is shown to it as a classic one in the spool.

use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};

use knarr_array::comm::share;
use knarr_array::error::ErrorKind;
use knarr_capture::{Event, Form, Part};
use knarr_captured::{Ranks, Wanted, await_delivery, await_elsewhere, show, wanted_to};
use knarr_config::Output;

use crate::arriving;
use crate::beside;
use crate::codes::EREAD;
use crate::real::Open;
use crate::shown::open_shown;

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
    let wanted = wanted_to(named, Some(Part::Reads))?;
    // SAFETY: the program's own communicator.
    let mut ranks = unsafe { Ranks::of(comm, &wanted.run.rules().adapters) }.ok()?;
    if wanted.part == Some(Part::Reads) {
        // SAFETY: the program's own arguments.
        match unsafe { arriving::open(real, (comm, mode, info, id), named, &wanted, ranks) } {
            Ok(code) => return Some(code),
            Err(back) => ranks = back,
        }
    }
    // SAFETY: the program's own arguments.
    match unsafe { beside::open(real, (comm, mode, info, id), named, &wanted, ranks) } {
        Ok(code) => return Some(code),
        Err(back) => ranks = back,
    }
    // The first rank asks for all.
    let is_first = ranks.comm().rank() == 0;
    let is_made = !is_first || await_delivery(&wanted.target) && await_elsewhere(&wanted.target);
    if !share(ranks.comm(), &is_made).ok()? {
        if is_first {
            let text = "it could not be made: the program is not shown an older version".to_owned();
            wanted.run.tell(Event::Note { path: wanted.target.clone(), text });
        }
        return Some(EREAD);
    }
    if !is_first {
        await_delivery(&wanted.target);
    }
    let source = if ranks.comm().rank() == 0 { shown_source(&wanted) } else { None };
    if !share(ranks.comm(), &source.is_some()).ok()? {
        return None;
    }
    let shown = match show(&wanted, &ranks, source.unwrap_or_default(), Form::Classic) {
        Ok(shown) => shown,
        Err(error) => {
            // The library's own error comes next.
            if ranks.comm().rank() == 0 && error.kind() != ErrorKind::NotFound {
                wanted.run.tell(Event::Passed { path: wanted.target.clone(), why: error.to_string() });
            }
            return None;
        }
    };
    // SAFETY: the program's own arguments.
    unsafe { open_shown(real, (comm, mode, info, id), named, &wanted, (ranks, shown, None)) }
}

/// What is to be shown in place of the file; `None` if PnetCDF reads that itself.
fn shown_source(wanted: &Wanted) -> Option<PathBuf> {
    if is_hdf5(&wanted.target) {
        return Some(wanted.target.clone());
    }
    let made = wanted.rule.made_of(&wanted.target);
    // What is in a bucket the launcher finds out.
    let is_store = made.is_dir() || matches!(wanted.rule.compress.output(), Output::S3(_));
    (is_store && !wanted.target.exists()).then_some(made)
}

fn is_hdf5(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *b"\x89HDF\r\n\x1a\n"
}
