//! Whole chunks for `knarr run`: encoded in threads, and given back one by one.

use std::ffi::{c_int, c_void};

use knarr_array::guard::guarded;
use knarr_array::{Error, Result};
use knarr_flow::online::Block;

use crate::chunk;

/// Stores one chunk: where it begins in the dataset, the filters it skips, its bytes and their number. Negative for
/// failure. Called on the thread that called, and not after a failure.
pub(crate) type Put = unsafe extern "C" fn(*mut c_void, *const u64, u32, *const c_void, usize) -> c_int;

/// Encodes a block of whole chunks. `request` is a [`Block`] and `values` are its values; `put` is called for
/// each chunk, in row-major order, with `context`. Returns 0, or -1 if it failed; some chunks may have been put then.
///
/// # Safety
/// `request` and `values` hold as many bytes as are said, which stay as they are during the call; `put` may be called
/// with `context`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn knarr_encode_block(
    request: *const u8,
    request_len: usize,
    values: *const u8,
    values_len: usize,
    put: Put,
    context: *mut c_void,
) -> c_int {
    let work = || {
        if request.is_null() || values.is_null() {
            return Err(Error::internal("no values"));
        }
        // SAFETY: the caller's promise; neither is null.
        let (request, values) = unsafe {
            (std::slice::from_raw_parts(request, request_len), std::slice::from_raw_parts(values, values_len))
        };
        let block = Block::from_bytes(request).ok_or_else(|| Error::internal("no block"))?;
        encode(&block, values, |offset, mask, bytes| {
            // SAFETY: the caller's promise; offset and bytes live until it returns.
            unsafe { put(context, offset.as_ptr(), mask, bytes.as_ptr().cast(), bytes.len()) }
        })
    };
    if guarded(work).is_ok() { 0 } else { -1 }
}

/// Whether the `bytes` are a chunk that the filters of `request`, a [`Block`], decode: 1 if so, 0 if not, -1 if that cannot
/// be told.
///
/// # Safety
/// `request` and `bytes` hold as many bytes as are said.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn knarr_is_encoded(
    request: *const u8,
    request_len: usize,
    bytes: *const u8,
    bytes_len: usize,
) -> c_int {
    let work = || {
        if request.is_null() || bytes.is_null() {
            return Err(Error::internal("no chunk"));
        }
        // SAFETY: the caller's promise; neither is null.
        let (request, bytes) =
            unsafe { (std::slice::from_raw_parts(request, request_len), std::slice::from_raw_parts(bytes, bytes_len)) };
        let block = Block::from_bytes(request).ok_or_else(|| Error::internal("no block"))?;
        chunk::online()?.is_encoded(&block, bytes)
    };
    guarded(work).map_or(-1, c_int::from)
}

fn encode(block: &Block, values: &[u8], put: impl Fn(&[u64], u32, &[u8]) -> c_int) -> Result<()> {
    // Threads inherit the mask: the program's signals are for its own threads.
    let masked = Masked::all();
    let unmask = || drop(masked);
    chunk::online()?.encode_block(block, values, unmask, |chunk| {
        if put(&chunk.offset, chunk.filter_mask, &chunk.bytes) < 0 {
            return Err(Error::internal("HDF5 did not take a chunk"));
        }
        Ok(())
    })
}

/// No signal comes to this thread until it is dropped.
struct Masked(libc::sigset_t);

impl Masked {
    fn all() -> Self {
        // SAFETY: a set of signals is plain data, and both calls fill the sets they are given.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        // SAFETY: the set is what this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}
