//! Calls into the zfp library, which `zfp-sys` builds. Its generated bindings are wide; these are the calls used.

use knarr_array::{Error, Result};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::NonNull;

use super::header::Mode;
use super::scalar::Scalar;
use crate::support::append;
// Links the library.
use zfp_sys as _;

/// `bitstream`, `zfp_stream` and `zfp_field`: only their addresses are used.
#[repr(C)]
struct BitStream([u8; 0]);
#[repr(C)]
struct CStream([u8; 0]);
#[repr(C)]
struct CField([u8; 0]);

unsafe extern "C" {
    fn stream_open(buffer: *mut c_void, bytes: usize) -> *mut BitStream;
    fn stream_close(stream: *mut BitStream);
    fn zfp_stream_open(stream: *mut BitStream) -> *mut CStream;
    fn zfp_stream_close(stream: *mut CStream);
    fn zfp_stream_set_params(
        stream: *mut CStream,
        minbits: c_uint,
        maxbits: c_uint,
        maxprec: c_uint,
        minexp: c_int,
    ) -> c_int;
    fn zfp_stream_set_bit_stream(stream: *mut CStream, bits: *mut BitStream);
    fn zfp_stream_rewind(stream: *mut CStream);
    fn zfp_stream_maximum_size(stream: *const CStream, field: *const CField) -> usize;
    fn zfp_field_1d(pointer: *mut c_void, kind: c_int, nx: usize) -> *mut CField;
    fn zfp_field_2d(pointer: *mut c_void, kind: c_int, nx: usize, ny: usize) -> *mut CField;
    fn zfp_field_3d(pointer: *mut c_void, kind: c_int, nx: usize, ny: usize, nz: usize) -> *mut CField;
    fn zfp_field_4d(pointer: *mut c_void, kind: c_int, nx: usize, ny: usize, nz: usize, nw: usize) -> *mut CField;
    fn zfp_field_free(field: *mut CField);
    fn zfp_field_alloc() -> *mut CField;
    fn zfp_field_type(field: *const CField) -> c_int;
    fn zfp_field_dimensionality(field: *const CField) -> c_uint;
    fn zfp_field_size(field: *const CField, size: *mut usize) -> usize;
    fn zfp_field_set_pointer(field: *mut CField, pointer: *mut c_void);
    fn zfp_write_header(stream: *mut CStream, field: *const CField, mask: c_uint) -> usize;
    fn zfp_read_header(stream: *mut CStream, field: *mut CField, mask: c_uint) -> usize;
    fn zfp_compress(stream: *mut CStream, field: *const CField) -> usize;
    fn zfp_decompress(stream: *mut CStream, field: *mut CField) -> usize;
}

/// `ZFP_MIN_BITS`, `ZFP_MAX_BITS`, `ZFP_MAX_PREC`, `ZFP_MIN_EXP`.
const MIN_BITS: c_uint = 1;
const MAX_BITS: c_uint = 16658;
const MAX_PLANES: c_uint = 64;
const MIN_EXPONENT: c_int = -1074;
/// The library reads and writes whole words of 64 bits.
const WORD: usize = 8;
/// `ZFP_HEADER_FULL`: magic, type and extents, mode.
const WHOLE_HEADER: c_uint = 7;
/// `ZFP_HEADER_MAX_BITS` in bytes, as whole words.
const HEADER: usize = 24;

/// Type and extents, slowest first, one to four of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) scalar: Scalar,
    pub(super) extents: Vec<usize>,
}

impl Field {
    pub(super) fn byte_len(&self) -> usize {
        self.extents.iter().product::<usize>() * self.scalar.size()
    }

    /// Refuses what does not hold exactly its elements.
    pub(super) fn check_len(&self, len: usize) -> Result<()> {
        if len != self.byte_len() {
            return Err(Error::internal(format!("zfp: {len} bytes given, {} expected", self.byte_len())));
        }
        Ok(())
    }
}

/// A `zfp_field` over memory that outlives it.
struct OwnedField(NonNull<CField>);

