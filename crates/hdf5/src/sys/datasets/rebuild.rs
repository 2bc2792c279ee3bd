//! Types and dataset properties made anew from their parts.
//!
//! The library remembers in which version of the file format a type or layout was stored, and stores copies in
//! that version or a newer one. Files written by HDF5 2.x would stay unreadable for older releases if their types
//! and layouts were merely copied.

use std::ffi::CStr;
use std::os::raw::c_char;

use hdf5_metno_sys::h5::H5free_memory;
use hdf5_metno_sys::h5d::{H5D_alloc_time_t, H5D_fill_time_t, H5D_fill_value_t, H5D_layout_t};
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5p::*;
use hdf5_metno_sys::h5t::*;

use crate::sys::{Class, DatasetLayout, Datatype, Memory, Plist, Space, call, locked, made};
use knarr_array::error::{Error, Result};

/// Longer paths no system has.
const LONGEST_NAME: usize = 64 << 10;

/// A string that the library allocated, as bytes; it is freed.
fn owned_string(pointer: *mut c_char) -> Result<Vec<u8>> {
    if pointer.is_null() {
        return Err(Error::corrupt("a data type lacks a name"));
    }
    // SAFETY: the library returns a NUL-terminated string that belongs to the caller, freed here once.
    unsafe {
        let bytes = CStr::from_ptr(pointer).to_bytes_with_nul().to_vec();
        H5free_memory(pointer.cast());
        Ok(bytes)
    }
}

impl Datatype {
    /// An equal transient type that can be stored in the oldest form that serves.
    pub(crate) fn rebuilt(&self) -> Result<Self> {
        locked(|| {
            let copy = self.copy()?;
            // What cannot be put together from parts is copied.
            match self.parts() {
                // SAFETY: both types are open.
                Ok(rebuilt) if call("compare types", || unsafe { H5Tequal(rebuilt.0.raw(), copy.0.raw()) })? > 0 => {
                    Ok(rebuilt)
                }
                _ => Ok(copy),
            }
        })
    }

    fn parts(&self) -> Result<Self> {
        let what = "rebuild a type";
        if let Some((dtype, endian)) = self.number()? {
            return Self::of(dtype, endian);
        }
        let size = self.size()?;
        match self.class()? {
            Class::Integer => self.bits_of(*H5T_STD_I64LE, true),
            Class::Bitfield => self.bits_of(*H5T_STD_B64LE, false),
            Class::Float => self.float(),
            Class::Time | Class::Complex => self.copy(),
            Class::Reference => Self::reference(self.reference_kind()?),
            Class::String => {
                let length = if self.is_variable_string()? { None } else { Some(size) };
                let string = Self::string(length, false)?;
                // SAFETY: both types are open, here and below.
                call(what, || unsafe { H5Tset_cset(string.0.raw(), H5Tget_cset(self.0.raw())) })?;
                // SAFETY: as above.
                call(what, || unsafe { H5Tset_strpad(string.0.raw(), H5Tget_strpad(self.0.raw())) })?;
                Ok(string)
            }
            Class::Opaque => {
                // SAFETY: no pointers are involved.
                let opaque = made(what, || unsafe { H5Tcreate(H5T_class_t::H5T_OPAQUE, size) }).map(Self)?;
                // SAFETY: the type is opaque.
                let tag = owned_string(unsafe { H5Tget_tag(self.0.raw()) })?;
                // SAFETY: `tag` is NUL-terminated and outlives the call.
                call(what, || unsafe { H5Tset_tag(opaque.0.raw(), tag.as_ptr().cast()) })?;
                Ok(opaque)
            }
            Class::Compound => {
                // SAFETY: no pointers are involved.
                let compound = made(what, || unsafe { H5Tcreate(H5T_class_t::H5T_COMPOUND, size) }).map(Self)?;
                for (n, (offset, member)) in (0u32..).zip(self.members()?) {
                    // SAFETY: `n` counts the members of the compound.
                    let name = owned_string(unsafe { H5Tget_member_name(self.0.raw(), n) })?;
                    let member = member.rebuilt()?;
                    // SAFETY: `name` is NUL-terminated and outlives the call; the library checks that it fits.
                    call(what, || unsafe {
                        H5Tinsert(compound.0.raw(), name.as_ptr().cast(), offset, member.0.raw())
                    })?;
                }
                Ok(compound)
            }
            Class::Enum => self.enumeration(),
            Class::Vlen => self.base()?.rebuilt()?.sequences(),
            Class::Array => {
                let base = self.base()?.rebuilt()?;
                // SAFETY: the type is an array.
                let rank = call(what, || unsafe { H5Tget_array_ndims(self.0.raw()) })?;
                let mut shape = vec![0u64; usize::try_from(rank).unwrap_or(0)];
                // SAFETY: `shape` has room for the rank of the array.
                call(what, || unsafe { H5Tget_array_dims2(self.0.raw(), shape.as_mut_ptr()) })?;
                let rank = u32::try_from(shape.len()).unwrap_or(0);
                // SAFETY: `shape` holds `rank` extents.
                made(what, || unsafe { H5Tarray_create2(base.0.raw(), rank, shape.as_ptr()) }).map(Self)
            }
        }
    }

