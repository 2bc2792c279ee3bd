//! Files.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hdf5_metno_sys::h5f::{
    H5F_ACC_RDONLY, H5F_ACC_TRUNC, H5F_info2_t, H5F_libver_t, H5F_scope_t, H5Fcreate, H5Fflush, H5Fget_create_plist,
    H5Fget_info2, H5Fopen,
};
use hdf5_metno_sys::h5o::{H5O_token_t, H5Oopen_by_token};
use hdf5_metno_sys::h5p::{
    H5P_CLS_FILE_ACCESS, H5Pcreate, H5Pset_cache, H5Pset_fclose_degree, H5Pset_file_locking, H5Pset_libver_bounds,
    H5Pset_meta_block_size,
};

use hdf5_metno_sys::h5::herr_t;
use hdf5_metno_sys::h5i::hid_t;

use crate::sys::{
    Address, Group, Id, Object, Plist, c_string, call, drivers::heap_guard, drivers::reserving, locked, made,
};
use hdf5_metno_sys::h5f::H5F_close_degree_t;
use knarr_array::error::Result;
use knarr_array::libver::{LibverBounds, Release};

/// Slots and bytes of the library's chunk cache of each dataset, which few chunks go through: HDF5 2.0 clears 8191 slots
/// each time one is opened, HDF5 1.14 had so many.
const CHUNK_SLOTS: usize = 521;
const CHUNK_BYTES: usize = 8 << 20;

fn small_caches(fapl: &Id) -> Result<()> {
    // SAFETY: `fapl` is a live file access list. The count of metadata entries is not used any more.
    call("prepare the file", || unsafe { H5Pset_cache(fapl.raw(), 0, CHUNK_SLOTS, CHUNK_BYTES, 0.75) }).map(|_| ())
}

unsafe extern "C" {
    fn H5Pset_relax_file_integrity_checks(fapl: hid_t, flags: u64) -> herr_t;
}

/// Bytes that HDF5 sets aside at a time for what is no values, unless more is asked for.
const LEAST_METADATA: u64 = 2048;

fn version(release: Release) -> H5F_libver_t {
    match release {
        Release::Earliest => H5F_libver_t::H5F_LIBVER_EARLIEST,
        Release::V18 => H5F_libver_t::H5F_LIBVER_V18,
        Release::V110 => H5F_libver_t::H5F_LIBVER_V110,
        Release::V112 => H5F_libver_t::H5F_LIBVER_V112,
        Release::V114 => H5F_libver_t::H5F_LIBVER_V114,
        Release::V200 => H5F_libver_t::H5F_LIBVER_V200,
    }
}

/// `H5F_RFIC_UNUSUAL_NUM_UNUSED_NUMERIC_BITS`.
const SPARSE_NUMBERS: u64 = 1;

/// Takes numbers that use less than half of their bits: HDF5 from 1.14.4 on holds them for damage, earlier releases
/// read and write them.
fn take_sparse_numbers(fapl: &Id) -> Result<()> {
    // SAFETY: `fapl` is a live file access list.
    call("prepare the file", || unsafe { H5Pset_relax_file_integrity_checks(fapl.raw(), SPARSE_NUMBERS) }).map(|_| ())
}

/// An open file.
#[derive(Debug)]
pub(crate) struct File(pub(in crate::sys) Id);

impl File {
    /// Opens for reading. With `lock`, writers that use HDF5 cannot open the file meanwhile, nor is one opened that
    /// they have open.
    pub(crate) fn open(path: &Path, lock: bool) -> Result<Self> {
        match Self::open_as(path, lock) {
            // This process has it open, with a lock: the library shares that and wants it asked for alike.
            Err(error) if !lock && error.message().contains("file locking flag values don't match") => {
                Self::open_as(path, true)
            }
            opened => opened,
        }
    }

    fn open_as(path: &Path, lock: bool) -> Result<Self> {
        let name = c_string(path.as_os_str().as_bytes())?;
        locked(|| {
            // SAFETY: the class identifier is valid once the library is open, which the lock ensures.
            let fapl = made("prepare the file", || unsafe { H5Pcreate(*H5P_CLS_FILE_ACCESS) })?;
            heap_guard::guard(&fapl, &name)?;
            small_caches(&fapl)?;
            take_sparse_numbers(&fapl)?;
            if !lock {
                // SAFETY: `fapl` is a live file access list.
                call("prepare the file", || unsafe { H5Pset_file_locking(fapl.raw(), 0, 1) })?;
            }
            // SAFETY: `name` is NUL-terminated and outlives the call, as does the list.
            made("open the file", || unsafe { H5Fopen(name.as_ptr(), H5F_ACC_RDONLY, fapl.raw()) }).map(Self)
        })
    }

