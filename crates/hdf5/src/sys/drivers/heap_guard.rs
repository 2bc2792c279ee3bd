//! A file driver that reads as HDF5's own does, fetches what is not there yet of a file that lies elsewhere, and refuses
//! damaged heaps that the library would not come back from.
//!
//! Values of variable length lie in *global heaps*: collections of objects, each with its length. The library walks over
//! them when it loads one, and stands still at one that takes no room: for ever, holding its lock, in any call that
//! touches the heap, such as `H5Dget_create_plist`. The driver sees the collection first.
//!
//! Format: HDF5 File Format Specification 3.0, section III.E.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use hdf5_metno_sys::h5::{haddr_t, herr_t};
use hdf5_metno_sys::h5e::{H5E_BADVALUE, H5E_DEFAULT, H5E_ERR_CLS, H5E_HEAP, H5Epush2};
use hdf5_metno_sys::h5f::H5F_mem_t;
use hdf5_metno_sys::h5i::hid_t;

use crate::sys::Id;
use crate::sys::drivers::driver::{self, Class, Opened};
use knarr_array::error::Result;
use knarr_codec::codec::KNARR_FILTER;
use knarr_input::partial::{self, Partial};

/// The driver of this file.
static GUARDED: OnceLock<hid_t> = OnceLock::new();

/// Lets the file `name` be opened with the driver; to be called under the lock.
///
/// # Errors
/// As for opening the file.
pub(in crate::sys) fn guard(fapl: &Id, name: &CStr) -> Result<()> {
    let change = |class: &mut Class| {
        class.value = c_int::try_from(KNARR_FILTER).unwrap_or(c_int::MAX);
        class.name = c"knarr".as_ptr();
        class.read = Some(read);
    };
    driver::set(fapl, name, &GUARDED, change)
}

/// Reads as HDF5's own driver does. Of a heap that the library would stand still in nothing is to be had.
unsafe extern "C" fn read(
    file: *mut Opened,
    kind: c_int,
    dxpl: hid_t,
    addr: haddr_t,
    size: usize,
    buffer: *mut c_void,
) -> herr_t {
    let Some(plain) = driver::plain() else { return -1 };
    let Some(read) = plain.read else { return -1 };
    // SAFETY: the library passes an open file of this driver, which begins as those of its own.
    let copy = unsafe { copy_of(plain, file) };
    let is_there = |addr: haddr_t, size: usize| copy.as_ref().is_none_or(|copy| copy.fetch(addr, size as u64).is_ok());
    if !is_there(addr, size) {
        return -1;
    }
    // SAFETY: passed on from the library.
    let status = unsafe { read(file, kind, dxpl, addr, size, buffer) };
    let may_be_heap = kind == H5F_mem_t::H5FD_MEM_DRAW as c_int || kind == H5F_mem_t::H5FD_MEM_GHEAP as c_int;
    if status < 0 || !may_be_heap || size < SIGNATURE.len() {
        return status;
    }
    // SAFETY: the library has room for `size` bytes there, and all were read.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), size) };
    if !bytes.starts_with(SIGNATURE) {
        return status;
    }
    let at_file = |addr: haddr_t, out: &mut [u8]| {
        // SAFETY: `out` has the room that it says. What lies behind the end of the file is read as zeros.
        is_there(addr, out.len()) && unsafe { read(file, kind, dxpl, addr, out.len(), out.as_mut_ptr().cast()) >= 0 }
    };
    let mut superblock = [0; 16];
    // SAFETY: the library passes an open file.
    let is_read = at_file(unsafe { (*file).base_addr }, &mut superblock);
    let width = if is_read { width_of_lengths(&superblock) } else { 8 };
    let mut window = Window { at: 0, bytes: bytes.to_vec() };
    let mut at_heap =
        |offset: u64, out: &mut [u8]| window.read(offset, out, |at, out| at_file(addr.wrapping_add(at), out));
    match standstill(width, &mut at_heap) {
        None => status,
        Some(offset) => {
            // SAFETY: all texts are NUL-terminated; the message's one number is of the type that it names.
            unsafe {
                H5Epush2(
                    H5E_DEFAULT,
                    c"knarr".as_ptr(),
                    c"read".as_ptr(),
                    0,
                    *H5E_ERR_CLS,
                    *H5E_HEAP,
                    *H5E_BADVALUE,
                    c"the global heap is damaged: what lies at byte %llu of the file has no length".as_ptr(),
                    addr.wrapping_add(offset),
                );
            }
            -1
        }
    }
}

