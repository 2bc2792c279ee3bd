//! Directories that a program reads entry by entry. What is not in its place yet comes at the end: what other components have closed,
//! and what the program itself writes in a tier. It stays where it is: who only lists a directory needs no files.

use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::dirent64;

use super::asked::asked;
use super::does::Does;
use super::next::{behind, fail};
use super::transferred::{has_any, listed};
use super::uses::Use;
use super::whole;

/// A directory that is read, with names besides those on the disk.
struct Stream {
    /// The stream of the C library.
    of: usize,
    names: Vec<OsString>,
    /// How many the program has.
    given: usize,
    /// The one that it got last.
    entry: Box<dirent64>,
}

// SAFETY: the entry is plain memory.
unsafe impl Send for Stream {}

static STREAMS: Mutex<Vec<Stream>> = Mutex::new(Vec::new());
/// How many there are: mostly none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn with<T>(stream: *mut c_void, work: impl FnOnce(&mut Vec<Stream>, usize) -> T) -> Option<T> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = streams.iter().position(|known| known.of == stream as usize)?;
    let done = work(&mut streams, at);
    COUNT.store(streams.len(), Ordering::Release);
    Some(done)
}

/// The program reads a directory.
fn begin(stream: *mut c_void, path: *const c_char) {
    if stream.is_null() || path.is_null() {
        return;
    }
    // SAFETY: a path that a program gives the C library ends in a zero.
    let path = unsafe { CStr::from_ptr(path) };
    let mut names = listed(path);
    names.extend(whole::listed(path));
    if names.is_empty() {
        return;
    }
    // SAFETY: all of it may be zero.
    let entry = Box::new(unsafe { std::mem::zeroed() });
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    streams.push(Stream { of: stream as usize, names, given: 0, entry });
    COUNT.store(streams.len(), Ordering::Release);
}

/// The next name besides those on the disk; null if there is none.
fn next(stream: *mut c_void) -> *mut c_void {
    let next = |streams: &mut Vec<Stream>, at: usize| {
        let stream = streams.get_mut(at)?;
        while let Some(name) = stream.names.get(stream.given) {
            stream.given += 1;
            let bytes = name.clone().into_vec();
            let entry = &mut *stream.entry;
            // The last byte stays zero.
            let Some(place) = entry.d_name.get_mut(..bytes.len()).filter(|_| bytes.len() < 256) else { continue };
            place.iter_mut().zip(&bytes).for_each(|(place, byte)| *place = byte.cast_signed());
            entry.d_name.iter_mut().skip(bytes.len()).for_each(|place| *place = 0);
            entry.d_ino = 1;
            entry.d_type = libc::DT_REG;
            entry.d_reclen = u16::try_from(size_of::<dirent64>()).unwrap_or(0);
            return Some(std::ptr::from_mut(entry).cast());
        }
        None
    };
    with(stream, next).flatten().unwrap_or_else(null_mut)
}

type Reads = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

#[unsafe(export_name = "opendir")]
unsafe extern "C" fn open(path: *const c_char) -> *mut c_void {
    let real = behind!(c"opendir", unsafe extern "C" fn(*const c_char) -> *mut c_void);
    // SAFETY: the program's own argument.
    let call = || real.map_or_else(|| fail(libc::ENOSYS), |real| unsafe { real(path) });
    let stream = asked(|| Use::of(path, Does::Lists), call);
    begin(stream, path);
    stream
}

#[unsafe(export_name = "fdopendir")]
unsafe extern "C" fn open_descriptor(descriptor: c_int) -> *mut c_void {
    let real = behind!(c"fdopendir", unsafe extern "C" fn(c_int) -> *mut c_void);
    let mut path = [0u8; 32];
    let is_named = write!(&mut path[..], "/proc/self/fd/{descriptor}\0").is_ok();
    let path: *const c_char = path.as_ptr().cast();
    // SAFETY: the program's own argument.
    let call = || real.map_or_else(|| fail(libc::ENOSYS), |real| unsafe { real(descriptor) });
    let stream = asked(|| Use::at(descriptor, c".".as_ptr(), Does::Lists), call);
    if is_named && (has_any() || whole::may_list()) {
        begin(stream, path);
    }
    stream
}

