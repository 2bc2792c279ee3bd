//! What a dataset is, by its properties, when it is created.

use knarr_array::array::{ArraySpec, DType, Endian};
use knarr_array::{Error, ErrorKind, Result};
use knarr_codec::client_data::{Chunks, ClientData};
use knarr_codec::codec::KNARR_FILTER;
use knarr_native::plugin::abi::Id;
use std::ffi::{c_int, c_uint, c_void};

use crate::host::CallerHdf5;

/// `H5T_class_t`.
const INTEGER: c_int = 0;
const FLOAT: c_int = 1;
const BITFIELD: c_int = 4;
const ENUM: c_int = 8;
/// `H5T_order_t`.
const LITTLE_ENDIAN: c_int = 0;
const BIG_ENDIAN: c_int = 1;
/// `H5T_SGN_2`.
const SIGNED: c_int = 1;
/// `H5T_NORM_IMPLIED`.
const IMPLIED: c_int = 0;
/// `H5D_FILL_VALUE_USER_DEFINED`.
const USER_DEFINED: c_int = 2;
const MAX_RANK: usize = 32;

/// Completes the client data of the filter in the property list: options stay, what was said about another dataset's
/// chunks is replaced.
///
/// # Errors
/// `Quality` if the bound cannot be held for this type or pipeline; as for [`ClientData::parse`].
pub(crate) fn complete(host: &CallerHdf5, plist: Id, datatype: Id) -> Result<()> {
    let (position, flags, words) = own_filter(host, plist)?;
    let ClientData { options, .. } = ClientData::parse(&words)?;
    let chunks = if position > 0 {
        if !options.quality.is_lossless() {
            return Err(Error::new(
                ErrorKind::Quality,
                format!("another filter stands before Knarr's, which is to keep {}", options.quality),
            )
            .hint("leave the other filter (shuffle, for example) out: the chain has what it needs"));
        }
        Chunks::Bytes
    } else {
        let mut spec = element(host, datatype)?;
        options.quality.validate(spec.dtype)?;
        spec.shape = chunk_shape(host, plist)?;
        spec.fills = fill_value(host, plist, datatype, &spec)?;
        let missing = options.missing.and_then(|value| spec.dtype.float_bits(value));
        spec.fills.extend(missing.filter(|bits| !spec.fills.contains(bits)).into_iter().collect::<Vec<_>>());
        spec.checked_len()?;
        Chunks::Array(spec)
    };
    let words = ClientData { options, chunks: Some(chunks) }.words()?;
    // SAFETY: the list is open in the calling library; the words live until the call ends.
    let done = unsafe { (host.functions.H5Pmodify_filter)(plist, FILTER, flags, words.len(), words.as_ptr()) };
    checked(done, "store the client data").map(drop)
}

#[expect(clippy::cast_possible_wrap, reason = "filter numbers fit a C int")]
const FILTER: c_int = KNARR_FILTER as c_int;

fn checked(result: c_int, what: &str) -> Result<usize> {
    usize::try_from(result).map_err(|_| Error::internal(format!("HDF5 failed to {what}")))
}

/// Position of Knarr's filter in the pipeline, its flags and its client data.
fn own_filter(host: &CallerHdf5, plist: Id) -> Result<(c_uint, c_uint, Vec<u32>)> {
    let get = |position: c_uint, words: &mut [c_uint]| {
        let (mut flags, mut count, mut config) = (0, words.len(), 0);
        // SAFETY: `count` says how much room `words` has; no name is asked for.
        let id = unsafe {
            (host.functions.H5Pget_filter2)(
                plist,
                position,
                &raw mut flags,
                &raw mut count,
                words.as_mut_ptr(),
                0,
                std::ptr::null_mut(),
                &raw mut config,
            )
        };
        (id, flags, count)
    };
    // SAFETY: the list is open.
    let filters = checked(unsafe { (host.functions.H5Pget_nfilters)(plist) }, "count filters")?;
    for position in 0..c_uint::try_from(filters).unwrap_or(0) {
        let (id, flags, count) = get(position, &mut [0; 1]);
        if id == FILTER {
            let mut words = vec![0; count.min(1024)];
            let (_, _, again) = get(position, &mut words);
            words.truncate(again);
            return Ok((position, flags, words));
        }
    }
    Err(Error::internal("Knarr's filter is not in the pipeline"))
}

