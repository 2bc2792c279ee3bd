//! How a captured file begins and ends: PnetCDF has its header in the spool.

use std::ffi::{c_char, c_int};
use std::time::Instant;

use knarr_capture::{Event, Part};
use knarr_captured::{Begins, CapturedFile, Closed, Headers, Ranks, Unplaced, lock, matched};

use crate::codes::{EPENDING, EWRITE, NOCLOBBER, NOERR};
use crate::file::Captured;
use crate::files;
use crate::real::{Opening, real};

/// Creates a file whose values are handed over. `None` if the file is left to the library, which has not been called.
///
/// # Safety
/// The arguments are those of `ncmpi_create`.
pub(crate) unsafe fn create(opening: Opening, path: *const c_char) -> Option<c_int> {
    if path.is_null() || opening.id.is_null() {
        return None;
    }
    let start = Instant::now();
    // SAFETY: PnetCDF wants a NUL-terminated name.
    let named = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
    let wanted = matched(named, Some(Part::Writes))?;
    if let Some(why) = wanted.rule.route().traits().classic_is_left {
        wanted.passed(why.to_owned());
    }
    if !wanted.is_captured() {
        return None;
    }
    wanted.run.notify(Event::Calls);
    if wanted.part == Some(Part::Reads) {
        wanted.passed("this component only reads it".to_owned());
        return None;
    }
    // SAFETY: the program's own communicator.
    let ranks = match unsafe { Ranks::of(opening.comm, &wanted.run.rules().adapters) } {
        Ok(ranks) => ranks,
        Err(error) => {
            wanted.passed(error.to_string());
            return None;
        }
    };
    let begins = Begins { is_new: opening.mode & NOCLOBBER != 0, headers: Headers::Shared, filters: None };
    let file = match CapturedFile::begin(&wanted, named, ranks, begins) {
        Ok(file) => file,
        Err(Unplaced { why, .. }) => {
            why.into_iter().for_each(|why| wanted.passed(why));
            return None;
        }
    };
    // SAFETY: the program's own arguments but for the name.
    let (code, number) = unsafe { opening.at(&file.header()) }?;
    if number.is_none() {
        file.forget();
    }
    // If there is no room for a header in the spool, the library creates the file itself, or says what is wrong.
    let number = match (file.ranks.largest(u64::from(number.is_none())), number) {
        (Ok(0), Some(number)) => number,
        (_, None) if matches!(file.ranks.largest(0), Ok(0)) => return None,
        (_, Some(number)) if file.ranks.largest(1).is_ok() => number,
        _ => return Some(code),
    };
    files::add(Captured::new(number, file), start);
    Some(code)
}

/// Closes a captured file, or ends it by `ncmpi_abort`. `None` if `id` is none. Collective.
pub(crate) fn end(id: c_int, aborts: bool) -> Option<c_int> {
    let file = files::take(id)?;
    let start = Instant::now();
    let mut captured = lock(&file);
    let pending = captured.requests.len();
    let filled = if captured.common.session > 0 { captured.filled() } else { Vec::new() };
    // SAFETY: PnetCDF's functions for a file that it knows.
    let code = unsafe { if aborts { real!(ncmpi_abort(c_int))(id) } else { real!(ncmpi_close(c_int))(id) } };
    if captured.common.end_incoming() {
        return Some(if code == NOERR && pending > 0 { EPENDING } else { code });
    }
    if captured.reopened.is_some() {
        return Some(code);
    }
    if aborts && captured.is_new {
        captured.common.forget();
        return Some(code);
    }
    // A log that is closed leaves room for the header that is shown.
    captured.common.close_log();
    let failed = captured.failure().or_else(|| captured.common.publish().err());
    let closed = Closed { code, failed, records: captured.records, filled };
    let code = match captured.common.finish(closed, start) {
        Ok(()) => code,
        Err(_) if code == NOERR => EWRITE,
        Err(_) => code,
    };
    Some(if code == NOERR && pending > 0 { EPENDING } else { code })
}
