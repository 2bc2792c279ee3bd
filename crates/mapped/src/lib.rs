//! Memory that is a file: spools on a file system in memory, filled at the speed of a memory copy, and the account of how much
//! they take.

mod account;

pub use account::NodeAccount;

use knarr_handover::Memory;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

/// Addresses that are taken at least: more than the file has, so that it can grow without a new mapping.
const SMALLEST: u64 = 64 << 20;

/// What is at least as long is written by a call the first time: the first touch of a page through a mapping costs more
/// than the call does, and later ones cost nothing.
const PAGE: usize = 4096;

/// Bytes of `file`, written through a mapping where its file system can set bytes aside, unless a call is faster. The
/// caller keeps others from making the file shorter.
///
/// # Errors
/// Those of asking for the file's length.
pub fn map_file(file: File) -> io::Result<Box<dyn Memory>> {
    let reserved = file.metadata()?.len();
    Ok(Box::new(Mapped { file, map: None, reserved, written: 0, is_mappable: true }))
}

struct Mapped {
    file: File,
    map: Option<Map>,
    /// Bytes of the file that exist, so that touching them cannot fail.
    reserved: u64,
    /// End of what was written by now.
    written: u64,
    is_mappable: bool,
}

/// Addresses that show the file from its first byte on.
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

impl Mapped {
    /// Makes sure that the bytes up to `end` exist. False if the file system cannot promise that.
    fn reserve(&mut self, end: u64) -> io::Result<bool> {
        if end <= self.reserved {
            return Ok(true);
        }
        // Whoever has the file may have set them aside.
        self.reserved = self.reserved.max(self.file.metadata()?.len());
        if end <= self.reserved {
            return Ok(true);
        }
        let wide =
            |number: u64| libc::off_t::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
        let (from, count) = (wide(self.reserved)?, wide(end - self.reserved)?);
        loop {
            // SAFETY: a call with a descriptor that is open and numbers.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), 0, from, count) } == 0 {
                self.reserved = end;
                return Ok(true);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(false),
                _ => return Err(error),
            }
        }
    }

    /// The addresses of the first `end` bytes of the file, which exist; `None` if they cannot be had.
    fn addresses(&mut self, end: usize) -> Option<&Map> {
        if self.map.as_ref().is_none_or(|map| map.length < end) {
            self.map = None;
            let length = (end as u64).max(SMALLEST).checked_next_power_of_two()?;
            self.map = Map::new(&self.file, usize::try_from(length).ok()?).ok();
        }
        self.map.as_ref()
    }
}

impl Memory for Mapped {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        self.is_mappable = self.is_mappable && self.reserve(end)?;
        let is_new = offset >= self.written;
        self.written = self.written.max(end);
        if self.is_mappable && is_new && bytes.len() >= PAGE {
            return self.file.write_all_at(bytes, offset);
        }
        if self.is_mappable
            && let (Ok(from), Ok(end)) = (usize::try_from(offset), usize::try_from(end))
            && let Some(map) = self.addresses(end)
        {
            // SAFETY: the addresses up to `end` are mapped and the file has those bytes, so they can be touched; nothing
            // refers to them, and a mapping never overlaps memory that a caller can lend.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), map.address.as_ptr().add(from), bytes.len()) };
            return Ok(());
        }
        self.is_mappable = false;
        self.reserved = 0;
        self.file.write_all_at(bytes, offset)
    }

    fn end(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.reserved = self.reserved.min(length);
        self.written = self.written.min(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &std::path::Path) -> File {
        let path = folder.join(format!("knarr-mapped-{}-{:?}", std::process::id(), std::thread::current().id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn what_is_written_is_in_the_file_whatever_its_length_was() {
        let on_disk = std::env::temp_dir();
        let in_memory = std::path::Path::new("/dev/shm");
        for folder in [on_disk.as_path(), if in_memory.is_dir() { in_memory } else { &on_disk }] {
            let file = file(folder);
            let mut memory = map_file(file.try_clone().unwrap()).unwrap();
            // Longer, shorter and longer than what is mapped at first.
            for (step, length) in [(1u8, 100_000usize), (2, 3_000), (3, 5_000_000), (4, 70 << 20)] {
                let values: Vec<u8> = (0..=250u8).cycle().take(length).map(|byte| byte ^ step).collect();
                for part in [&values[..length / 3], &values[length / 3..]].into_iter().scan(0, |at, part| {
                    *at += part.len();
                    Some((*at - part.len(), part))
                }) {
                    memory.write(part.0 as u64, part.1).unwrap();
                }
                memory.end(length as u64).unwrap();
                let mut found = vec![0; length];
                file.read_exact_at(&mut found, 0).unwrap();
                assert!(found == values && file.metadata().unwrap().len() == length as u64);
            }
        }
    }

    #[test]
    fn a_file_system_that_cannot_set_bytes_aside_is_written_by_calls() {
        let file = file(&std::env::temp_dir());
        let mut memory =
            Mapped { file: file.try_clone().unwrap(), map: None, reserved: 0, written: 0, is_mappable: false };
        memory.write(5, b"hello").unwrap();
        memory.end(10).unwrap();
        let mut found = [0; 10];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"\0\0\0\0\0hello");
    }

    #[test]
    fn no_room_is_an_error_and_no_signal() {
        let mut memory = map_file(file(std::path::Path::new("/dev/shm"))).unwrap();
        assert!(memory.write(1 << 60, b"far").is_err());
    }
}
