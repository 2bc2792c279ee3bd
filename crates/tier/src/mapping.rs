//! A file in memory that is written at the speed of a memory copy.
//!
//! The first touch of a page through a mapping costs more than a call does, and later ones cost nothing. So long writes of new
//! bytes go by calls, all others through the mapping.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

/// Addresses that are taken at least: more than the file has, so that it can grow without a new mapping.
const SMALLEST: u64 = 64 << 20;
/// New bytes are written by a call from this length on.
const PAGE: usize = 4096;

/// Addresses that show the file from its first byte on.
#[derive(Debug)]
struct Map {
    address: NonNull<u8>,
    length: usize,
}

// SAFETY: the addresses belong to this value alone, as those of a box do.
unsafe impl Send for Map {}

impl Map {
    fn new(file: &File, length: usize) -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: new addresses are asked for, which nothing else uses.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { address, length })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: what was mapped by `new`, to which no reference is left.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.length) };
    }
}

/// Writes into a file whose bytes were set aside.
#[derive(Debug, Default)]
pub(crate) struct Mapping {
    map: Option<Map>,
    /// End of what was written by now.
    written: u64,
}

impl Mapping {
    /// Writes bytes from `at` on, all of which `file` has. The caller keeps others from making the file shorter.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn write_all_at(&mut self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        let end = at.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        let is_new = at >= self.written;
        self.written = self.written.max(end);
        if is_new && bytes.len() >= PAGE {
            return file.write_all_at(bytes, at);
        }
        let (Ok(from), Ok(end)) = (usize::try_from(at), usize::try_from(end)) else {
            return file.write_all_at(bytes, at);
        };
        let Some(map) = self.addresses(file, end) else { return file.write_all_at(bytes, at) };
        // SAFETY: the addresses up to `end` are mapped and the file has those bytes, so they can be touched; nothing refers to
        // them, and a mapping never overlaps memory that a caller can lend.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), map.address.as_ptr().add(from), bytes.len()) };
        Ok(())
    }

    /// The file was made `length` bytes long.
    pub(crate) fn cut(&mut self, length: u64) {
        self.written = self.written.min(length);
    }

    /// The addresses of the first `end` bytes of the file, which exist; `None` if they cannot be had.
    fn addresses(&mut self, file: &File, end: usize) -> Option<&Map> {
        if self.map.as_ref().is_none_or(|map| map.length < end) {
            self.map = None;
            let length = (end as u64).max(SMALLEST).checked_next_power_of_two()?;
            self.map = Map::new(file, usize::try_from(length).ok()?).ok();
        }
        self.map.as_ref()
    }
}
