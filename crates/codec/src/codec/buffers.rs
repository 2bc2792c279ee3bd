//! Buffers of steps: sized once, reused from chunk to chunk, bounded when the bytes are hostile.

use knarr_array::error::{Error, Result};

/// Gives `out` exactly `len` bytes to be overwritten. Kept contents are not cleared: every caller
/// writes all of them, and clearing would cost as much as a fast step.
pub fn sized(out: &mut Vec<u8>, len: usize) -> &mut [u8] {
    out.resize(len, 0);
    out
}

/// Refuses streams that decode to more than the caller has room for.
///
/// # Errors
/// `Corrupt` if `len` exceeds `limit`.
pub fn check_limit(len: usize, limit: usize) -> Result<()> {
    if len <= limit {
        return Ok(());
    }
    Err(Error::corrupt(format!("stream decodes to {len} bytes, at most {limit} expected")))
}