    /// Creates a file in place of one that exists, whose objects get forms within `bounds`. Its first `metadata` bytes are
    /// set aside for everything but values, so that readers find it in one place.
    pub(crate) fn create(path: &Path, fcpl: &Plist, bounds: LibverBounds, metadata: u64) -> Result<Self> {
        let name = c_string(path.as_os_str().as_bytes())?;
        locked(|| {
            // SAFETY: the class identifier is valid once the library is open, which the lock ensures.
            let fapl = made("prepare the file", || unsafe { H5Pcreate(*H5P_CLS_FILE_ACCESS) })?;
            reserving::reserving(&fapl, &name)?;
            small_caches(&fapl)?;
            take_sparse_numbers(&fapl)?;
            // SAFETY: `fapl` is a live file access list.
            call("prepare the file", || unsafe {
                H5Pset_libver_bounds(fapl.raw(), version(bounds.low), version(bounds.high))
            })?;
            // SAFETY: as above.
            call("prepare the file", || unsafe { H5Pset_meta_block_size(fapl.raw(), metadata.max(LEAST_METADATA)) })?;
            // SAFETY: as above.
            call("prepare the file", || unsafe {
                H5Pset_fclose_degree(fapl.raw(), H5F_close_degree_t::H5F_CLOSE_STRONG)
            })?;
            // Nobody else knows the temporary name; a lock would outlive us in child processes that inherit it.
            // SAFETY: as above.
            call("prepare the file", || unsafe { H5Pset_file_locking(fapl.raw(), 0, 1) })?;
            // SAFETY: name and lists outlive the call.
            made("create the file", || unsafe { H5Fcreate(name.as_ptr(), H5F_ACC_TRUNC, fcpl.0.raw(), fapl.raw()) })
                .map(Self)
        })
    }

    /// Writes everything out.
    pub(crate) fn flush(&self) -> Result<()> {
        // SAFETY: the file is open.
        call("write the file", || unsafe { H5Fflush(self.0.raw(), H5F_scope_t::H5F_SCOPE_GLOBAL) }).map(|_| ())
    }

    /// Closes and reports what dropping cannot.
    pub(crate) fn close(self) -> Result<()> {
        self.0.close("close the file")
    }

    /// File creation properties: user block, sizes, B-tree ranks, shared messages, space strategy.
    pub(crate) fn creation(&self) -> Result<Plist> {
        // SAFETY: the file is open.
        made("read the file's properties", || unsafe { H5Fget_create_plist(self.0.raw()) }).map(Plist)
    }

    /// Version of the superblock: 0 and 1 are those of HDF5 1.6, 2 of 1.8, 3 of 1.10.
    pub(crate) fn superblock_version(&self) -> Result<u32> {
        let mut info = H5F_info2_t::default();
        // SAFETY: `info` is a valid place for the result.
        call("read the superblock", || unsafe { H5Fget_info2(self.0.raw(), &raw mut info) })?;
        Ok(info.super_.version)
    }

    /// The root group.
    pub(crate) fn root(&self) -> Result<Group> {
        self.object_at_path(b"/").and_then(Object::into_group)
    }

    /// The object at an absolute path.
    pub(crate) fn object_at_path(&self, path: &[u8]) -> Result<Object> {
        Object::open(&self.0, path)
    }

    /// The object at an absolute path as the model has it, which takes bytes that are not UTF-8 for Latin-1.
    pub(crate) fn object_named(&self, path: &str) -> Result<Object> {
        let latin1: Option<Vec<u8>> = path.chars().map(|letter| u8::try_from(letter).ok()).collect();
        self.object_at_path(path.as_bytes()).or_else(|error| match latin1.filter(|_| !path.is_ascii()) {
            Some(bytes) => self.object_at_path(&bytes).map_err(|_| error),
            None => Err(error),
        })
    }

    /// The object whose header is at `address`.
    pub(crate) fn object_at(&self, address: Address) -> Result<Object> {
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&address.0.to_le_bytes());
        // SAFETY: a token is a plain array of 16 bytes; the native one starts with the address.
        let token = unsafe { std::mem::transmute::<[u8; 16], H5O_token_t>(bytes) };
        // SAFETY: the file is open; the library checks the address.
        made("open an object", || unsafe { H5Oopen_by_token(self.0.raw(), token) }).map(Object)
    }
}
