//! The functions of `knarr.h`.

use knarr_array::{Error, Result};
use knarr_codec::client_data::ClientData;
use std::ffi::{c_char, c_void};

use crate::context::knarr_context;
use crate::errors::{call, last};
use crate::memory::{array, bytes, handle, print, put, read_sized, text, write, write_sized};
use crate::types::{knarr_hints, knarr_info, knarr_status, knarr_validation};

/// Version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn knarr_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Message of the last call of this thread that failed: what, where, why, and what to do. Valid until another call
/// of this thread fails; empty if none has.
#[unsafe(no_mangle)]
pub extern "C" fn knarr_last_error() -> *const c_char {
    last()
}

/// Initialises hints, stating nothing. 'size' is sizeof(knarr_hints).
///
/// # Safety
/// `hints` is null or valid for a write of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_hints_init(hints: *mut knarr_hints, size: usize) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_hints_init", || unsafe {
        if size != size_of::<knarr_hints>() {
            let known = size_of::<knarr_hints>();
            return Err(Error::usage(format!("'size' is {size}, this version of Knarr has {known}"))
                .hint("pass sizeof(knarr_hints), and use the header of this version"));
        }
        put(hints, knarr_hints::UNSTATED, "hints")
    })
}

/// States hints from text, such as "max_abs_error=0.01 goal=ratio chain='shuffle | zstd:3'": key=value, separated by
/// blanks, line ends or ';', with '#' before comments. Keys are the names of the fields; speeds are written 300MB/s,
/// 2*network or 0.5*storage; quality=lossless takes all bounds back. On failure nothing is changed.
///
/// # Safety
/// `hints` is null or points to hints; `words` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_hints_set(hints: *mut knarr_hints, words: *const c_char) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_hints_set", || unsafe {
        let mut known = read_sized(hints, knarr_hints::UNSTATED, "hints")?;
        crate::text::set(&mut known, text(words, "words")?)?;
        write_sized(hints, &known, "hints")
    })
}

/// Writes what is stated as text that knarr_hints_set() takes. Like snprintf: 'text' is cut to 'capacity' bytes with its
/// NUL, and 'length', unless null, becomes the whole length without it.
///
/// # Safety
/// `hints` is null or points to hints; `text` is null or writable for `capacity` bytes; `length` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_hints_print(
    hints: *const knarr_hints,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_hints_print", || unsafe {
        let hints = read_sized(hints, knarr_hints::UNSTATED, "hints")?;
        print(&crate::text::print(&hints)?, text, capacity, length)
    })
}

/// Makes a context from hints, which are copied; null hints state nothing. Free it with knarr_context_free().
///
/// # Safety
/// `hints` is null or points to hints; `context` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_context_create(
    hints: *const knarr_hints,
    context: *mut *mut knarr_context,
) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_context_create", || unsafe {
        // What was there is not looked at, and a failure leaves null.
        put(context, std::ptr::null_mut(), "context")?;
        let hints =
            if hints.is_null() { knarr_hints::UNSTATED } else { read_sized(hints, knarr_hints::UNSTATED, "hints")? };
        let made = Box::into_raw(Box::new(knarr_context::new(&hints)?));
        put(context, made, "context")
    })
}

/// Frees a context, which no thread may use any more. Null is allowed.
///
/// # Safety
/// `context` is null, or came from knarr_context_create and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_context_free(context: *mut knarr_context) {
    // SAFETY: the caller's promises.
    call("knarr_context_free", || unsafe {
        if !context.is_null() {
            drop(Box::from_raw(context));
        }
        Ok(())
    });
}

/// Bytes that the frame of an array of this type and shape takes at most, with any context.
///
/// # Safety
/// `shape` is null or readable for `rank` numbers; `bound` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_compress_bound(
    dtype: i32,
    rank: i32,
    shape: *const usize,
    bound: *mut usize,
) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_compress_bound", || unsafe {
        let array = array(dtype, rank, shape)?;
        put(bound, knarr_context::frame_bound(&array)?, "bound")
    })
}

/// Compresses an array into a frame, which says itself what it holds and is checksummed. Every frame is decoded and
/// compared before it is returned; where a bound would not hold for every element it is lossless, or the call fails if
/// the hints force the chain. Works in the calling thread and takes up to about five times the array in memory. The same
/// array and hints give the same frame. 'dtype' is a knarr_dtype; 'shape' has 'rank' extents. 'frame_size' becomes the
/// size of the frame, at most what knarr_compress_bound() says; if that is more than 'capacity' the call fails, and
/// 'frame_size' says what is needed.
///
/// # Safety
/// `context` is null or a context; `source` is null or readable for the whole array; `shape` is null or readable for
/// `rank` numbers; `frame` is null or writable for `capacity` bytes; `frame_size` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_compress(
    context: *const knarr_context,
    source: *const c_void,
    dtype: i32,
    rank: i32,
    shape: *const usize,
    frame: *mut c_void,
    capacity: usize,
    frame_size: *mut usize,
) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_compress", || unsafe {
        let context = handle(context, "context")?;
        let array = array(dtype, rank, shape)?;
        let source = bytes(source.cast(), array.byte_len(), "source")?;
        let made = context.compress(array, source)?;
        put(frame_size, made.len(), "frame_size")?;
        write(&made, frame.cast(), capacity, "frame")
    })
}