impl OwnedField {
    /// `data` points to the elements of `field`, aligned; it may be null for questions about sizes.
    fn new(field: &Field, data: *mut c_void) -> Result<Self> {
        let kind = c_int::from(field.scalar.code());
        // SAFETY: the functions allocate a description and store the address without using it.
        let made = unsafe {
            match *field.extents.as_slice() {
                [nx] => zfp_field_1d(data, kind, nx),
                [ny, nx] => zfp_field_2d(data, kind, nx, ny),
                [nz, ny, nx] => zfp_field_3d(data, kind, nx, ny, nz),
                [nw, nz, ny, nx] => zfp_field_4d(data, kind, nx, ny, nz, nw),
                _ => return Err(Error::internal("zfp takes one to four dimensions")),
            }
        };
        NonNull::new(made).map(Self).ok_or_else(no_memory)
    }
}

impl Drop for OwnedField {
    fn drop(&mut self) {
        // SAFETY: made by `new` and freed once.
        unsafe { zfp_field_free(self.0.as_ptr()) };
    }
}

/// A `zfp_stream` with its parameters.
struct OwnedStream(NonNull<CStream>);

impl OwnedStream {
    fn new(mode: Mode) -> Result<Self> {
        let (planes, exponent) = match mode {
            Mode::Reversible => (MAX_PLANES, MIN_EXPONENT - 1),
            Mode::Precision(planes) => (c_uint::from(planes), MIN_EXPONENT),
            Mode::Accuracy(exponent) => (MAX_PLANES, c_int::from(exponent)),
        };
        // SAFETY: a stream may be opened without bits; they are set before use.
        let made = NonNull::new(unsafe { zfp_stream_open(std::ptr::null_mut()) }).ok_or_else(no_memory)?;
        let stream = Self(made);
        // SAFETY: the stream is open.
        if unsafe { zfp_stream_set_params(made.as_ptr(), MIN_BITS, MAX_BITS, planes, exponent) } == 0 {
            return Err(Error::internal("zfp refuses its parameters"));
        }
        Ok(stream)
    }

    /// Starts at the beginning of `bits`.
    ///
    /// # Safety
    /// `bits` outlive every read and write of the stream.
    unsafe fn start(&self, bits: &OwnedBits) {
        // SAFETY: both are live.
        unsafe {
            zfp_stream_set_bit_stream(self.0.as_ptr(), bits.0.as_ptr());
            zfp_stream_rewind(self.0.as_ptr());
        }
    }
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        // SAFETY: made by `new` and closed once.
        unsafe { zfp_stream_close(self.0.as_ptr()) };
    }
}

/// A `bitstream` over memory that outlives it.
struct OwnedBits(NonNull<BitStream>);

impl OwnedBits {
    /// # Safety
    /// `start` is aligned to a word, points to `len` bytes and outlives the result.
    unsafe fn new(start: *mut c_void, len: usize) -> Result<Self> {
        // SAFETY: only the address and the length are stored.
        NonNull::new(unsafe { stream_open(start, len) }).map(Self).ok_or_else(no_memory)
    }
}

impl Drop for OwnedBits {
    fn drop(&mut self) {
        // SAFETY: made by `new` and closed once.
        unsafe { stream_close(self.0.as_ptr()) };
    }
}

fn no_memory() -> Error {
    Error::unsupported("no memory for a zfp stream")
}

/// Upper bound of the length of a stream.
pub(super) fn max_len(field: &Field, mode: Mode) -> Result<usize> {
    let (stream, described) = (OwnedStream::new(mode)?, OwnedField::new(field, std::ptr::null_mut())?);
    // SAFETY: both are live; the data of the field is not looked at.
    let bound = unsafe { zfp_stream_maximum_size(stream.0.as_ptr(), described.0.as_ptr()) };
    if bound == 0 {
        return Err(Error::unsupported("zfp cannot serve chunks of this size").hint("use smaller chunks"));
    }
    Ok(bound.next_multiple_of(WORD))
}