    fn enumeration(&self) -> Result<Self> {
        let what = "rebuild an enumeration";
        let base = self.base()?.rebuilt()?;
        // SAFETY: the base type is open.
        let made_type = made(what, || unsafe { H5Tenum_create(base.0.raw()) }).map(Self)?;
        for (name, value) in self.enumerated()? {
            // SAFETY: the name is NUL-terminated; the value has the size of the type.
            call(what, || unsafe { H5Tenum_insert(made_type.0.raw(), name.as_ptr().cast(), value.as_ptr().cast()) })?;
        }
        Ok(made_type)
    }

    /// Names, with their NUL, and values in stored byte order of the members of an enumeration.
    pub(crate) fn enumerated(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let what = "read an enumeration";
        locked(|| {
            // SAFETY: the type is an enumeration; for others the library reports an error.
            let count = call(what, || unsafe { H5Tget_nmembers(self.0.raw()) })?;
            (0..u32::try_from(count).unwrap_or(0))
                .map(|n| {
                    // SAFETY: `n` counts the members.
                    let name = owned_string(unsafe { H5Tget_member_name(self.0.raw(), n) })?;
                    let mut value = vec![0u8; self.size()?];
                    // SAFETY: `value` has the size of the type, which is that of its values.
                    call(what, || unsafe { H5Tget_member_value(self.0.raw(), n, value.as_mut_ptr().cast()) })?;
                    Ok((name, value))
                })
                .collect()
        })
    }

    /// Names of the members of a compound.
    pub(crate) fn member_names(&self) -> Result<Vec<Vec<u8>>> {
        locked(|| {
            // SAFETY: the type is open; for types without members the library reports an error.
            let count = call("read a compound type", || unsafe { H5Tget_nmembers(self.0.raw()) })?;
            (0..u32::try_from(count).unwrap_or(0))
                // SAFETY: `n` counts the members of the compound.
                .map(|n| owned_string(unsafe { H5Tget_member_name(self.0.raw(), n) }))
                .collect()
        })
    }

    /// Whole numbers and bit fields with unusual precision or offset.
    fn bits_of(&self, template: hid_t, signs: bool) -> Result<Self> {
        let what = "rebuild an integer type";
        // SAFETY: the template is a predefined type.
        let new = made(what, || unsafe { H5Tcopy(template) }).map(Self)?;
        let (new_id, id) = (new.0.raw(), self.0.raw());
        let (mut low, mut high) = (H5T_pad_t::H5T_PAD_ZERO, H5T_pad_t::H5T_PAD_ZERO);
        // SAFETY: both types are open and atomic, here and below; `low` and `high` are places for results.
        call(what, || unsafe { H5Tset_size(new_id, H5Tget_size(id)) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_order(new_id, H5Tget_order(id)) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_precision(new_id, H5Tget_precision(id)) })?;
        // SAFETY: as above.
        let offset = call(what, || unsafe { H5Tget_offset(id) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_offset(new_id, usize::try_from(offset).unwrap_or(0)) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tget_pad(id, &raw mut low, &raw mut high) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_pad(new_id, low, high) })?;
        if signs {
            // SAFETY: as above.
            call(what, || unsafe { H5Tset_sign(new_id, H5Tget_sign(id)) })?;
        }
        Ok(new)
    }

    /// Floating-point numbers with unusual fields.
    fn float(&self) -> Result<Self> {
        let what = "rebuild a floating-point type";
        // The byte order of VAX has no form in the oldest version of a type, in which the library would store it as
        // big-endian without a word.
        // SAFETY: the type is open.
        if unsafe { H5Tget_order(self.0.raw()) } == H5T_order_t::H5T_ORDER_VAX {
            return self.copy();
        }
        let template = if self.size()? > 8 { *H5T_NATIVE_LDOUBLE } else { *H5T_IEEE_F64LE };
        // SAFETY: the template is a predefined type.
        let new = made(what, || unsafe { H5Tcopy(template) }).map(Self)?;
        let (new_id, id) = (new.0.raw(), self.0.raw());
        let mut fields = [0usize; 5];
        let [sign, exponent, exponent_size, mantissa, mantissa_size] = &mut fields;
        // SAFETY: both types are open floating-point types, here and below; the fields are places for results.
        call(what, || unsafe {
            H5Tget_fields(
                id,
                &raw mut *sign,
                &raw mut *exponent,
                &raw mut *exponent_size,
                &raw mut *mantissa,
                &raw mut *mantissa_size,
            )
        })?;
        let [sign, exponent, exponent_size, mantissa, mantissa_size] = fields;
        // SAFETY: as above. Fields must fit before the size shrinks.
        call(what, || unsafe { H5Tset_fields(new_id, sign, exponent, exponent_size, mantissa, mantissa_size) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_precision(new_id, H5Tget_precision(id)) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_size(new_id, H5Tget_size(id)) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_ebias(new_id, H5Tget_ebias(id)) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_order(new_id, H5Tget_order(id)) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_norm(new_id, H5Tget_norm(id)) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_inpad(new_id, H5Tget_inpad(id)) })?;
        Ok(new)
    }
}