/// The copy that an open file is, if it lies elsewhere.
///
/// # Safety
/// `file` is open, and of the class `plain` but for its reading.
unsafe fn copy_of(plain: &Class, file: *mut Opened) -> Option<Arc<Partial>> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: the file is open; 0 is the default list.
    let status = unsafe { plain.get_handle?(file, 0, &raw mut handle) };
    if status < 0 || handle.is_null() {
        return None;
    }
    // SAFETY: HDF5's own driver gives the place of a descriptor, which is open as long as the file.
    partial::copy_of(unsafe { BorrowedFd::borrow_raw(*handle.cast::<c_int>()) })
}

/// Bytes of a heap that were read last.
struct Window {
    at: u64,
    bytes: Vec<u8>,
}

impl Window {
    const LENGTH: usize = 1 << 16;

    fn read(&mut self, offset: u64, out: &mut [u8], fetch: impl FnOnce(u64, &mut [u8]) -> bool) -> bool {
        let begin = |at: u64| usize::try_from(offset.wrapping_sub(at)).ok();
        let inside =
            |bytes: &[u8], at: u64| begin(at).is_some_and(|begin| begin.saturating_add(out.len()) <= bytes.len());
        if !inside(&self.bytes, self.at) {
            self.bytes.resize(Self::LENGTH, 0);
            self.at = offset;
            if !fetch(offset, &mut self.bytes) {
                return false;
            }
        }
        let found = begin(self.at).and_then(|begin| self.bytes.get(begin..)).and_then(|bytes| bytes.get(..out.len()));
        found.is_some_and(|found| {
            out.copy_from_slice(found);
            true
        })
    }
}

/// What a collection begins with: its mark and version.
const SIGNATURE: &[u8] = b"GCOL\x01";

/// Bytes of a length in this file, as its superblock says (section II.A); 8 if it says nothing that can be.
fn width_of_lengths(superblock: &[u8; 16]) -> usize {
    let width = match superblock[8] {
        0 | 1 => superblock[14],
        _ => superblock[10],
    };
    let is_superblock = superblock.starts_with(b"\x89HDF\r\n\x1a\n");
    if is_superblock && matches!(width, 2 | 4 | 8 | 16 | 32) { width.into() } else { 8 }
}

/// Offset of the object in a collection from which the library would not come on, if it gets there: it reckons in 64 bits
/// that wrap around. `read` copies bytes of the collection.
fn standstill(width: usize, read: &mut dyn FnMut(u64, &mut [u8]) -> bool) -> Option<u64> {
    // Collection and objects begin with 8 bytes and a length, and lie at multiples of 8.
    let mut head = [0; 40];
    let head = head.get_mut(..8 + width)?;
    let heading = (head.len() as u64).next_multiple_of(8);
    let length = |head: &[u8]| {
        let (low, high) = head.get(8..)?.split_at(width.min(8));
        let low = low.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        high.iter().all(|byte| *byte == 0).then_some(low)
    };
    let end = if read(0, head) { length(head)? } else { return None };
    let mut at = heading;
    while end.checked_sub(at)? >= heading {
        if !read(at, head) {
            return None;
        }
        let is_free_space = head.starts_with(&[0, 0]);
        let length = length(head)?;
        let taken =
            if is_free_space { length } else { (length.wrapping_add(7) / 8).wrapping_mul(8).wrapping_add(heading) };
        if taken == 0 {
            return Some(at);
        }
        // The library refuses what reaches over the end.
        at = at.checked_add(taken)?;
    }
    None
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "test collections are small")]
mod tests {
    use super::*;