/// Type and byte order of the elements; what has no values of its own is bytes of a fixed size.
fn element(host: &CallerHdf5, datatype: Id) -> Result<ArraySpec> {
    let f = &host.functions;
    // SAFETY: the type is open in the calling library, here and below.
    let (class, size) = unsafe { ((f.H5Tget_class)(datatype), (f.H5Tget_size)(datatype)) };
    if class < 0 || size == 0 {
        return Err(Error::internal("HDF5 failed to describe the type"));
    }
    if class == ENUM {
        // SAFETY: as above; the base type is closed again.
        return unsafe {
            let base = (f.H5Tget_super)(datatype);
            let spec = element(host, base);
            (f.H5Tclose)(base);
            spec
        };
    }
    // Only these classes have an order without an error.
    let ordered = matches!(class, INTEGER | FLOAT | BITFIELD);
    // SAFETY: as above.
    let order = if ordered { unsafe { (f.H5Tget_order)(datatype) } } else { -1 };
    let endian = match order {
        LITTLE_ENDIAN => Some(Endian::Little),
        BIG_ENDIAN => Some(Endian::Big),
        _ => None,
    };
    // SAFETY: as above.
    let signed = class == INTEGER && unsafe { (f.H5Tget_sign)(datatype) } == SIGNED;
    let dtype = match (class, size, signed) {
        (FLOAT, _, _) => ieee(host, datatype, size),
        (INTEGER | BITFIELD, 1, false) => Some(DType::U8),
        (INTEGER | BITFIELD, 2, false) => Some(DType::U16),
        (INTEGER | BITFIELD, 4, false) => Some(DType::U32),
        (INTEGER | BITFIELD, 8, false) => Some(DType::U64),
        (INTEGER, 1, true) => Some(DType::I8),
        (INTEGER, 2, true) => Some(DType::I16),
        (INTEGER, 4, true) => Some(DType::I32),
        (INTEGER, 8, true) => Some(DType::I64),
        _ => None,
    };
    match (dtype, endian) {
        (Some(dtype), Some(endian)) => Ok(ArraySpec { endian, ..ArraySpec::new(dtype, []) }),
        _ => {
            let size = u32::try_from(size).map_err(|_| Error::unsupported(format!("elements of {size} bytes")))?;
            Ok(ArraySpec::new(DType::Opaque(size), []))
        }
    }
}

/// The IEEE 754 type of this layout; `None` for others of the same size.
fn ieee(host: &CallerHdf5, datatype: Id, size: usize) -> Option<DType> {
    // Sign, exponent, exponent bits, mantissa, mantissa bits, bias.
    let known = match size {
        2 => (DType::F16, [15, 10, 5, 0, 10], 15),
        4 => (DType::F32, [31, 23, 8, 0, 23], 127),
        8 => (DType::F64, [63, 52, 11, 0, 52], 1023),
        _ => return None,
    };
    let [mut sign, mut exponent, mut exponent_bits, mut mantissa, mut mantissa_bits] = [0usize; 5];
    // SAFETY: the type is an open floating-point type; the places for results are valid.
    let (status, bias, norm) = unsafe {
        let status = (host.functions.H5Tget_fields)(
            datatype,
            &raw mut sign,
            &raw mut exponent,
            &raw mut exponent_bits,
            &raw mut mantissa,
            &raw mut mantissa_bits,
        );
        (status, (host.functions.H5Tget_ebias)(datatype), (host.functions.H5Tget_norm)(datatype))
    };
    let fields = [sign, exponent, exponent_bits, mantissa, mantissa_bits];
    (status >= 0 && fields == known.1 && bias == known.2 && norm == IMPLIED).then_some(known.0)
}

fn chunk_shape(host: &CallerHdf5, plist: Id) -> Result<Vec<usize>> {
    let mut extents = [0u64; MAX_RANK];
    // SAFETY: the list is open and there is room for 32 extents.
    let rank = unsafe { (host.functions.H5Pget_chunk)(plist, 32, extents.as_mut_ptr()) };
    let rank = checked(rank, "read the chunk shape")?;
    let extent = |&extent: &u64| usize::try_from(extent).map_err(|_| Error::unsupported("chunks too large"));
    extents.get(..rank).unwrap_or_default().iter().map(extent).collect()
}

/// The fill value that the program set, as stored in this type: HDF5 converts and rounds it. The default of the
/// library is 0, which is an ordinary value.
fn fill_value(host: &CallerHdf5, plist: Id, datatype: Id, spec: &ArraySpec) -> Result<Vec<u64>> {
    let mut status = 0;
    // SAFETY: the list is open and `status` a valid place for the result.
    checked(unsafe { (host.functions.H5Pfill_value_defined)(plist, &raw mut status) }, "read the fill value")?;
    if status != USER_DEFINED || !spec.dtype.is_number() {
        return Ok(Vec::new());
    }
    let mut bytes = [0u8; 8];
    // SAFETY: the list and the type are open; numbers take at most 8 bytes.
    let done = unsafe { (host.functions.H5Pget_fill_value)(plist, datatype, bytes.as_mut_ptr().cast::<c_void>()) };
    checked(done, "read the fill value")?;
    let stored = bytes.get(..spec.dtype.size()).unwrap_or_default();
    let put = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
    Ok(vec![match spec.endian {
        Endian::Little => stored.iter().rev().fold(0, put),
        Endian::Big => stored.iter().fold(0, put),
    }])
}
