//! Output buffers that C code writes into.

use knarr_array::{Error, Result};

fn no_memory(len: usize) -> Error {
    Error::unsupported(format!("{len} bytes of memory are not available"))
        .hint("use smaller chunks or a machine with more memory")
}

/// Empties `out` and makes room for `capacity` bytes.
pub(crate) fn reserve(out: &mut Vec<u8>, capacity: usize) -> Result<()> {
    out.clear();
    out.try_reserve_exact(capacity).map_err(|_| no_memory(capacity))
}

/// Appends to `out` the bytes that `write` puts at the start of a buffer of `capacity` bytes.
/// `write` gets the buffer's address and `capacity` and returns how many bytes it wrote.
///
/// # Safety
/// `write` must stay within `capacity` bytes and must have written all bytes of the length it returns.
pub(crate) unsafe fn append(
    out: &mut Vec<u8>,
    capacity: usize,
    write: impl FnOnce(*mut u8, usize) -> Result<usize>,
) -> Result<()> {
    out.try_reserve(capacity).map_err(|_| no_memory(capacity))?;
    let old = out.len();
    // SAFETY: `old` bytes are within the allocation.
    let written = write(unsafe { out.as_mut_ptr().add(old) }, capacity)?;
    if written > capacity {
        return Err(Error::internal(format!("a codec wrote {written} bytes into a buffer of {capacity}")));
    }
    // SAFETY: room for `capacity` bytes was reserved and the caller promises that `written` of them are set.
    unsafe { out.set_len(old + written) };
    Ok(())
}

/// Makes `out` exactly `len` bytes long for a safe interface that overwrites a slice. Bytes that are already
/// there are left as they are, so that a reused buffer costs nothing.
pub(crate) fn resize(out: &mut Vec<u8>, len: usize) -> Result<()> {
    out.try_reserve_exact(len.saturating_sub(out.len())).map_err(|_| no_memory(len))?;
    out.resize(len, 0);
    Ok(())
}

/// The length of a buffer in the C type that a library wants it in.
///
/// # Errors
/// `Unsupported` if it does not fit: the chunk is larger than the library can serve.
pub(crate) fn c_len<T: TryFrom<usize>>(len: usize, library: &str) -> Result<T> {
    T::try_from(len).map_err(|_| {
        Error::unsupported(format!("{library} cannot serve chunks of {len} bytes")).hint("use smaller chunks")
    })
}