    /// A collection of objects given as index and length, with lengths of `width` bytes.
    fn collection(width: usize, end: u64, objects: &[(u16, u64)]) -> Vec<u8> {
        let heading = (8 + width).next_multiple_of(8);
        let put = |number: u64| [&number.to_le_bytes()[..width.min(8)], &vec![0; width.saturating_sub(8)]].concat();
        let mut bytes = [b"GCOL\x01\0\0\0".to_vec(), put(end)].concat();
        bytes.resize(heading, 0);
        for (index, length) in objects {
            let begin = bytes.len();
            bytes.extend([&index.to_le_bytes()[..], &[1, 0, 0, 0, 0, 0], &put(*length)].concat());
            let rest = if *index == 0 { (*length as usize).max(8 + width) } else { heading + *length as usize };
            bytes.resize(begin + rest.next_multiple_of(8), 7);
        }
        bytes
    }

    fn found(width: usize, bytes: &[u8]) -> Option<u64> {
        let mut window = Window { at: 0, bytes: bytes[..bytes.len().min(64)].to_vec() };
        let fetch = |at: u64, out: &mut [u8]| {
            out.fill(0);
            let rest = bytes.get(at as usize..).unwrap_or_default();
            let length = rest.len().min(out.len());
            out[..length].copy_from_slice(&rest[..length]);
            true
        };
        standstill(width, &mut |offset, out| window.read(offset, out, fetch))
    }

    #[test]
    fn whole_collections_have_no_standstill() {
        for width in [2, 4, 8, 16, 32] {
            let heading = (8 + width as u64).next_multiple_of(8);
            let objects = [(1, 5), (3, 0), (2, 9000), (0, 40)];
            let end = heading + (heading + 8) + heading + (heading + 9000) + 40;
            let bytes = collection(width, end, &objects);
            assert_eq!(found(width, &bytes), None, "{width}");
            // What lies behind the end does not matter.
            assert_eq!(found(width, &[bytes, vec![0; 100]].concat()), None, "{width}");
        }
    }

    #[test]
    fn free_space_without_length_is_found_wherever_it_lies() {
        for width in [2, 4, 8, 16] {
            let heading = (8 + width as u64).next_multiple_of(8);
            assert_eq!(found(width, &collection(width, 4096, &[(0, 0)])), Some(heading));
            let behind = collection(width, 30_000, &[(1, 20_000), (0, 0)]);
            assert_eq!(found(width, &behind), Some(2 * heading + 20_000), "{width}");
        }
    }

    #[test]
    fn lengths_that_wrap_around_are_found() {
        let of = |length: u64| {
            let mut bytes = collection(8, 4096, &[]);
            bytes.extend([&[1, 0, 1, 0, 0, 0, 0, 0], &length.to_le_bytes()[..], &[7; 64]].concat());
            found(8, &bytes)
        };
        for length in [u64::MAX - 22, u64::MAX - 15] {
            assert_eq!(of(length), Some(16), "{length:x}");
        }
        // The library goes on behind these, or refuses them.
        for length in [u64::MAX, u64::MAX - 14, u64::MAX / 2, 5000] {
            assert_eq!(of(length), None, "{length:x}");
        }
    }

    #[test]
    fn superblocks_say_how_long_lengths_are() {
        let old = *b"\x89HDF\r\n\x1a\n\x00\0\0\0\0\x08\x04\0";
        let new = *b"\x89HDF\r\n\x1a\n\x03\x08\x10\0\0\0\0\0";
        assert_eq!((width_of_lengths(&old), width_of_lengths(&new), width_of_lengths(&[1; 16])), (4, 16, 8));
    }
}
