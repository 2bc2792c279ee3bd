//! Types of `knarr.h`.
#![allow(non_camel_case_types, reason = "these are the names of the C interface")]

use std::ffi::c_char;

/// Dimensions that an array may have.
pub const KNARR_MAX_RANK: usize = 32;
/// Number of Knarr's HDF5 filter, for H5Pset_filter.
pub const KNARR_HDF5_FILTER: i32 = 45223;
const _: () = assert!(KNARR_HDF5_FILTER.cast_unsigned() == knarr_codec::codec::KNARR_FILTER);
/// An integer hint that is not stated; a real one is NaN then.
pub const KNARR_UNSET: i32 = -1;

/// What became of a call. Numbers are never reused.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum knarr_status {
    /// Done.
    KNARR_OK = 0,
    /// The call is wrong: a null pointer, a value out of range, a buffer too small, a contradiction.
    KNARR_USAGE = 1,
    /// A profile cannot be parsed.
    KNARR_CONFIG = 2,
    /// A file does not exist.
    KNARR_NOT_FOUND = 3,
    /// A checkpoint or a file exists and may not be replaced.
    KNARR_EXISTS = 4,
    /// A file cannot be read.
    KNARR_READ = 5,
    /// A file cannot be written, or there is no room.
    KNARR_WRITE = 6,
    /// The bytes are not a whole, undamaged frame, or a checkpoint is damaged.
    KNARR_CORRUPT = 7,
    /// A codec that the frame needs is not available.
    KNARR_MISSING_FILTER = 8,
    /// This version, this type or this machine's memory cannot serve the request.
    KNARR_UNSUPPORTED = 9,
    /// The quality cannot be kept.
    KNARR_QUALITY = 10,
    /// A file changed while it was packed.
    KNARR_DIFFERS = 11,
    /// Another rank is gone.
    KNARR_INTERRUPTED = 12,
    /// A defect of Knarr.
    KNARR_INTERNAL = 13,
}

/// Types of elements. Numbers are never reused.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum knarr_dtype {
    /// int8_t
    KNARR_INT8 = 1,
    /// int16_t
    KNARR_INT16 = 2,
    /// int32_t
    KNARR_INT32 = 3,
    /// int64_t
    KNARR_INT64 = 4,
    /// uint8_t
    KNARR_UINT8 = 5,
    /// uint16_t
    KNARR_UINT16 = 6,
    /// uint32_t
    KNARR_UINT32 = 7,
    /// uint64_t
    KNARR_UINT64 = 8,
    /// IEEE 754 binary16; lossless only.
    KNARR_FLOAT16 = 9,
    /// float
    KNARR_FLOAT32 = 10,
    /// double
    KNARR_FLOAT64 = 11,
}

/// What a speed is measured in.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum knarr_speed_unit {
    /// Megabytes (1e6 bytes) of raw data per second of one core.
    KNARR_MB_PER_SECOND = 0,
    /// Multiples of knarr_hints.network_speed.
    KNARR_TIMES_NETWORK = 1,
    /// Multiples of knarr_hints.storage_speed.
    KNARR_TIMES_STORAGE = 2,
}

/// What may change in the data and what to optimise. Initialised by knarr_hints_init(), which states nothing: lossless,
/// goal 'balanced'. All bounds that are stated hold together, for every element, after the cast to its own type. NaN,
/// infinities and fill values keep their bits under every bound, and no other value becomes one of them. Bounds are for
/// KNARR_FLOAT32 and KNARR_FLOAT64.
///
/// As the observed accuracy of knarr_validate() the same fields say what was kept.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct knarr_hints {
    /// Size of this structure in bytes, set by knarr_hints_init(). Later versions add fields at the end.
    pub size: usize,
    /// Largest absolute error, in the unit of the data. Not stated: NaN, as for all real fields.
    pub max_abs_error: f64,
    /// Largest absolute error as a fraction of the range (largest - smallest) of the valid values, which are finite, no
    /// fill values and in no exact range.
    pub max_range_error: f64,
    /// Largest error relative to each value; 0.01 is one per cent.
    pub max_rel_error: f64,
    /// max_rel_error, significant_bits and significant_digits never ask for less than this absolute error, in the unit
    /// of the data: it keeps them affordable near zero.
    pub finest_abs_error: f64,
    /// Explicit mantissa bits that stay right, 1 to 23 or 52. Not stated: KNARR_UNSET.
    pub significant_bits: i32,
    /// Decimal digits that stay right, 1 to 7 or 15. Not stated: KNARR_UNSET.
    pub significant_digits: i32,
    /// Values up to this, rounded to the type of the data, stay exact; no other value becomes one of them.
    pub exact_up_to: f64,
    /// The same for values from this on.
    pub exact_from: f64,
    /// A value that means 'missing', rounded to the type of the data: 1e20 stands for (float)1e20 among floats.
    pub fill_value: f64,
    /// Slowest encoding that is good enough, in units of encode_unit.
    pub encode_speed: f64,
    /// Slowest decoding that is good enough, in units of decode_unit.
    pub decode_speed: f64,
    /// A knarr_speed_unit.
    pub encode_unit: i32,
    /// A knarr_speed_unit.
    pub decode_unit: i32,
    /// Speed of the network, MB/s.
    pub network_speed: f64,
    /// Speed of one stream to storage, MB/s.
    pub storage_speed: f64,
    /// What to optimise: speed, balanced, ratio, archive or energy; weights such as "ratio=0.4,encode=0.3,decode=0.3";
    /// limits such as "encode>=300MB/s". Empty: balanced.
    pub goal: [c_char; 128],
    /// Chain to use without choosing, such as "shuffle | zstd:3". Empty: chosen from the data.
    pub chain: [c_char; 256],
    /// File of a profile that 'knarr profile' wrote, for the speeds of this machine. Empty: the built-in profile.
    pub profile: [c_char; 1024],
}

/// What a frame holds.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct knarr_info {
    /// Size of this structure in bytes: set it before the call.
    pub size: usize,
    /// A knarr_dtype.
    pub dtype: i32,
    /// Number of dimensions; 0 for a scalar.
    pub rank: i32,
    /// Extents, slowest first.
    pub shape: [usize; KNARR_MAX_RANK],
    /// Bytes of the decoded array.
    pub raw_size: usize,
    /// Bytes of the frame.
    pub frame_size: usize,
    /// 1 if the chain may change values, 0 if every bit is as it was.
    pub lossy: i32,
    /// The chain with all its options; "..." at the end where it is longer.
    pub chain: [c_char; 512],
}

/// What knarr_validate() found. Indices count elements in memory from 0; -1 is none.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct knarr_validation {
    /// Size of this structure in bytes: set it before the call.
    pub size: usize,
    /// 1 if everything that the context's hints ask for holds, for every element.
    pub holds: i32,
    /// Elements.
    pub elements: i64,
    /// Elements whose bits changed.
    pub changed: i64,
    /// Element with the largest absolute error, and of max_range_error too.
    pub worst_abs: i64,
    /// Element with the largest relative error.
    pub worst_rel: i64,
    /// Element that kept the fewest mantissa bits.
    pub worst_bits: i64,
    /// Element that kept the fewest decimal digits.
    pub worst_digits: i64,
    /// First element that breaks the hints.
    pub first_miss: i64,
    /// What became of that element; empty if there is none.
    pub miss: [c_char; 256],
}