/// Says what a frame holds, after checking it. Set info->size to sizeof(knarr_info) before.
///
/// # Safety
/// `context` is null or a context; `frame` is null or readable for `frame_size` bytes; `info` is null or points to a
/// structure that says its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_inspect(
    context: *const knarr_context,
    frame: *const c_void,
    frame_size: usize,
    info: *mut knarr_info,
) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_inspect", || unsafe {
        let context = handle(context, "context")?;
        let found = context.inspect(bytes(frame.cast(), frame_size, "frame")?)?;
        write_sized(info, &found, "info")
    })
}

/// Decompresses a frame, with any context, into 'destination', which has 'capacity' bytes. 'raw_size', unless null,
/// becomes the number of bytes written. Type and shape are those of the frame: knarr_inspect().
///
/// # Safety
/// `context` is null or a context; `frame` is null or readable for `frame_size` bytes; `destination` is null or writable
/// for `capacity` bytes; `raw_size` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_decompress(
    context: *const knarr_context,
    frame: *const c_void,
    frame_size: usize,
    destination: *mut c_void,
    capacity: usize,
    raw_size: *mut usize,
) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_decompress", || unsafe {
        let context = handle(context, "context")?;
        let values = context.decompress(bytes(frame.cast(), frame_size, "frame")?, capacity)?;
        write(&values, destination.cast(), capacity, "destination")?;
        if raw_size.is_null() {
            return Ok(());
        }
        put(raw_size, values.len(), "raw_size")
    })
}

/// Decompresses a frame and compares it with the original by the hints of the context. 'observed', unless null and
/// initialised with knarr_hints_init(), becomes the accuracy: each field is what was kept, so a hint holds where the
/// field is no worse. In it max_rel_error, significant_bits and significant_digits leave out elements whose error is at
/// most the finest_abs_error of the hints, and finest_abs_error is the largest error of those; exact_up_to is the largest
/// value up to which all are exact, exact_from the smallest from which on they are. 'result', with its size set, says
/// whether everything holds and where each measure is worst. A quality that does not hold is no error.
///
/// # Safety
/// As for knarr_compress; `frame` is null or readable for `frame_size` bytes; `observed` and `result` are null or point
/// to structures that say their size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_validate(
    context: *const knarr_context,
    frame: *const c_void,
    frame_size: usize,
    original: *const c_void,
    dtype: i32,
    rank: i32,
    shape: *const usize,
    observed: *mut knarr_hints,
    result: *mut knarr_validation,
) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_validate", || unsafe {
        let context = handle(context, "context")?;
        let array = array(dtype, rank, shape)?;
        let frame = bytes(frame.cast(), frame_size, "frame")?;
        let original = bytes(original.cast(), array.byte_len(), "original")?;
        let (seen, found) = context.validate(frame, array, original)?;
        if !observed.is_null() {
            write_sized(observed, &seen, "observed")?;
        }
        write_sized(result, &found, "result")
    })
}

/// Says in words which chain the array would get and why: what was found in the data, and every candidate. The first
/// word up to " for goal" is the chain. 'text', 'capacity' and 'length' as for knarr_hints_print().
///
/// # Safety
/// As for knarr_compress and knarr_hints_print.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_explain(
    context: *const knarr_context,
    source: *const c_void,
    dtype: i32,
    rank: i32,
    shape: *const usize,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_explain", || unsafe {
        let context = handle(context, "context")?;
        let array = array(dtype, rank, shape)?;
        let source = bytes(source.cast(), array.byte_len(), "source")?;
        print(&context.explain(array, source)?, text, capacity, length)
    })
}

/// The client data (cd_values) that ask Knarr's HDF5 filter (KNARR_HDF5_FILTER) for what is hinted. 20 words are always
/// enough; 'count' becomes how many there are. The chain and the profile are not for the filter.
///
/// # Safety
/// `hints` is null or points to hints; `words` is null or writable for `capacity` numbers; `count` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_filter_words(
    hints: *const knarr_hints,
    words: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_filter_words", || unsafe {
        let hints = read_sized(hints, knarr_hints::UNSTATED, "hints")?;
        let found = filter_words(&hints)?;
        put(count, found.len(), "count")?;
        let bytes: Vec<u8> = found.iter().flat_map(|word| word.to_ne_bytes()).collect();
        write(&bytes, words.cast(), capacity.saturating_mul(size_of::<u32>()), "words")
    })
}

fn filter_words(hints: &knarr_hints) -> Result<Vec<u32>> {
    if hints.forced_chain()?.is_some() || hints.profile_path()?.is_some() {
        return Err(Error::unsupported("the HDF5 filter chooses its chains, with the built-in profile")
            .hint("leave 'chain' and 'profile' empty"));
    }
    ClientData { options: hints.options()?, chunks: None }.words()
}
