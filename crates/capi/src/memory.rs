//! Pointers of callers become slices and references, each checked as far as a pointer can be.

use knarr_array::array::{ArraySpec, DType, Endian};
use knarr_array::{Error, Result};
use std::ffi::{CStr, c_char};

use crate::types::{KNARR_MAX_RANK, knarr_dtype};

const DTYPES: [(knarr_dtype, DType); 11] = [
    (knarr_dtype::KNARR_INT8, DType::I8),
    (knarr_dtype::KNARR_INT16, DType::I16),
    (knarr_dtype::KNARR_INT32, DType::I32),
    (knarr_dtype::KNARR_INT64, DType::I64),
    (knarr_dtype::KNARR_UINT8, DType::U8),
    (knarr_dtype::KNARR_UINT16, DType::U16),
    (knarr_dtype::KNARR_UINT32, DType::U32),
    (knarr_dtype::KNARR_UINT64, DType::U64),
    (knarr_dtype::KNARR_FLOAT16, DType::F16),
    (knarr_dtype::KNARR_FLOAT32, DType::F32),
    (knarr_dtype::KNARR_FLOAT64, DType::F64),
];

/// Number of a type; `None` for elements without values, which other writers of frames may have.
pub(crate) fn dtype_number(dtype: DType) -> Option<i32> {
    DTYPES.iter().find(|(_, known)| *known == dtype).map(|(number, _)| *number as i32)
}

/// As [`dtype_number`].
///
/// # Errors
/// `Unsupported` for elements without values.
pub(crate) fn named_dtype(dtype: DType) -> Result<i32> {
    dtype_number(dtype).ok_or_else(|| Error::unsupported(format!("elements of type {dtype} have no number in C")))
}

fn null(what: &str) -> Error {
    Error::usage(format!("'{what}' is a null pointer")).hint("pass the address of what it is to be")
}

/// Bytes of the caller. No bytes may have any address.
///
/// # Safety
/// If it is not null, `pointer` is readable for `length` bytes, which nothing writes while the result lives.
///
/// # Errors
/// `Usage` for a null pointer, or a length that no object has.
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, length: usize, what: &str) -> Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(what));
    }
    if isize::try_from(length).is_err() {
        return Err(Error::usage(format!("'{what}' cannot have {length} bytes")));
    }
    // SAFETY: not null, of a length that an object may have, and readable by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, length) })
}

/// Writes `source` to the start of a buffer of the caller.
///
/// # Safety
/// If it is not null, `target` is writable for `capacity` bytes and overlaps nothing that Rust refers to.
///
/// # Errors
/// `Usage` for a null pointer or too little room.
pub(crate) unsafe fn write(source: &[u8], target: *mut u8, capacity: usize, what: &str) -> Result<()> {
    if source.len() > capacity {
        return Err(Error::usage(format!("'{what}' has {capacity} bytes, {} are needed", source.len()))
            .hint("pass a larger buffer and its size in bytes"));
    }
    if source.is_empty() {
        return Ok(());
    }
    if target.is_null() {
        return Err(null(what));
    }
    // SAFETY: there is room for all of `source`, which is not the caller's memory.
    unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), target, source.len()) };
    Ok(())
}

/// A value of the caller that is written; it need not be initialised.
///
/// # Safety
/// If it is not null, `pointer` is valid for a write of a `T`.
///
/// # Errors
/// `Usage` for a null pointer.
pub(crate) unsafe fn put<T: Copy>(pointer: *mut T, value: T, what: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null and writable by the caller's promise.
    unsafe { pointer.write_unaligned(value) };
    Ok(())
}

/// A thing of Knarr's own that the caller holds.
///
/// # Safety
/// If it is not null, `pointer` came from this library and was not freed.
///
/// # Errors
/// `Usage` for a null pointer.
pub(crate) unsafe fn handle<'a, T>(pointer: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: null or valid by the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// As [`handle`], for what is changed.
///
/// # Safety
/// As for [`handle`]; nothing else uses it while the result lives.
///
/// # Errors
/// `Usage` for a null pointer.
pub(crate) unsafe fn handle_mut<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T> {
    // SAFETY: null or valid by the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

/// Bytes of the caller that are written. No bytes may have any address.
///
/// # Safety
/// If it is not null, `pointer` is writable for `length` bytes, which nothing else uses while the result lives.
///
/// # Errors
/// As for [`bytes`].
pub(crate) unsafe fn bytes_mut<'a>(pointer: *mut u8, length: usize, what: &str) -> Result<&'a mut [u8]> {
    // SAFETY: the caller's promise.
    if unsafe { bytes(pointer, length, what)? }.is_empty() {
        return Ok(&mut []);
    }
    // SAFETY: checked as for reading, and writable by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, length) })
}

/// Text of the caller.
///
/// # Safety
/// If it is not null, `pointer` is NUL-terminated, and nothing writes to it while the result lives.
///
/// # Errors
/// `Usage` for a null pointer and for text that is not UTF-8.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null and NUL-terminated by the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Error::usage(format!("'{what}' is not UTF-8")))
}

/// As [`text`], for what may be left out; `None` for a null pointer.
///
/// # Safety
/// As for [`text`].
///
/// # Errors
/// `Usage` for text that is not UTF-8.
pub(crate) unsafe fn optional_text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { text(pointer, what) }.map(Some)
}

