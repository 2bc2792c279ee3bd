//! The HDF5 C library behind a small safe surface. All `unsafe` of this crate lives in this folder.
//!
//! Every call runs under the one lock of `hdf5-metno-sys`, which is reentrant, so functions here may call
//! each other. The library's own error printing is off; its error stack becomes our [`Error`].
//!
//! Reading order: `types`, `objects`, `datasets`, `drivers` (how files are read and written), `checksum`.

mod checksum;
mod datasets;
mod drivers;
mod objects;
mod types;

pub(crate) use checksum::checksum;
pub(crate) use datasets::dataset::Dataset;
pub(crate) use datasets::grow::grow;
pub(crate) use datasets::plist::{DatasetLayout, Plist, forget_filter, has_filter, pretend_filter};
pub(crate) use objects::attribute::Attr;
pub(crate) use objects::file::File;
pub(crate) use objects::link::{Link, LinkTarget};
pub(crate) use objects::object::{Address, Group, Object, ObjectKind};
pub(crate) use types::datatype::{Class, Datatype, Extent, ReferenceKind, Space};
pub(crate) use types::inside::Inside;
pub(crate) use types::memory::{Memory, References};

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::os::raw::{c_uint, c_void};

use hdf5_metno_sys::h5::{H5dont_atexit, H5open, herr_t};
use hdf5_metno_sys::h5e::{H5E_DEFAULT, H5E_direction_t, H5E_error2_t, H5Eclear2, H5Eset_auto2, H5Ewalk2};
use hdf5_metno_sys::h5i::{H5Idec_ref, hid_t};
use knarr_array::error::{Error, ErrorKind, Result};

thread_local! {
    /// Error printing is a per-thread setting of the library.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with the library to ourselves.
pub(crate) fn locked<T>(f: impl FnOnce() -> T) -> T {
    let _lock = hdf5_metno_sys::LOCK.lock();
    if !QUIET.get() {
        // Handles are closed by their owners. At exit the library would write out files that could not be written
        // before, and fail again.
        // SAFETY: H5dont_atexit counts before the first H5open, and both may be called any number of times; a
        // null callback turns printing off.
        unsafe {
            H5dont_atexit();
            H5open();
            H5Eset_auto2(H5E_DEFAULT, None, std::ptr::null_mut());
        }
        QUIET.set(true);
    }
    f()
}

/// Return types of the library: negative means failure.
pub(crate) trait Status: Copy {
    fn failed(self) -> bool;
}

impl Status for i32 {
    fn failed(self) -> bool {
        self < 0
    }
}

impl Status for i64 {
    fn failed(self) -> bool {
        self < 0
    }
}

impl Status for isize {
    fn failed(self) -> bool {
        self < 0
    }
}

/// Runs one call under the lock; a negative result becomes an error that says what was tried and why it failed.
pub(crate) fn call<T: Status>(what: &str, f: impl FnOnce() -> T) -> Result<T> {
    locked(|| {
        // The library clears the error stack of the thread when a function is entered.
        let status = f();
        if status.failed() { Err(last_error(what)) } else { Ok(status) }
    })
}

/// As [`call`], for functions that return a new identifier.
fn made(what: &str, f: impl FnOnce() -> hid_t) -> Result<Id> {
    call(what, f).map(Id)
}

/// An identifier of the library, given back when dropped.
#[derive(Debug)]
pub(crate) struct Id(hid_t);

impl Id {
    fn raw(&self) -> hid_t {
        self.0
    }

    /// Gives the identifier back and reports a failure, which dropping cannot.
    fn close(self, what: &str) -> Result<()> {
        let id = self.0;
        std::mem::forget(self);
        // SAFETY: the handle owned one reference, given up here exactly once.
        call(what, || unsafe { H5Idec_ref(id) }).map(|_| ())
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        let id = self.0;
        // SAFETY: the handle owns one reference, given up here exactly once.
        locked(|| unsafe { H5Idec_ref(id) });
    }
}

/// Collected from the innermost entry outwards.
struct Stack {
    entries: Vec<(String, String)>,
}

unsafe extern "C" fn collect(_n: c_uint, entry: *const H5E_error2_t, data: *mut c_void) -> herr_t {
    let text = |pointer: *const std::os::raw::c_char| {
        if pointer.is_null() {
            String::new()
        } else {
            // SAFETY: the library hands NUL-terminated strings that live during the callback.
            unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
        }
    };
    // SAFETY: `data` is the `Stack` that `last_error` lends for the walk; `entry` lives during the callback.
    let (stack, entry) = unsafe { (&mut *data.cast::<Stack>(), &*entry) };
    stack.entries.push((text(entry.func_name), text(entry.desc)));
    0
}

/// The innermost description of the library's error stack says what went wrong.
fn last_error(what: &str) -> Error {
    let mut stack = Stack { entries: Vec::new() };
    // SAFETY: the callback only touches `stack`, which outlives the walk.
    unsafe {
        H5Ewalk2(
            H5E_DEFAULT,
            H5E_direction_t::H5E_WALK_UPWARD,
            Some(collect),
            std::ptr::from_mut(&mut stack).cast::<c_void>(),
        );
        H5Eclear2(H5E_DEFAULT);
    }
    let reason = stack.entries.first().map_or("no reason given", |(_, reason)| reason.as_str());
    let everything = || stack.entries.iter().map(|(_, text)| text.as_str());
    let any = |needle: &str| everything().any(|text| text.contains(needle));
    let missing = everything().find(|text| text.contains("required filter") || text.contains("is not registered"));
    let error = |kind, reason: &str| Error::new(kind, format!("HDF5 cannot {what}: {}", shorten(reason)));
    if let Some(reason) = missing {
        return error(ErrorKind::MissingFilter, reason);
    }
    if any("No space left on device") || any("Disk quota exceeded") || any("File too large") {
        let reason = everything().find(|text| text.contains("error message")).unwrap_or(reason);
        return error(ErrorKind::Write, reason).hint("free space or write to another directory");
    }
    if any("Permission denied") || any("Read-only file system") {
        return error(ErrorKind::Write, reason).hint("choose a directory you may write to");
    }
    if any("file write failed") || any("writing") && any("errno") {
        return error(ErrorKind::Write, reason);
    }
    if any("Input/output error") {
        return error(ErrorKind::Read, reason);
    }
    error(ErrorKind::Corrupt, reason)
}

/// System-call reports carry buffer addresses and times of day, which say nothing to people.
fn shorten(reason: &str) -> String {
    match (reason.find("error message = '"), reason.find(", buf = ")) {
        (Some(start), Some(end)) if start < end => {
            reason[start + "error message = '".len()..end].trim_end_matches('\'').to_owned()
        }
        _ => reason.to_owned(),
    }
}

/// A name for the C side. Names with NUL bytes do not occur in HDF5 files.
fn c_string(name: &[u8]) -> Result<CString> {
    CString::new(name).map_err(|_| Error::usage("a name contains a NUL byte"))
}

/// Reads a string through the library's two-step protocol: length first, then the bytes.
fn read_string(what: &str, f: impl Fn(*mut std::os::raw::c_char, usize) -> isize) -> Result<Vec<u8>> {
    locked(|| {
        let length = call(what, || f(std::ptr::null_mut(), 0))?;
        let length = usize::try_from(length).unwrap_or(0);
        let mut buffer = vec![0u8; length + 1];
        call(what, || f(buffer.as_mut_ptr().cast(), length + 1))?;
        buffer.truncate(length);
        Ok(buffer)
    })
}
