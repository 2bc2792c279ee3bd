//! The C interface between HDF5 and filter plugins, as `H5PLextern.h` and `H5Zpublic.h` have it.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `hid_t` since HDF5 1.10.
pub type Id = i64;

/// `H5PL_TYPE_FILTER`: what `H5PLget_plugin_type` returns for filters.
pub const TYPE_FILTER: c_int = 0;
/// `H5Z_CLASS_T_VERS`: the version of [`Class`].
pub const CLASS_VERSION: c_int = 1;
/// `H5Z_FLAG_REVERSE`, among the flags of a [`Filter`]: decode.
pub const DECODE: c_uint = 0x0100;

/// `H5Z_func_t`: encodes or decodes the first `nbytes` bytes of `*buf`, which it may replace. Returns the bytes that
/// are there then, 0 for failure.
pub type Filter = unsafe extern "C" fn(
    flags: c_uint,
    cd_nelmts: usize,
    cd_values: *const c_uint,
    nbytes: usize,
    buf_size: *mut usize,
    buf: *mut *mut c_void,
) -> usize;

/// `H5Z_can_apply_func_t` and `H5Z_set_local_func_t`: a creation property list, a datatype, a dataspace.
pub type AtCreation = unsafe extern "C" fn(Id, Id, Id) -> c_int;

/// `H5Z_class2_t`: what `H5PLget_plugin_info` returns.
#[repr(C)]
pub struct Class {
    /// [`CLASS_VERSION`].
    pub version: c_int,
    /// Number of the filter.
    pub id: c_int,
    /// Not 0 if it can write.
    pub encoder_present: c_uint,
    /// Not 0 if it can read.
    pub decoder_present: c_uint,
    /// For people; may be null.
    pub name: *const c_char,
    /// Says whether a dataset can have the filter.
    pub can_apply: Option<AtCreation>,
    /// Fits the client data to a new dataset.
    pub set_local: Option<AtCreation>,
    /// Does the work.
    pub filter: Option<Filter>,
}
