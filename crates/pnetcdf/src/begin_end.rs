//! How a captured file begins and ends: PnetCDF has its header in the spool.

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use knarr_capture::{Event, Part};
use knarr_captured::{
    Agreed, Closed, Ending, Headers, Ranks, Unplaced, Wanted, agree_on_place, finish, forget, matched,
};

use crate::codes::{EPENDING, EWRITE, NOCLOBBER, NOERR, has_opened};
use crate::file::{Captured, Values};
use crate::files;
use crate::real::real;

type Create = unsafe extern "C" fn(usize, *const c_char, c_int, usize, *mut c_int) -> c_int;

/// Creates a file whose values are handed over. `None` if the file is left to the library, which has not been called.
///
/// # Safety
/// The arguments are those of `ncmpi_create`; `real` is that function.
pub(crate) unsafe fn create(
    real: Create,
    comm: usize,
    path: *const c_char,
    mode: c_int,
    info: usize,
    id: *mut c_int,
) -> Option<c_int> {
    if path.is_null() || id.is_null() {
        return None;
    }
    let start = Instant::now();
    // SAFETY: PnetCDF wants a NUL-terminated name.
    let named = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
    let wanted = matched(named, Some(Part::Writes))?;
    let passed = |why: String| wanted.run.tell(Event::Passed { path: wanted.target.clone(), why });
    if let Some(why) = wanted.rule.route.traits().classic_is_left {
        passed(why.to_owned());
    }
    if !wanted.is_captured() {
        return None;
    }
    wanted.run.tell(Event::Calls);
    if wanted.part == Some(Part::Reads) {
        passed("this component only reads it".to_owned());
        return None;
    }
    // SAFETY: the program's own communicator.
    let ranks = match unsafe { Ranks::of(comm, &wanted.run.rules().adapters) } {
        Ok(ranks) => ranks,
        Err(error) => {
            passed(error.to_string());
            return None;
        }
    };
    let Agreed { directory, log, session } =
        match agree_on_place(&wanted, &ranks, mode & NOCLOBBER != 0, Headers::Shared) {
            Ok(agreed) => agreed,
            Err(Unplaced { why, .. }) => {
                why.into_iter().for_each(passed);
                return None;
            }
        };
    let header = CString::new(ranks.header(&directory).as_os_str().as_bytes()).ok()?;
    // SAFETY: the program's own arguments but for the name.
    let code = unsafe { real(comm, header.as_ptr(), mode, info, id) };
    if !has_opened(code) {
        forget(&directory, &ranks);
    }
    // If there is no room for a header in the spool, the library creates the file itself, or says what is wrong.
    match (ranks.largest(u64::from(!has_opened(code))), has_opened(code)) {
        (Ok(0), _) => {}
        (_, false) if matches!(ranks.largest(0), Ok(0)) => return None,
        (_, true) if ranks.largest(1).is_ok() => {}
        _ => return Some(code),
    }
    // SAFETY: the library has put the number there.
    let number = unsafe { *id };
    let Wanted { target, rule, .. } = wanted;
    let values = Values::Own(Box::new(log));
    files::add(Captured::new(number, named.to_vec(), target, rule, directory, session, ranks, values, start.elapsed()));
    Some(code)
}

/// Removes what was put into a file of which nothing will be made.
fn give_up(file: &Ending<'_>) {
    forget(file.directory, file.ranks);
}

fn ending(file: &Captured) -> Ending<'_> {
    let Captured { ranks, target, rule, directory, session, .. } = file;
    Ending { ranks, target, rule, directory, session: *session }
}

/// Closes a captured file, or ends it by `ncmpi_abort`. `None` if `id` is none. Collective.
pub(crate) fn end(id: c_int, aborts: bool) -> Option<c_int> {
    let file = files::take(id)?;
    let start = Instant::now();
    let mut file = file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let pending = file.requests.len();
    let filled = if file.session > 0 { file.filled() } else { Vec::new() };
    // SAFETY: PnetCDF's functions for a file that it knows.
    let code = unsafe { if aborts { real!(ncmpi_abort(c_int))(id) } else { real!(ncmpi_close(c_int))(id) } };
    let Captured { values, ranks, .. } = &mut *file;
    if let Values::Incoming(incoming) = values {
        incoming.end_together(ranks.comm());
        return Some(if code == NOERR && pending > 0 { EPENDING } else { code });
    }
    if matches!(file.values, Values::Beside(_)) {
        return Some(code);
    }
    if aborts && file.is_new {
        give_up(&ending(&file));
        return Some(code);
    }
    let logged = if let Values::Own(log) = &mut file.values { log.close() } else { 0 };
    let mine = Closed {
        code,
        failed: file.failure().or_else(|| file.publish().err()),
        records: file.records,
        filled,
        bytes: file.bytes(),
        logged,
        blocked_s: (file.blocked + start.elapsed()).as_secs_f64(),
    };
    let code = match finish(&ending(&file), &mine) {
        Ok(()) => code,
        Err(_) if code == NOERR => EWRITE,
        Err(_) => code,
    };
    Some(if code == NOERR && pending > 0 { EPENDING } else { code })
}