/// Replaces the contents of `out` by the stream of `input`, which holds exactly the elements of `field`; behind zfp's
/// own header if it is `headed`.
pub(super) fn compress(field: &Field, mode: Mode, headed: bool, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let bound = max_len(field, mode)?;
    let mut words = Words::zeroed(bound)?;
    let elements = Words::copy_of(input, input.len())?;
    let stream = OwnedStream::new(mode)?;
    let described = OwnedField::new(field, elements.start())?;
    // SAFETY: the words are aligned and outlive the stream of bits.
    let bits = unsafe { OwnedBits::new(words.start_mut(), words.byte_len())? };
    // SAFETY: all are live, the elements are those the field describes, and the buffer holds the largest stream.
    let length = unsafe {
        stream.start(&bits);
        if headed && zfp_write_header(stream.0.as_ptr(), described.0.as_ptr(), WHOLE_HEADER) == 0 {
            return Err(Error::internal("zfp cannot describe this chunk in its header"));
        }
        zfp_compress(stream.0.as_ptr(), described.0.as_ptr())
    };
    if length == 0 || length > bound {
        return Err(Error::internal(format!("zfp wrote {length} bytes of at most {bound}")));
    }
    out.clear();
    words.append_to(length, out)
}

/// Replaces the contents of `out` by the elements of `field`.
pub(super) fn decompress(field: &Field, mode: Mode, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
    // The library does not watch the end of a stream. Damaged or not, a block reads no more bits than the longest one
    // would have, so a copy with room for a chunk of such blocks, zeros behind the input, keeps it inside.
    let bound = max_len(field, mode)?;
    if input.len() > bound {
        return Err(Error::corrupt(format!("zfp: {} bytes, at most {bound} expected", input.len())));
    }
    let mut words = Words::copy_of(input, bound + 2 * WORD)?;
    let stream = OwnedStream::new(mode)?;
    let described = OwnedField::new(field, std::ptr::null_mut())?;
    // SAFETY: the words are aligned and outlive the stream of bits.
    let bits = unsafe { OwnedBits::new(words.start_mut(), words.byte_len())? };
    // SAFETY: the bits outlive the call, the description is that of `field`, and there is room for the longest blocks.
    unsafe {
        stream.start(&bits);
        expand(field, &stream, &described, input.len(), out)
    }
}

/// Replaces the contents of `out` by the elements of `field`, which `described` describes, from the `encoded` bytes
/// that `stream` has before it.
///
/// # Safety
/// The bits of `stream` are live, and behind them is room for the longest blocks that its mode knows.
unsafe fn expand(
    field: &Field,
    stream: &OwnedStream,
    described: &OwnedField,
    encoded: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut elements = Words::zeroed(field.byte_len())?;
    // SAFETY: all are live, and the elements have room for what is described; the caller sees to the rest.
    let length = unsafe {
        zfp_field_set_pointer(described.0.as_ptr(), elements.start_mut());
        zfp_decompress(stream.0.as_ptr(), described.0.as_ptr())
    };
    if length == 0 {
        return Err(Error::corrupt("zfp: not a valid stream"));
    }
    if length > encoded.next_multiple_of(WORD) {
        return Err(Error::corrupt("zfp: the stream ends early"));
    }
    out.clear();
    elements.append_to(field.byte_len(), out)
}