/// Several texts of the caller.
///
/// # Safety
/// If it is not null, `pointer` is readable for `count` pointers, each as for [`text`].
///
/// # Errors
/// `Usage` for a null pointer, a number that cannot be, and for text that is not UTF-8.
#[cfg(feature = "files")]
pub(crate) unsafe fn texts<'a>(pointer: *const *const c_char, count: i32, what: &str) -> Result<Vec<&'a str>> {
    let count = usize::try_from(count).map_err(|_| Error::usage(format!("'{what}' of number {count}")))?;
    if pointer.is_null() && count > 0 {
        return Err(null(what));
    }
    // SAFETY: not null if there are any, and readable by the caller's promise.
    (0..count).map(|place| unsafe { text(pointer.add(place).read_unaligned(), what) }).collect()
}

/// Writes text for the caller as `snprintf` does: cut to `capacity` bytes with its NUL, its whole length in `length`.
///
/// # Safety
/// If they are not null, `target` is writable for `capacity` bytes, and `length` for a `size_t`.
///
/// # Errors
/// `Usage` if `target` is null although it has room.
pub(crate) unsafe fn print(text: &str, target: *mut c_char, capacity: usize, length: *mut usize) -> Result<()> {
    if !length.is_null() {
        // SAFETY: not null and writable by the caller's promise.
        unsafe { length.write_unaligned(text.len()) };
    }
    if capacity == 0 {
        return Ok(());
    }
    let mut end = text.len().min(capacity - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut cut = text.as_bytes().get(..end).unwrap_or_default().to_vec();
    cut.push(0);
    // SAFETY: the caller's promise.
    unsafe { write(&cut, target.cast(), capacity, "text") }
}

/// Reads a structure whose first field says how large it is to the caller, over `known`, which has what the caller's
/// version may lack.
///
/// # Safety
/// If it is not null, `pointer` is readable for a `size_t` and for as many bytes as that says; `T` is plain data of C
/// in which all bits are valid.
///
/// # Errors
/// `Usage` for a null pointer or a size that is not this version's.
pub(crate) unsafe fn read_sized<T: Copy>(pointer: *const T, mut known: T, what: &str) -> Result<T> {
    // SAFETY: the caller's promise.
    let size = unsafe { stated_size(pointer, what)? };
    // SAFETY: the structure is readable for `size` bytes, which are at most those of `known`.
    unsafe { std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut known).cast(), size) };
    Ok(known)
}

/// Writes a structure whose first field says how large it is to the caller. That field stays.
///
/// # Safety
/// As for [`read_sized`], for writing.
///
/// # Errors
/// As for [`read_sized`].
pub(crate) unsafe fn write_sized<T: Copy>(pointer: *mut T, value: &T, what: &str) -> Result<()> {
    // SAFETY: the caller's promise.
    let size = unsafe { stated_size(pointer, what)? };
    let head = size_of::<usize>();
    let from = (&raw const *value).cast::<u8>();
    // SAFETY: the structure is writable for `size` bytes, which are at least `head` and at most those of `value`.
    unsafe { std::ptr::copy_nonoverlapping(from.add(head), pointer.cast::<u8>().add(head), size - head) };
    Ok(())
}

/// # Safety
/// If it is not null, `pointer` is readable for a `size_t`.
unsafe fn stated_size<T>(pointer: *const T, what: &str) -> Result<usize> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null and readable by the caller's promise.
    let size = unsafe { pointer.cast::<usize>().read_unaligned() };
    // There is one version of each structure so far, so a smaller one cannot be.
    if size == size_of::<T>() {
        return Ok(size);
    }
    Err(Error::usage(format!("'{what}.size' is {size}, this version of Knarr has {}", size_of::<T>()))
        .hint("set it to the size of the structure (hints: with knarr_hints_init), and use the header of this version"))
}

/// # Safety
/// If it is not null, `pointer` is readable for `count` numbers.
unsafe fn numbers(pointer: *const usize, count: usize) -> Option<Vec<usize>> {
    // SAFETY: not null, and readable by the caller's promise.
    (!pointer.is_null()).then(|| (0..count).map(|place| unsafe { pointer.add(place).read_unaligned() }).collect())
}

/// Extents or subscripts of the caller; `None` for a null pointer.
///
/// # Safety
/// If it is not null, `pointer` is readable for `count` numbers.
pub(crate) unsafe fn extents(pointer: *const usize, count: usize) -> Option<Vec<u64>> {
    // SAFETY: the caller's promise.
    unsafe { numbers(pointer, count) }.map(|numbers| numbers.into_iter().map(|number| number as u64).collect())
}

/// Type and shape of an array of the caller.
///
/// # Safety
/// If it is not null, `shape` is readable for `rank` numbers.
///
/// # Errors
/// `Usage` for a null pointer and for numbers out of range; `Unsupported` for arrays larger than the address space.
pub(crate) unsafe fn array(dtype: i32, rank: i32, shape: *const usize) -> Result<ArraySpec> {
    let known = DTYPES.iter().find(|(number, _)| *number as i32 == dtype).map(|(_, known)| *known);
    let dtype = known.ok_or_else(|| {
        Error::usage(format!("'dtype' is {dtype}")).hint("pass a knarr_dtype, KNARR_INT8 (1) to KNARR_FLOAT64 (11)")
    })?;
    let rank = usize::try_from(rank).ok().filter(|&rank| rank <= KNARR_MAX_RANK).ok_or_else(|| {
        Error::usage(format!("'rank' is {rank}")).hint(format!("arrays have 0 to {KNARR_MAX_RANK} dimensions"))
    })?;
    // SAFETY: the caller's promise.
    let extents = unsafe { numbers(shape, rank) }.or_else(|| (rank == 0).then(Vec::new));
    let endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };
    let spec = ArraySpec { endian, ..ArraySpec::new(dtype, extents.ok_or_else(|| null("shape"))?) };
    spec.checked_len().map(|_| spec)
}
