//! Datatypes of MPI, as PnetCDF's flexible functions have them: errors are its codes.

use std::ffi::{c_int, c_void};

use knarr_captured::Ranks;
use knarr_mpi::{Datatype, NoKind};

use crate::codes::{EINVAL, EMULTITYPES, EUNSPTETYPE, Offset};

/// What the ranks of a file know of datatypes. Without MPI there are none.
pub(crate) trait Datatypes {
    /// What a datatype of MPI holds; `None` for `MPI_DATATYPE_NULL`.
    ///
    /// # Errors
    /// `NC_EMULTITYPES` for datatypes of several kinds of elements, `NC_EUNSPTETYPE` for unknown ones.
    fn describe(&self, datatype: usize) -> std::result::Result<Option<Datatype>, c_int>;

    /// The first byte of each of the `count` elements of a datatype, of `size` bytes each, as `Adapter::places` has them.
    ///
    /// # Errors
    /// `NC_EINVAL` if MPI refuses it, or memory is short.
    fn places(&self, datatype: usize, count: u64, size: usize) -> std::result::Result<Vec<i64>, c_int>;

    /// A copy of a datatype that stays when the program frees its own; [`Datatypes::give_back`] frees it.
    fn kept(&self, datatype: usize) -> usize;

    /// Frees what [`Datatypes::kept`] made.
    fn give_back(&self, datatype: usize);

    /// The elements of a buffer, one behind the other: `bytes` bytes.
    ///
    /// # Errors
    /// `NC_EINVAL` if MPI refuses it.
    ///
    /// # Safety
    /// The buffer holds so many of the datatype.
    unsafe fn pack(
        &self,
        buffer: *const c_void,
        count: Offset,
        datatype: usize,
        bytes: usize,
    ) -> std::result::Result<Vec<u8>, c_int>;

    /// The reverse of [`Datatypes::pack`].
    ///
    /// # Errors
    /// `NC_EINVAL` if MPI refuses it.
    ///
    /// # Safety
    /// The buffer has room for so many of the datatype.
    unsafe fn unpack(
        &self,
        values: &[u8],
        buffer: *mut c_void,
        count: Offset,
        datatype: usize,
    ) -> std::result::Result<(), c_int>;

    /// The datatype at a place of an array of datatypes.
    ///
    /// # Safety
    /// There are more than `at` of them.
    unsafe fn datatype_at(&self, datatypes: *const c_void, at: usize) -> usize;
}

impl Datatypes for Ranks {
    fn describe(&self, datatype: usize) -> std::result::Result<Option<Datatype>, c_int> {
        let described = self.adapter().ok_or(EUNSPTETYPE)?.describe(datatype);
        described.map_err(|why| if why == NoKind::Several { EMULTITYPES } else { EUNSPTETYPE })
    }

    fn places(&self, datatype: usize, count: u64, size: usize) -> std::result::Result<Vec<i64>, c_int> {
        self.adapter().ok_or(EINVAL)?.places(datatype, count, size).map_err(|_| EINVAL)
    }

    fn kept(&self, datatype: usize) -> usize {
        self.adapter().map_or(datatype, |adapter| adapter.keep(datatype))
    }

    fn give_back(&self, datatype: usize) {
        if let Some(adapter) = self.adapter() {
            adapter.give_back(datatype);
        }
    }

    unsafe fn pack(
        &self,
        buffer: *const c_void,
        count: Offset,
        datatype: usize,
        bytes: usize,
    ) -> std::result::Result<Vec<u8>, c_int> {
        // SAFETY: the caller's promise.
        unsafe { self.adapter().ok_or(EINVAL)?.pack(buffer, count, datatype, bytes) }.map_err(|_| EINVAL)
    }

    unsafe fn unpack(
        &self,
        values: &[u8],
        buffer: *mut c_void,
        count: Offset,
        datatype: usize,
    ) -> std::result::Result<(), c_int> {
        // SAFETY: the caller's promise.
        unsafe { self.adapter().ok_or(EINVAL)?.unpack(values, buffer, count, datatype) }.map_err(|_| EINVAL)
    }

    unsafe fn datatype_at(&self, datatypes: *const c_void, at: usize) -> usize {
        // SAFETY: the caller's promise.
        self.adapter().map_or(0, |adapter| unsafe { adapter.datatype_at(datatypes, at) })
    }
}