/// A stream and a description as the header at the beginning of `words` states them, for `field`.
fn read_header(field: &Field, words: &mut Words) -> Result<(OwnedStream, OwnedBits, OwnedField)> {
    let stream = OwnedStream::new(Mode::Reversible)?;
    // SAFETY: allocates an empty description.
    let described = OwnedField(NonNull::new(unsafe { zfp_field_alloc() }).ok_or_else(no_memory)?);
    // SAFETY: the words are aligned; the caller keeps them while the stream is used.
    let bits = unsafe { OwnedBits::new(words.start_mut(), words.byte_len())? };
    // SAFETY: all are live, and a header is not longer than the words, which have room for the longest.
    let length = unsafe {
        stream.start(&bits);
        zfp_read_header(stream.0.as_ptr(), described.0.as_ptr(), WHOLE_HEADER)
    };
    if length == 0 {
        return Err(Error::corrupt("zfp: no valid header"));
    }
    let mut sizes = [0usize; 4];
    // SAFETY: the description is live; `sizes` has room for four extents, fastest first.
    let (kind, rank) = unsafe {
        zfp_field_size(described.0.as_ptr(), sizes.as_mut_ptr());
        (zfp_field_type(described.0.as_ptr()), zfp_field_dimensionality(described.0.as_ptr()))
    };
    let rank = usize::try_from(rank).unwrap_or(0);
    let stated: Vec<usize> = sizes.iter().take(rank).rev().copied().filter(|extent| *extent != 1).collect();
    if kind != c_int::from(field.scalar.code()) || stated != field.extents {
        return Err(Error::corrupt(format!("zfp: the header states another array, of extents {stated:?}")));
    }
    Ok((stream, bits, described))
}

/// Replaces the contents of `out` by the elements of `field`, from a stream behind zfp's own header.
pub(super) fn decompress_headed(field: &Field, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut head = Words::copy_of(input.get(..HEADER).unwrap_or(input), HEADER)?;
    let (bound, lossless) = {
        let (stream, _bits, described) = read_header(field, &mut head)?;
        let reversible = OwnedStream::new(Mode::Reversible)?;
        let bound = |stream: &OwnedStream| {
            // SAFETY: both are live; the data of the field is not looked at.
            unsafe { zfp_stream_maximum_size(stream.0.as_ptr(), described.0.as_ptr()) }
        };
        (bound(&stream), bound(&reversible))
    };
    // A header can ask for blocks of 4 KiB each; no encoder needs much more than what is lossless.
    if bound == 0 || bound / 2 > lossless || input.len() > bound.next_multiple_of(WORD) {
        return Err(Error::corrupt(format!("zfp: {} bytes, at most {bound} expected", input.len())));
    }
    // A mode that is cut short could pass for another one.
    if !input.len().is_multiple_of(WORD) {
        return Err(Error::corrupt(format!("zfp: {} bytes are no whole words: the stream is cut short", input.len())));
    }
    // As in `decompress`: with room for the longest blocks, damaged streams stay inside.
    let mut words = Words::copy_of(input, bound.next_multiple_of(WORD) + HEADER + 2 * WORD)?;
    let (stream, _bits, described) = read_header(field, &mut words)?;
    // SAFETY: the header describes `field`, and the words, which have room for the longest blocks, outlive the bits.
    unsafe { expand(field, &stream, &described, input.len(), out) }
}

/// Memory aligned to words.
struct Words(Vec<u64>);

impl Words {
    fn zeroed(bytes: usize) -> Result<Self> {
        let count = bytes.div_ceil(WORD);
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| no_memory())?;
        words.resize(count, 0);
        Ok(Self(words))
    }

    /// A copy of `bytes` with zeros up to `len` bytes.
    fn copy_of(bytes: &[u8], len: usize) -> Result<Self> {
        let mut words = Self::zeroed(len.max(bytes.len()))?;
        // SAFETY: the words have room for the bytes and cannot overlap them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), words.start_mut().cast(), bytes.len()) };
        Ok(words)
    }

    fn byte_len(&self) -> usize {
        self.0.len() * WORD
    }

    /// For reading only.
    fn start(&self) -> *mut c_void {
        self.0.as_ptr().cast_mut().cast()
    }

    fn start_mut(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    /// Appends the first `len` bytes.
    fn append_to(&self, len: usize, out: &mut Vec<u8>) -> Result<()> {
        let available = self.byte_len();
        if len > available {
            return Err(Error::internal(format!("zfp: {len} bytes of {available}")));
        }
        let source = self.0.as_ptr().cast::<u8>();
        // SAFETY: `len` bytes are there and are copied to memory that `append` owns.
        unsafe {
            append(out, len, |start, _| {
                std::ptr::copy_nonoverlapping(source, start, len);
                Ok(len)
            })
        }
    }
}