impl Plist {
    /// Dataset creation properties equal to these, with a layout that can be stored in the oldest form that serves.
    /// `datatype` is that of the dataset. Values in external raw files stay there if `in_place`.
    pub(crate) fn rebuilt_for_dataset(&self, datatype: &Datatype, in_place: bool) -> Result<Self> {
        locked(|| {
            let what = "copy a dataset's properties";
            let layout = self.layout()?;
            if layout == DatasetLayout::Virtual {
                // Mappings of whole datasets that do not exist yet cannot be set again.
                // SAFETY: the list is open.
                return made(what, || unsafe { H5Pcopy(self.0.raw()) }).map(Self);
            }
            let new = Self::for_dataset()?;
            match layout {
                DatasetLayout::Chunked(chunk) => {
                    new.set_chunked(&chunk)?;
                    new.set_filters(&self.filters()?)?;
                }
                DatasetLayout::Compact => {
                    // SAFETY: the list is open.
                    call(what, || unsafe { H5Pset_layout(new.0.raw(), H5D_layout_t::H5D_COMPACT) })?;
                }
                DatasetLayout::External if in_place => self.copy_external(&new)?,
                // Values in external raw files move into the output: a relative name would not find them from there.
                DatasetLayout::Contiguous | DatasetLayout::Virtual | DatasetLayout::External => {}
            }
            self.copy_fill(&new, datatype)?;
            let (from, to) = (self.0.raw(), new.0.raw());
            let mut fill_time = H5D_fill_time_t::H5D_FILL_TIME_IFSET;
            let mut alloc_time = H5D_alloc_time_t::H5D_ALLOC_TIME_DEFAULT;
            let (mut a, mut b) = (0, 0);
            // SAFETY: both lists are open and the places for results valid, here and below.
            call(what, || unsafe { H5Pget_fill_time(from, &raw mut fill_time) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pset_fill_time(to, fill_time) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pget_alloc_time(from, &raw mut alloc_time) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pset_alloc_time(to, alloc_time) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pget_attr_creation_order(from, &raw mut a) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pset_attr_creation_order(to, a) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pget_attr_phase_change(from, &raw mut a, &raw mut b) })?;
            // SAFETY: as above.
            call(what, || unsafe { H5Pset_attr_phase_change(to, a, b) })?;
            Ok(new)
        })
    }

    /// Copies the names of external raw files, and where in them values lie.
    fn copy_external(&self, to: &Self) -> Result<()> {
        let what = "copy the names of external files";
        // SAFETY: the list is open.
        let count = call(what, || unsafe { H5Pget_external_count(self.0.raw()) })?;
        for n in 0..u32::try_from(count).unwrap_or(0) {
            let mut name = vec![0u8; LONGEST_NAME];
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the list is open, `name` has room for as many bytes as are announced, the places are valid.
            call(what, || unsafe {
                H5Pget_external(
                    self.0.raw(),
                    n,
                    name.len() - 1,
                    name.as_mut_ptr().cast(),
                    &raw mut offset,
                    &raw mut size,
                )
            })?;
            if name.iter().position(|&byte| byte == 0) == Some(LONGEST_NAME - 1) {
                return Err(Error::unsupported("the name of an external file is too long"));
            }
            // SAFETY: the list is open; `name` ends in NUL and outlives the call.
            call(what, || unsafe { H5Pset_external(to.0.raw(), name.as_ptr().cast(), offset, size) })?;
        }
        Ok(())
    }

    fn copy_fill(&self, to: &Self, datatype: &Datatype) -> Result<()> {
        let what = "copy a fill value";
        let mut status = H5D_fill_value_t::H5D_FILL_VALUE_DEFAULT;
        // SAFETY: the list is open and `status` a valid place for the result.
        call(what, || unsafe { H5Pfill_value_defined(self.0.raw(), &raw mut status) })?;
        match status {
            H5D_fill_value_t::H5D_FILL_VALUE_USER_DEFINED => {
                let mut value = Memory::new(datatype.copy()?, Space::scalar()?)?;
                // SAFETY: the buffer holds one element of the type.
                call(what, || unsafe { H5Pget_fill_value(self.0.raw(), datatype.0.raw(), value.as_mut_ptr()) })?;
                value.filled();
                // SAFETY: as above; the library copies the value.
                call(what, || unsafe { H5Pset_fill_value(to.0.raw(), datatype.0.raw(), value.bytes().as_ptr().cast()) })
                    .map(|_| ())
            }
            H5D_fill_value_t::H5D_FILL_VALUE_UNDEFINED => {
                // SAFETY: a null value means that there is none.
                call(what, || unsafe { H5Pset_fill_value(to.0.raw(), datatype.0.raw(), std::ptr::null()) }).map(|_| ())
            }
            _ => Ok(()),
        }
    }
}
