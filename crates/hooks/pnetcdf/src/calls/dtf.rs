//! The functions of DTF, the Data Transfer Framework, for C and for Fortran. Programs call them beside those of PnetCDF:
//! `dtf_transfer` says that a session of a file is complete so far. All else that DTF does there, Knarr does in calls of PnetCDF.
//!
//! `crates/dtf` has the same names without any effect, for programs to be linked with.

use std::ffi::{CStr, c_char, c_int};
use std::path::Path;

use knarr_capture::Event;
use knarr_capture::program::run;
use knarr_captured::sessions::count_transfers;
use knarr_captured::wanted;

use crate::codes::NOERR;
use crate::file::{Captured, Transfer};
use crate::files;

/// The component has another name than the run.
const OTHER_NAME: c_int = 1;

/// What was put so far is shown to the components that read the file; or what was to be got is there.
///
/// # Safety
/// `path` is null or NUL-terminated.
unsafe fn transfer(path: *const c_char, file: c_int, how: Transfer) -> c_int {
    let named = || {
        // SAFETY: the caller's promise.
        let named = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes())?;
        files::named(named, &wanted(named)?.target)
    };
    let file = if file < 0 { named() } else { Some(file) };
    file.and_then(|file| files::with(file, |captured: &mut Captured| captured.transferred(how))).unwrap_or(NOERR)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dtf_init(configuration: *const c_char, component: *const c_char) -> c_int {
    count_transfers();
    let (Some(run), false) = (run(), configuration.is_null() || component.is_null()) else { return NOERR };
    // SAFETY: DTF wants NUL-terminated names.
    let (path, name) = unsafe { (CStr::from_ptr(configuration), CStr::from_ptr(component)) };
    let (path, name) = (path.to_string_lossy(), name.to_string_lossy());
    match &run.rules().component {
        Some(known) if !known.eq_ignore_ascii_case(&name) => {
            let path = std::path::absolute(Path::new(&*path)).unwrap_or_default();
            let why = format!("the program calls itself component '{name}', and the run is '{known}': correct --as");
            run.notify(Event::Missed { path, why });
            OTHER_NAME
        }
        _ => NOERR,
    }
}

#[unsafe(no_mangle)]
extern "C" fn dtf_finalize() -> c_int {
    NOERR
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dtf_transfer(path: *const c_char, file: c_int) -> c_int {
    // SAFETY: DTF wants a NUL-terminated name.
    unsafe { transfer(path, file, Transfer::Once) }
}

#[unsafe(no_mangle)]
extern "C" fn dtf_transfer_all_files() -> c_int {
    let transfer = |file| files::with(file, |captured: &mut Captured| captured.transferred(Transfer::Once));
    let codes = files::all().into_iter().filter_map(transfer);
    codes.fold(NOERR, |first, code| if first == NOERR { code } else { first })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dtf_transfer_multiple(path: *const c_char, file: c_int) {
    // SAFETY: DTF wants a NUL-terminated name.
    unsafe { transfer(path, file, Transfer::Several) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dtf_complete_multiple(path: *const c_char, file: c_int) {
    // SAFETY: DTF wants a NUL-terminated name.
    unsafe { transfer(path, file, Transfer::Completed) };
}

#[unsafe(no_mangle)]
extern "C" fn dtf_time_start() {}

#[unsafe(no_mangle)]
extern "C" fn dtf_time_end() {}

/// Puts a result where a Fortran program wants it.
///
/// # Safety
/// `result` is null or has room for it.
unsafe fn give(code: c_int, result: *mut c_int) {
    // SAFETY: the caller's promise.
    if let Some(result) = unsafe { result.as_mut() } {
        *result = code;
    }
}

/// A number that a Fortran program passes.
///
/// # Safety
/// `number` is null or leads to one.
unsafe fn given(number: *const c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { number.as_ref() }.copied().unwrap_or(-1)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dtf_init_(configuration: *const c_char, component: *const c_char, result: *mut c_int) {
    // SAFETY: the program's own arguments; Fortran programs end the names by a zero, too.
    unsafe { give(dtf_init(configuration, component), result) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dtf_finalize_(result: *mut c_int) {
    // SAFETY: the program's own argument.
    unsafe { give(dtf_finalize(), result) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dtf_transfer_(path: *const c_char, file: *const c_int, result: *mut c_int) {
    // SAFETY: the program's own arguments.
    unsafe { give(transfer(path, given(file), Transfer::Once), result) };
}

#[unsafe(no_mangle)]
extern "C" fn dtf_transfer_all_files_() {
    dtf_transfer_all_files();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dtf_transfer_multiple_(path: *const c_char, file: *const c_int) {
    // SAFETY: the program's own arguments.
    unsafe { transfer(path, given(file), Transfer::Several) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dtf_complete_multiple_(path: *const c_char, file: *const c_int) {
    // SAFETY: the program's own arguments.
    unsafe { transfer(path, given(file), Transfer::Completed) };
}

#[unsafe(no_mangle)]
extern "C" fn dtf_time_start_() {}

#[unsafe(no_mangle)]
extern "C" fn dtf_time_end_() {}
