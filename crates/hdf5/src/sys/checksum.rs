//! The checksum of what is no values in a file.

use std::os::raw::c_void;

unsafe extern "C" {
    fn H5_checksum_metadata(data: *const c_void, length: usize, initial: u32) -> u32;
}

/// As the library computes it.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    // SAFETY: `bytes` holds as many bytes as are announced. The function has no state.
    unsafe { H5_checksum_metadata(bytes.as_ptr().cast(), bytes.len(), 0) }
}
