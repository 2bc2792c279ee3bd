//! Data types and data spaces.

use std::ffi::CStr;

use hdf5_metno_sys::h5s::{
    H5S_class_t, H5S_seloper_t, H5Scopy, H5Screate, H5Screate_simple, H5Sget_simple_extent_dims,
    H5Sget_simple_extent_ndims, H5Sget_simple_extent_npoints, H5Sget_simple_extent_type, H5Sselect_hyperslab,
};
use hdf5_metno_sys::h5t::*;

use crate::sys::{Address, Group, Id, Object, Plist, call, locked, made, objects::object::token_address};
use hdf5_metno_sys::h5i::H5Iinc_ref;
use hdf5_metno_sys::h5o::{H5O_INFO_BASIC, H5O_info2_t, H5Oget_info3};
use hdf5_metno_sys::h5p::H5P_DEFAULT;
use hdf5_metno_sys::h5r::hobj_ref_t;
use knarr_array::array::{DType, Endian};
use knarr_array::error::{Error, Result};
use knarr_array::region::Region;

/// Extents per axis and their largest values; `None` is unlimited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extent {
    Null,
    Scalar,
    Simple { shape: Vec<u64>, max: Vec<Option<u64>> },
}

/// A data space.
#[derive(Debug)]
pub(crate) struct Space(pub(in crate::sys) Id);

/// Class of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Integer,
    Float,
    Time,
    String,
    Bitfield,
    Opaque,
    Compound,
    Reference,
    Enum,
    Vlen,
    Array,
    Complex,
}

/// Flavours of references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReferenceKind {
    /// Address of an object (all versions of HDF5).
    Object,
    /// Selection in a dataset (all versions of HDF5).
    Region,
    /// The self-describing references of HDF5 1.12.
    Modern,
}

/// A data type, transient or named.
#[derive(Debug)]
pub(crate) struct Datatype(pub(in crate::sys) Id);

impl Space {
    /// A simple space; `max` of `None` is unlimited.
    pub(crate) fn simple(shape: &[u64], max: &[Option<u64>]) -> Result<Self> {
        let rank = i32::try_from(shape.len()).map_err(|_| Error::usage("too many dimensions"))?;
        let max: Vec<u64> = max.iter().map(|limit| limit.unwrap_or(u64::MAX)).collect();
        let max_pointer = if max.len() == shape.len() { max.as_ptr() } else { std::ptr::null() };
        // SAFETY: both arrays hold `rank` extents; a null maximum means the extents themselves.
        made("create a shape", || unsafe { H5Screate_simple(rank, shape.as_ptr(), max_pointer) }).map(Self)
    }

    /// A scalar space.
    pub(crate) fn scalar() -> Result<Self> {
        // SAFETY: no pointers are involved.
        made("create a shape", || unsafe { H5Screate(H5S_class_t::H5S_SCALAR) }).map(Self)
    }

    /// A space without elements, as of empty netCDF strings.
    pub(crate) fn null() -> Result<Self> {
        // SAFETY: no pointers are involved.
        made("create a shape", || unsafe { H5Screate(H5S_class_t::H5S_NULL) }).map(Self)
    }

    /// An equal space with everything selected.
    pub(crate) fn rebuilt(&self) -> Result<Self> {
        match self.extent()? {
            Extent::Null => Self::null(),
            Extent::Scalar => Self::scalar(),
            Extent::Simple { shape, max } => Self::simple(&shape, &max),
        }
    }

    /// A copy that selects a region.
    pub(crate) fn select(&self, region: &Region) -> Result<Self> {
        let Region { start, count } = region;
        locked(|| {
            // SAFETY: the space is open.
            let rank = call("read a shape", || unsafe { H5Sget_simple_extent_ndims(self.0.raw()) })?;
            if usize::try_from(rank).ok() != Some(start.len()) || start.len() != count.len() {
                return Err(Error::internal("a region has another rank than its variable"));
            }
            // SAFETY: the space is open.
            let copy = made("copy a shape", || unsafe { H5Scopy(self.0.raw()) })?;
            if !start.is_empty() {
                // SAFETY: both arrays have the rank of the space, checked above; null stride and block mean 1.
                call("select a region", || unsafe {
                    H5Sselect_hyperslab(
                        copy.raw(),
                        H5S_seloper_t::H5S_SELECT_SET,
                        start.as_ptr(),
                        std::ptr::null(),
                        count.as_ptr(),
                        std::ptr::null(),
                    )
                })?;
            }
            Ok(Self(copy))
        })
    }

