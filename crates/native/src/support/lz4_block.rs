//! Single LZ4 blocks, without any framing.

use knarr_array::{Error, Result};
use lz4_sys::{LZ4_compress_HC, LZ4_compress_fast, LZ4_compressBound, LZ4_decompress_safe};
use std::ffi::{c_char, c_int};

use super::{append as append_bytes, c_len};

/// How a block is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// One pass; larger accelerations skip more.
    Fast { acceleration: i32 },
    /// LZ4HC at a level from 1 to 12.
    High { level: i32 },
}

/// Appends the encoded form of `plain`.
pub(crate) fn append(method: Method, plain: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let length: c_int = c_len(plain.len(), "lz4")?;
    let source = plain.as_ptr().cast::<c_char>();
    // SAFETY: liblz4 reads `length` bytes of `plain` and writes at most `room` bytes to `start`.
    unsafe {
        append_bytes(out, bound(plain.len())?, |start, room| {
            let room: c_int = c_len(room, "lz4")?;
            let start = start.cast::<c_char>();
            let written = match method {
                Method::Fast { acceleration } => LZ4_compress_fast(source, start, length, room, acceleration),
                Method::High { level } => LZ4_compress_HC(source, start, length, room, level),
            };
            usize::try_from(written)
                .ok()
                .filter(|written| *written > 0)
                .ok_or_else(|| Error::internal("lz4: encoding failed"))
        })
    }
}

/// Decodes a block that holds exactly as many bytes as `plain` has.
pub(crate) fn expand(data: &[u8], plain: &mut [u8]) -> Result<()> {
    let (length, room): (c_int, c_int) = (c_len(data.len(), "lz4")?, c_len(plain.len(), "lz4")?);
    let (source, start) = (data.as_ptr().cast::<c_char>(), plain.as_mut_ptr().cast::<c_char>());
    // SAFETY: liblz4 reads `length` bytes of `data` and writes at most `room` bytes to `plain`, whatever `data` is.
    let written = unsafe { LZ4_decompress_safe(source, start, length, room) };
    if written != room {
        return Err(Error::corrupt("lz4: not a valid block"));
    }
    Ok(())
}

/// Room in which liblz4 can encode a block of `plain` bytes without checks.
pub(crate) fn bound(plain: usize) -> Result<usize> {
    let plain = c_len(plain, "lz4")?;
    // SAFETY: a pure function of a number.
    let bound = unsafe { LZ4_compressBound(plain) };
    usize::try_from(bound).ok().filter(|bound| *bound > 0).ok_or_else(|| {
        Error::unsupported(format!("lz4 cannot serve blocks of {plain} bytes")).hint("use smaller blocks")
    })
}
