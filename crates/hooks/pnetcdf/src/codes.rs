//! Codes that PnetCDF returns, and numbers that mean something to it. Source: pnetcdf.h of 1.12.3; they are the same up to
//! 1.15.

use std::ffi::{c_int, c_longlong};

/// `MPI_Offset`.
pub(crate) type Offset = c_longlong;

/// A flexible function takes as many elements as are wanted, whatever its count: `NC_COUNT_IGNORE`.
pub(crate) const COUNT_IGNORE: Offset = -1;

pub(crate) const NOERR: c_int = 0;
pub(crate) const EINVAL: c_int = -36;
/// A put into a file that was opened for reading.
pub(crate) const EPERM: c_int = -37;
/// Only in define mode, and only outside of it.
pub(crate) const ENOTINDEFINE: c_int = -38;
pub(crate) const EINDEFINE: c_int = -39;
pub(crate) const EINVALCOORDS: c_int = -40;
pub(crate) const EINTOVERFLOW: c_int = -221;
pub(crate) const ENOTVAR: c_int = -49;
/// Text into numbers, or the reverse.
pub(crate) const ECHAR: c_int = -56;
pub(crate) const EEDGE: c_int = -57;
pub(crate) const ESTRIDE: c_int = -58;
/// A value that the type in the file cannot hold.
pub(crate) const ERANGE: c_int = -60;
/// An independent call in collective mode, and the reverse.
pub(crate) const ENOTINDEP: c_int = -202;
pub(crate) const EINDEP: c_int = -203;
/// Something that nobody expects.
pub(crate) const EFILE: c_int = -204;
pub(crate) const EREAD: c_int = -205;
pub(crate) const EWRITE: c_int = -206;
/// A datatype of several kinds of elements.
pub(crate) const EMULTITYPES: c_int = -208;
pub(crate) const EIOMISMATCH: c_int = -209;
pub(crate) const ENEGATIVECNT: c_int = -210;
pub(crate) const EUNSPTETYPE: c_int = -211;
pub(crate) const EINVAL_REQUEST: c_int = -212;
pub(crate) const ENULLBUF: c_int = -215;
pub(crate) const EPREVATTACHBUF: c_int = -216;
pub(crate) const ENULLABUF: c_int = -217;
pub(crate) const ENOTSUPPORT: c_int = -214;
pub(crate) const EPENDINGBPUT: c_int = -218;
pub(crate) const EINSUFFBUF: c_int = -219;
/// There is no such file.
pub(crate) const ENOENT: c_int = -220;
pub(crate) const ENULLSTART: c_int = -226;
/// Elements of a datatype for the file that are not those of the variable.
pub(crate) const ETYPE_MISMATCH: c_int = -230;
pub(crate) const ENOTRECVAR: c_int = -233;
pub(crate) const ENOTFILL: c_int = -234;

/// Requests were never waited for when the file was closed.
pub(crate) const EPENDING: c_int = -236;

/// The ranks gave different modes to `ncmpi_open` or `ncmpi_create`.
const EMULTIDEFINE_OMODE: c_int = -251;
const EMULTIDEFINE_CMODE: c_int = -273;

/// True if a call that opens or creates a file has done so. With different modes it has, in that of the first rank.
pub(crate) fn has_opened(code: c_int) -> bool {
    matches!(code, NOERR | EMULTIDEFINE_OMODE | EMULTIDEFINE_CMODE)
}

/// Mode of `ncmpi_open`.
pub(crate) const WRITE: c_int = 1;
/// Mode of `ncmpi_create`.
pub(crate) const NOCLOBBER: c_int = 4;
/// Modes of `ncmpi_set_fill`.
pub(crate) const FILL: c_int = 0;
pub(crate) const NOFILL: c_int = 0x100;
/// Of `ncmpi_wait` and `ncmpi_cancel`: all requests, those to read, those to write.
pub(crate) const REQ_ALL: c_int = -1;
pub(crate) const GET_REQ_ALL: c_int = -2;
pub(crate) const PUT_REQ_ALL: c_int = -3;
/// A request that is done.
pub(crate) const REQ_NULL: c_int = -1;
/// The format of 64-bit data, CDF-5, as `ncmpi_inq_format` says it.
pub(crate) const FORMAT_CDF5: c_int = 5;
