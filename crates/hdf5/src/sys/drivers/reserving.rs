//! A file driver that writes as HDF5's own does, but leaves out a chunk that another node is to write: HDF5 allocates the chunk
//! in the file and in the index, and this driver learns its offset.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use hdf5_metno_sys::h5::{haddr_t, herr_t};
use hdf5_metno_sys::h5i::hid_t;

use crate::sys::Id;
use crate::sys::drivers::driver::{self, Class, Opened};
use knarr_array::error::{Error, Result};
use knarr_codec::codec::KNARR_FILTER;

/// The driver of this file.
static RESERVING: OnceLock<hid_t> = OnceLock::new();

thread_local! {
    /// The chunk that is left out by this thread. The library writes chunks that are given whole in the call that gives them,
    /// and from where they lie.
    static LEFT_OUT: Cell<Option<LeftOut>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct LeftOut {
    /// Where its bytes lie in memory: the library writes others in the same call, of its own.
    buffer: *const u8,
    length: usize,
    /// Where it would have been written.
    at: Option<haddr_t>,
}

/// Lets the file `name`, which is there, be written with the driver; to be called under the lock.
///
/// # Errors
/// As for opening the file.
pub(in crate::sys) fn reserving(fapl: &Id, name: &CStr) -> Result<()> {
    let change = |class: &mut Class| {
        class.value = c_int::try_from(KNARR_FILTER + 1).unwrap_or(c_int::MAX);
        class.name = c"knarr-reserving".as_ptr();
        class.write = Some(write);
    };
    driver::set(fapl, name, &RESERVING, change)
}

/// Leaves out the chunk that `put` writes from `bytes`. Returns the byte of the file at which it belongs.
///
/// # Errors
/// Those of `put`; `Internal` if it has not written the chunk.
pub(in crate::sys) fn left_out(bytes: &[u8], put: impl FnOnce(&[u8]) -> Result<()>) -> Result<u64> {
    LEFT_OUT.set(Some(LeftOut { buffer: bytes.as_ptr(), length: bytes.len(), at: None }));
    let outcome = put(bytes);
    let at = LEFT_OUT.take().and_then(|left_out| left_out.at);
    outcome.and_then(|()| at.ok_or_else(|| Error::internal("HDF5 has written a chunk otherwise than at once")))
}

/// Writes as HDF5's own driver does, but for the chunk that is left out.
unsafe extern "C" fn write(
    file: *mut Opened,
    kind: c_int,
    dxpl: hid_t,
    addr: haddr_t,
    size: usize,
    buffer: *const c_void,
) -> herr_t {
    let is_it = |one: &LeftOut| one.at.is_none() && (one.buffer, one.length) == (buffer.cast(), size);
    if let Some(one) = LEFT_OUT.get().filter(is_it) {
        LEFT_OUT.set(Some(LeftOut { at: Some(addr), ..one }));
        return 0;
    }
    let Some(write) = driver::plain().and_then(|plain| plain.write) else { return -1 };
    // SAFETY: passed on from the library; its files begin as those of its own driver do.
    unsafe { write(file, kind, dxpl, addr, size, buffer) }
}