/// The name of an entry.
///
/// # Safety
/// `entry` is one of the C library, whose name ends in a zero. It is not read again as long as the name is used.
unsafe fn name_of<'e>(entry: *mut c_void) -> &'e [u8] {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr((*entry.cast::<dirent64>()).d_name.as_ptr()) }.to_bytes()
}

/// True for the hidden file that is to become one of the names besides those on the disk: it is listed under that.
///
/// # Safety
/// As for [`name_of`].
unsafe fn is_on_its_way(stream: *mut c_void, entry: *mut c_void) -> bool {
    // SAFETY: the caller's promise.
    let found = unsafe { name_of(entry) };
    let becomes = |name: &OsString| {
        let rest = found.strip_prefix(b".").and_then(|found| found.strip_prefix(name.as_encoded_bytes()));
        rest.is_some_and(|rest| rest.starts_with(TEMPORARY))
    };
    with(stream, |streams, at| streams.get(at).is_some_and(|stream| stream.names.iter().any(becomes))).unwrap_or(false)
}

/// What the name of such a file has behind that name.
const TEMPORARY: &[u8] = b".knarr-";

/// Reads an entry of the disk, or what comes behind all of them.
///
/// # Safety
/// As for `readdir`, which is `real`.
unsafe fn read(real: Option<Reads>, stream: *mut c_void) -> *mut c_void {
    let entry = loop {
        // SAFETY: the caller's promise.
        let entry = real.map_or_else(null_mut, |real| unsafe { real(stream) });
        if entry.is_null() {
            return next(stream);
        }
        // SAFETY: an entry of the C library.
        if !unsafe { is_on_its_way(stream, entry) } {
            break entry;
        }
    };
    // SAFETY: an entry of the C library.
    let found = unsafe { name_of(entry) };
    // It may have got to its place meanwhile.
    let is_it = |name: &OsString| found == name.as_encoded_bytes();
    let _ = with(stream, |streams, at| {
        streams.get_mut(at).into_iter().for_each(|stream| {
            let given = stream.given;
            let mut number = 0;
            stream.names.retain(|name| {
                number += 1;
                number <= given || !is_it(name)
            });
        });
    });
    entry
}

#[unsafe(export_name = "readdir")]
unsafe extern "C" fn read_entry(stream: *mut c_void) -> *mut c_void {
    let real = behind!(c"readdir", Reads);
    // SAFETY: the program's own argument.
    unsafe { read(real, stream) }
}

/// On 64-bit systems an entry has one layout.
#[unsafe(export_name = "readdir64")]
unsafe extern "C" fn read_large_entry(stream: *mut c_void) -> *mut c_void {
    let real = behind!(c"readdir64", Reads);
    // SAFETY: the program's own argument.
    unsafe { read(real, stream) }
}

#[unsafe(export_name = "rewinddir")]
unsafe extern "C" fn rewind(stream: *mut c_void) {
    let again =
        |streams: &mut Vec<Stream>, at: usize| streams.get_mut(at).iter_mut().for_each(|stream| stream.given = 0);
    let _ = with(stream, again);
    if let Some(real) = behind!(c"rewinddir", unsafe extern "C" fn(*mut c_void)) {
        // SAFETY: the program's own argument.
        unsafe { real(stream) }
    }
}

#[unsafe(export_name = "closedir")]
unsafe extern "C" fn close(stream: *mut c_void) -> c_int {
    // Before: another stream may be where this was.
    let _ = with(stream, |streams, at| drop(streams.swap_remove(at)));
    let real = behind!(c"closedir", unsafe extern "C" fn(*mut c_void) -> c_int);
    // SAFETY: the program's own argument.
    real.map_or_else(|| fail(libc::ENOSYS), |real| unsafe { real(stream) })
}