    /// Extents.
    pub(crate) fn extent(&self) -> Result<Extent> {
        locked(|| {
            // SAFETY: the space is open.
            match unsafe { H5Sget_simple_extent_type(self.0.raw()) } {
                H5S_class_t::H5S_NULL => Ok(Extent::Null),
                H5S_class_t::H5S_SCALAR => Ok(Extent::Scalar),
                H5S_class_t::H5S_SIMPLE => {
                    // SAFETY: the space is open.
                    let rank = call("read a shape", || unsafe { H5Sget_simple_extent_ndims(self.0.raw()) })?;
                    let rank = usize::try_from(rank).unwrap_or(0);
                    let (mut shape, mut max) = (vec![0u64; rank], vec![0u64; rank]);
                    // SAFETY: both arrays have the rank of the space.
                    call("read a shape", || unsafe {
                        H5Sget_simple_extent_dims(self.0.raw(), shape.as_mut_ptr(), max.as_mut_ptr())
                    })?;
                    let max = max.into_iter().map(|limit| (limit != u64::MAX).then_some(limit)).collect();
                    Ok(Extent::Simple { shape, max })
                }
                H5S_class_t::H5S_NO_CLASS => Err(Error::corrupt("a shape has no class")),
            }
        })
    }

    /// Number of elements; 0 for a null space.
    pub(crate) fn len(&self) -> Result<u64> {
        if self.extent()? == Extent::Null {
            return Ok(0);
        }
        // SAFETY: the space is open.
        let count = call("read a shape", || unsafe { H5Sget_simple_extent_npoints(self.0.raw()) })?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

/// The types that are numbers, with their byte orders.
fn numbers() -> [(DType, Endian, hdf5_metno_sys::h5i::hid_t); 20] {
    use DType::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    use Endian::{Big, Little};
    [
        (F32, Little, *H5T_IEEE_F32LE),
        (F64, Little, *H5T_IEEE_F64LE),
        (I8, Little, *H5T_STD_I8LE),
        (I16, Little, *H5T_STD_I16LE),
        (I32, Little, *H5T_STD_I32LE),
        (I64, Little, *H5T_STD_I64LE),
        (U8, Little, *H5T_STD_U8LE),
        (U16, Little, *H5T_STD_U16LE),
        (U32, Little, *H5T_STD_U32LE),
        (U64, Little, *H5T_STD_U64LE),
        (F32, Big, *H5T_IEEE_F32BE),
        (F64, Big, *H5T_IEEE_F64BE),
        (I8, Big, *H5T_STD_I8BE),
        (I16, Big, *H5T_STD_I16BE),
        (I32, Big, *H5T_STD_I32BE),
        (I64, Big, *H5T_STD_I64BE),
        (U8, Big, *H5T_STD_U8BE),
        (U16, Big, *H5T_STD_U16BE),
        (U32, Big, *H5T_STD_U32BE),
        (U64, Big, *H5T_STD_U64BE),
    ]
}

impl Datatype {
    fn copy_of(id: hdf5_metno_sys::h5i::hid_t) -> Result<Self> {
        // SAFETY: copying any open type, predefined ones included, gives a transient type of our own.
        made("copy a type", || unsafe { H5Tcopy(id) }).map(Self)
    }

    /// A transient copy, whether this is named or not.
    pub(crate) fn copy(&self) -> Result<Self> {
        Self::copy_of(self.0.raw())
    }

    /// The standard type of numbers; binary16 for `F16`; opaque bytes for everything else.
    pub(crate) fn of(dtype: DType, endian: Endian) -> Result<Self> {
        locked(|| match dtype {
            DType::Opaque(size) => {
                // SAFETY: no pointers are involved.
                made("create a type", || unsafe { H5Tcreate(H5T_class_t::H5T_OPAQUE, (size as usize).max(1)) })
                    .map(Self)
            }
            DType::F16 => Self::binary16(endian),
            _ => numbers()
                .iter()
                .find(|(found, order, _)| *found == dtype && *order == endian)
                .ok_or_else(|| Error::internal("a number type is not listed"))
                .and_then(|(_, _, id)| Self::copy_of(*id)),
        })
    }

    fn binary16(endian: Endian) -> Result<Self> {
        let base = if endian == Endian::Little { *H5T_IEEE_F32LE } else { *H5T_IEEE_F32BE };
        let half = Self::copy_of(base)?;
        let id = half.0.raw();
        let what = "create a half-precision type";
        // SAFETY: `half` is a transient type of our own; fields must fit before the size shrinks.
        call(what, || unsafe { H5Tset_fields(id, 15, 10, 5, 0, 10) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_precision(id, 16) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_size(id, 2) })?;
        // SAFETY: as above.
        call(what, || unsafe { H5Tset_ebias(id, 15) })?;
        Ok(half)
    }

    /// A string type: fixed length in bytes, or variable for `None`.
    pub(crate) fn string(length: Option<usize>, utf8: bool) -> Result<Self> {
        locked(|| {
            let string = Self::copy_of(*H5T_C_S1)?;
            let size = length.map_or(H5T_VARIABLE, |length| length.max(1));
            // SAFETY: `string` is a transient type of our own.
            call("create a string type", || unsafe { H5Tset_size(string.0.raw(), size) })?;
            if utf8 {
                // SAFETY: as above.
                call("create a string type", || unsafe { H5Tset_cset(string.0.raw(), H5T_cset_t::H5T_CSET_UTF8) })?;
            }
            Ok(string)
        })
    }

    /// The type of object references.
    pub(crate) fn object_reference() -> Result<Self> {
        Self::reference(ReferenceKind::Object)
    }

    /// A type of references.
    pub(in crate::sys) fn reference(kind: ReferenceKind) -> Result<Self> {
        locked(|| {
            Self::copy_of(match kind {
                ReferenceKind::Object => *H5T_STD_REF_OBJ,
                ReferenceKind::Region => *H5T_STD_REF_DSETREG,
                ReferenceKind::Modern => *H5T_STD_REF,
            })
        })
    }

    /// Variable-length sequences of this type.
    pub(crate) fn sequences(&self) -> Result<Self> {
        // SAFETY: the type is open.
        made("create a sequence type", || unsafe { H5Tvlen_create(self.0.raw()) }).map(Self)
    }

    /// A compound of named members at given offsets.
    pub(crate) fn compound(size: usize, members: &[(&CStr, usize, &Self)]) -> Result<Self> {
        locked(|| {
            // SAFETY: no pointers are involved.
            let compound =
                made("create a compound type", || unsafe { H5Tcreate(H5T_class_t::H5T_COMPOUND, size) }).map(Self)?;
            for (name, offset, member) in members {
                // SAFETY: both types are open; the library checks that the member fits.
                call("create a compound type", || unsafe {
                    H5Tinsert(compound.0.raw(), name.as_ptr(), *offset, member.0.raw())
                })?;
            }
            Ok(compound)
        })
    }

    /// Class.
    pub(crate) fn class(&self) -> Result<Class> {
        // SAFETY: the type is open.
        Ok(match locked(|| unsafe { H5Tget_class(self.0.raw()) }) {
            H5T_class_t::H5T_INTEGER => Class::Integer,
            H5T_class_t::H5T_FLOAT => Class::Float,
            H5T_class_t::H5T_TIME => Class::Time,
            H5T_class_t::H5T_STRING => Class::String,
            H5T_class_t::H5T_BITFIELD => Class::Bitfield,
            H5T_class_t::H5T_OPAQUE => Class::Opaque,
            H5T_class_t::H5T_COMPOUND => Class::Compound,
            H5T_class_t::H5T_REFERENCE => Class::Reference,
            H5T_class_t::H5T_ENUM => Class::Enum,
            H5T_class_t::H5T_VLEN => Class::Vlen,
            H5T_class_t::H5T_ARRAY => Class::Array,
            H5T_class_t::H5T_COMPLEX => Class::Complex,
            H5T_class_t::H5T_NO_CLASS | H5T_class_t::H5T_NCLASSES => {
                return Err(Error::corrupt("a data type has no class"));
            }
        })
    }

    /// Bytes per element, in memory.
    pub(crate) fn size(&self) -> Result<usize> {
        // SAFETY: the type is open.
        let size = locked(|| unsafe { H5Tget_size(self.0.raw()) });
        if size == 0 { Err(Error::corrupt("a data type has no size")) } else { Ok(size) }
    }

    /// All that tells apart atomic types of one class and size, in words: order of bytes, precision and offset in bits,
    /// sign, fields of floating-point numbers.
    pub(crate) fn fine_print(&self) -> Result<String> {
        let what = "read a type";
        locked(|| {
            let (id, class) = (self.0.raw(), self.class()?);
            // SAFETY: the type is open, here and below.
            let (order, bits) = unsafe { (H5Tget_order(id), H5Tget_precision(id)) };
            // SAFETY: as above.
            let offset = call(what, || unsafe { H5Tget_offset(id) })?;
            let mut words = format!("{order:?}, {bits} bits from bit {offset}").replace("H5T_ORDER_", "");
            if class == Class::Integer {
                // SAFETY: as above.
                let sign = unsafe { H5Tget_sign(id) };
                words.push_str(if sign == H5T_sign_t::H5T_SGN_2 { ", signed" } else { ", unsigned" });
            }
            if class == Class::Float {
                let mut fields = [0usize; 5];
                let [sign, exponent, exponent_bits, mantissa, mantissa_bits] = fields.each_mut();
                // SAFETY: as above; the fields are places for results.
                call(what, || unsafe { H5Tget_fields(id, sign, exponent, exponent_bits, mantissa, mantissa_bits) })?;
                // SAFETY: as above.
                let (bias, norm) = unsafe { (H5Tget_ebias(id), H5Tget_norm(id)) };
                words.push_str(&format!(", fields {fields:?}, bias {bias}, {norm:?}"));
            }
            Ok(words)
        })
    }

    /// True for strings of variable length.
    pub(crate) fn is_variable_string(&self) -> Result<bool> {
        // SAFETY: the type is open.
        Ok(self.class()? == Class::String && call("read a type", || unsafe { H5Tis_variable_str(self.0.raw()) })? > 0)
    }

    /// True if trailing bytes of fixed strings are blanks.
    pub(crate) fn is_space_padded(&self) -> bool {
        // SAFETY: the type is open.
        locked(|| unsafe { H5Tget_strpad(self.0.raw()) }) == H5T_str_t::H5T_STR_SPACEPAD
    }

    /// Address of a named type; `None` for a transient one.
    pub(crate) fn named_address(&self) -> Result<Option<Address>> {
        locked(|| {
            // SAFETY: the type is open.
            if call("read a type", || unsafe { H5Tcommitted(self.0.raw()) })? == 0 {
                return Ok(None);
            }
            // SAFETY: all fields are numbers, byte arrays or an enum with a zero variant.
            let mut info: H5O_info2_t = unsafe { std::mem::zeroed() };
            // SAFETY: a named type is an object; `info` is a valid place for the result.
            call("read a named type", || unsafe { H5Oget_info3(self.0.raw(), &raw mut info, H5O_INFO_BASIC) })?;
            Ok(Some(token_address(&info.token)))
        })
    }

    /// Number type and byte order, if this is exactly a standard number type.
    pub(crate) fn number(&self) -> Result<Option<(DType, Endian)>> {
        locked(|| {
            let class = self.class()?;
            if !matches!(class, Class::Integer | Class::Float) {
                return Ok(None);
            }
            for (dtype, endian, id) in numbers() {
                if self.equals(id)? {
                    return Ok(Some((dtype, endian)));
                }
            }
            if class == Class::Float && self.size()? == 2 {
                for endian in [Endian::Little, Endian::Big] {
                    if self.equals(Self::binary16(endian)?.0.raw())? {
                        return Ok(Some((DType::F16, endian)));
                    }
                }
            }
            Ok(None)
        })
    }

    fn equals(&self, other: hdf5_metno_sys::h5i::hid_t) -> Result<bool> {
        // SAFETY: both types are open.
        Ok(call("compare types", || unsafe { H5Tequal(self.0.raw(), other) })? > 0)
    }

    /// Which kind of reference a reference type is.
    pub(crate) fn reference_kind(&self) -> Result<ReferenceKind> {
        locked(|| {
            if self.equals(*H5T_STD_REF_OBJ)? {
                Ok(ReferenceKind::Object)
            } else if self.equals(*H5T_STD_REF_DSETREG)? {
                Ok(ReferenceKind::Region)
            } else if self.equals(*H5T_STD_REF)? {
                Ok(ReferenceKind::Modern)
            } else if self.size()? == size_of::<hobj_ref_t>() {
                Ok(ReferenceKind::Object)
            } else {
                Err(Error::unsupported("a reference type is of an unknown kind"))
            }
        })
    }

    /// Element type of sequences, arrays and enums.
    pub(crate) fn base(&self) -> Result<Self> {
        // SAFETY: the type is open.
        made("read a type", || unsafe { H5Tget_super(self.0.raw()) }).map(Self)
    }

    /// Offset and type per member of a compound.
    pub(crate) fn members(&self) -> Result<Vec<(usize, Self)>> {
        locked(|| {
            // SAFETY: the type is open.
            let count = call("read a compound type", || unsafe { H5Tget_nmembers(self.0.raw()) })?;
            (0..u32::try_from(count).unwrap_or(0))
                .map(|n| {
                    // SAFETY: the type is a compound and `n` counts its members.
                    let offset = unsafe { H5Tget_member_offset(self.0.raw(), n) };
                    // SAFETY: as above.
                    let member = made("read a compound type", || unsafe { H5Tget_member_type(self.0.raw(), n) })?;
                    Ok((offset, Self(member)))
                })
                .collect()
        })
    }

    /// True if values hold pointers or references, anywhere inside, so that their bytes in the file mean
    /// nothing elsewhere: (variable-length data, references).
    pub(crate) fn indirections(&self) -> Result<(bool, bool)> {
        match self.class()? {
            Class::Vlen => Ok((true, self.base()?.indirections()?.1)),
            Class::String => Ok((self.is_variable_string()?, false)),
            Class::Reference => Ok((false, true)),
            Class::Array => self.base()?.indirections(),
            Class::Compound => self.members()?.iter().try_fold((false, false), |(vlen, reference), (_, member)| {
                let (inner_vlen, inner_reference) = member.indirections()?;
                Ok((vlen || inner_vlen, reference || inner_reference))
            }),
            _ => Ok((false, false)),
        }
    }

    /// Makes this transient type a nameless object of the file that `group` belongs to.
    pub(crate) fn commit_nameless(&self, group: &Group, tcpl: &Plist) -> Result<()> {
        // SAFETY: all handles are open.
        call("write a named type", || unsafe {
            H5Tcommit_anon(group.0.0.raw(), self.0.raw(), tcpl.0.raw(), H5P_DEFAULT)
        })
        .map(|_| ())
    }

    /// Another handle of the same type.
    pub(crate) fn same(&self) -> Result<Self> {
        // SAFETY: the identifier is live; the new reference is owned by the returned handle.
        call("share a type", || unsafe { H5Iinc_ref(self.0.raw()) })?;
        Ok(Self(Id(self.0.raw())))
    }

    /// As an object, for its attributes and comment.
    pub(crate) fn as_object(&self) -> Result<Object> {
        Ok(Object(self.same()?.0))
    }
}
