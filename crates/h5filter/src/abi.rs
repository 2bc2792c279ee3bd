//! What HDF5 calls. No panic and no error leaves it but as an HDF5 error.

use knarr_array::guard::guarded;
use knarr_array::{Error, Result};
use knarr_codec::codec::KNARR_FILTER;
use knarr_native::plugin::abi::{CLASS_VERSION, Class, DECODE, Id, TYPE_FILTER};
use std::ffi::{c_int, c_uint, c_void};

use crate::host::{CallerHdf5, Minor};
use crate::{chunk, dataset};

/// The class as a static.
struct Shared(Class);

// SAFETY: the class is never written and its only pointer is to a constant.
unsafe impl Sync for Shared {}

static CLASS: Shared = Shared(Class {
    version: CLASS_VERSION,
    // The number is below 65536.
    #[expect(clippy::cast_possible_wrap, reason = "filter numbers fit a C int")]
    id: KNARR_FILTER as c_int,
    encoder_present: 1,
    decoder_present: 1,
    name: c"knarr: chain chosen from the data, under a stated quality".as_ptr(),
    // What cannot be served is refused by `set_local`, which can say why also where the filter is optional.
    can_apply: None,
    set_local: Some(set_local),
    filter: Some(filter),
});

/// Kind of the plugin.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn H5PLget_plugin_type() -> c_int {
    TYPE_FILTER
}

/// The filter.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn H5PLget_plugin_info() -> *const Class {
    &raw const CLASS.0
}

/// Runs `work`; an error or panic is pushed to the error stack of the calling HDF5 and becomes `None`.
fn guard<T>(minor: Minor, work: impl FnOnce() -> Result<T>) -> Option<T> {
    let outcome = guarded(|| match guarded(work) {
        Ok(done) => Ok(Some(done)),
        Err(error) => {
            if let Some(host) = CallerHdf5::of_caller() {
                host.push_error(minor, &error.to_string());
            }
            Ok(None)
        }
    });
    outcome.ok().flatten()
}

/// `set_local`: completes the client data when a dataset is created.
unsafe extern "C" fn set_local(plist: Id, datatype: Id, _space: Id) -> c_int {
    let done = guard(Minor::SetLocal, || {
        let host = CallerHdf5::of_caller().ok_or_else(|| {
            Error::unsupported("the HDF5 library of this program shows none of its functions")
                .hint("link the program with a shared HDF5, or let 'knarr repack' write the file")
        })?;
        dataset::complete(host, plist, datatype).map_err(|error| error.at("knarr filter"))
    });
    if done.is_some() { 1 } else { -1 }
}

/// `filter`: encodes or decodes the chunk in `*buf`. Returns 0 on failure and leaves the buffer as it was.
unsafe extern "C" fn filter(
    flags: c_uint,
    cd_nelmts: usize,
    cd_values: *const c_uint,
    nbytes: usize,
    buf_size: *mut usize,
    buf: *mut *mut c_void,
) -> usize {
    let done = guard(Minor::CantFilter, || {
        if buf.is_null() || buf_size.is_null() || (cd_values.is_null() && cd_nelmts > 0) {
            return Err(Error::internal("HDF5 gave no buffer"));
        }
        // SAFETY: HDF5 passes `cd_nelmts` client data values, checked not to be null.
        let words = if cd_nelmts == 0 { &[] } else { unsafe { std::slice::from_raw_parts(cd_values, cd_nelmts) } };
        // SAFETY: both places are valid for this call by the contract of `H5Z_func_t`, checked not to be null.
        let (start, room) = unsafe { (*buf, *buf_size) };
        if start.is_null() || nbytes > room {
            return Err(Error::internal("HDF5 gave a buffer shorter than the chunk"));
        }
        // SAFETY: the first `nbytes` bytes of the buffer are the chunk.
        let input = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), nbytes) };
        let output = if flags & DECODE == 0 { chunk::encode(words, input) } else { chunk::decode(words, input) }
            .map_err(|error| error.at("knarr filter"))?;
        if output.is_empty() {
            return Err(Error::internal("a chunk came out empty"));
        }
        let length = output.len();
        let target = if length <= room {
            start
        } else {
            let host = CallerHdf5::of_caller();
            let fresh = CallerHdf5::allocate(host, length)?;
            CallerHdf5::release(host, start);
            // SAFETY: both places are valid for this call; the old buffer was released and is replaced.
            unsafe {
                *buf = fresh;
                *buf_size = length;
            }
            fresh
        };
        // SAFETY: the target has room for `length` bytes and is not the output, which is Knarr's own memory.
        unsafe { std::ptr::copy_nonoverlapping(output.as_ptr(), target.cast::<u8>(), length) };
        Ok(length)
    });
    done.unwrap_or(0)
}
