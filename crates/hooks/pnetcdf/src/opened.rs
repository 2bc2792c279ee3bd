//! Files that a program opens. PnetCDF reads classic files only; a netCDF-4 file, as Knarr makes them of what was handed over,
//! is shown to it as a classic one in the spool.

use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};

use knarr_array::comm::share;
use knarr_array::error::ErrorKind;
use knarr_capture::{Form, Part};
use knarr_captured::{Ranks, Wanted, await_delivery, await_everywhere, transcode, wanted_to};

use crate::codes::EREAD;
use crate::open_session;
use crate::real::Opening;
use crate::reopened;
use crate::transcoded::open_transcoded;

/// Opens a file, after what was handed over under its name has been delivered. `None` if the library is to open the file
/// itself.
///
/// # Safety
/// The arguments are those of `ncmpi_open`.
pub(crate) unsafe fn open(opening: Opening, path: *const c_char) -> Option<c_int> {
    if path.is_null() || opening.id.is_null() {
        return None;
    }
    // SAFETY: PnetCDF wants a NUL-terminated name.
    let named = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
    let wanted = wanted_to(named, Some(Part::Reads))?;
    // SAFETY: the program's own communicator.
    let mut ranks = unsafe { Ranks::of(opening.comm, &wanted.run.rules().adapters) }.ok()?;
    if wanted.part == Some(Part::Reads) {
        // SAFETY: the program's own arguments.
        match unsafe { open_session::open(opening, named, &wanted, ranks) } {
            Ok(code) => return Some(code),
            Err(back) => ranks = back,
        }
    }
    // SAFETY: the program's own arguments.
    match unsafe { reopened::open(opening, named, &wanted, ranks) } {
        Ok(code) => return Some(code),
        Err(back) => ranks = back,
    }
    // The first rank asks for all.
    let is_first = ranks.comm().rank() == 0;
    let is_made = !is_first || await_everywhere(&wanted.target);
    if !share(ranks.comm(), &is_made).ok()? {
        return Some(EREAD);
    }
    if !is_first {
        await_delivery(&wanted.target);
    }
    let source = if ranks.comm().rank() == 0 { shown_source(&wanted) } else { None };
    if !share(ranks.comm(), &source.is_some()).ok()? {
        return None;
    }
    let shown = match transcode(&wanted, &ranks, source.unwrap_or_default(), Form::Classic) {
        Ok(shown) => shown,
        Err(error) => {
            // The library's own error comes next.
            if ranks.comm().rank() == 0 && error.kind() != ErrorKind::NotFound {
                wanted.passed(error.to_string());
            }
            return None;
        }
    };
    // SAFETY: the program's own arguments.
    unsafe { open_transcoded(opening, named, &wanted, (ranks, shown, None)) }
}

/// What is to be shown in place of the file; `None` if PnetCDF reads that itself.
fn shown_source(wanted: &Wanted) -> Option<PathBuf> {
    if is_hdf5(&wanted.target) {
        return Some(wanted.target.clone());
    }
    let made = wanted.rule.made_of(&wanted.target);
    // What is in a bucket the launcher finds out.
    let is_store = made.is_dir() || wanted.rule.compress().output().url().is_some();
    (is_store && !wanted.target.exists()).then_some(made)
}

fn is_hdf5(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *b"\x89HDF\r\n\x1a\n"
}
