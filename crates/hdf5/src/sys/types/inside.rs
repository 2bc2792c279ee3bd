//! What attributes of any type hold, without the pointers and addresses that stand for it in memory.

use std::ffi::CStr;
use std::os::raw::c_char;

use hdf5_metno_sys::h5p::H5P_DEFAULT;
use hdf5_metno_sys::h5r::{H5R_ref_t, H5R_type_t, H5Rdereference2, H5Ropen_object};
use hdf5_metno_sys::h5t::hvl_t;

use crate::sys::{Address, Attr, Class, Datatype, Object, ReferenceKind, locked, made};
use knarr_array::array::{DType, Endian};
use knarr_array::error::Result;

/// One element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inside {
    /// A number in little-endian order.
    Number(DType, Vec<u8>),
    /// A string; one of fixed length with its padding.
    Text(Vec<u8>),
    /// The path of what a reference leads to; empty if it leads nowhere.
    Path(Vec<u8>),
    /// Elements of an array or a sequence.
    List(Vec<Inside>),
    /// Members of a compound.
    Members(Vec<(Vec<u8>, Inside)>),
    /// Anything else, as it is stored.
    Bytes(Vec<u8>),
}

/// Path of the object at an address of the file; empty if there is none.
type PathOf<'a> = dyn Fn(Address) -> Result<Vec<u8>> + 'a;

impl Attr {
    /// The elements. A reference to a region is told by its dataset alone.
    pub(crate) fn inside(&self, path_of: &PathOf<'_>) -> Result<Vec<Inside>> {
        locked(|| {
            let memory = self.read()?;
            let form = Form::of(memory.datatype())?;
            let size = memory.datatype().size()?;
            let elements = memory.bytes().chunks_exact(size);
            // SAFETY: the library filled the elements of this type, and `memory` keeps what they point to.
            elements.map(|element| unsafe { form.read(element.as_ptr(), self, path_of) }).collect()
        })
    }
}

/// How an element of a type lies in memory.
enum Form {
    Number { dtype: DType, endian: Endian },
    FixedText { size: usize },
    Text,
    Reference(ReferenceKind),
    Sequence { size: usize, inner: Box<Form> },
    Repeat { size: usize, count: usize, inner: Box<Form> },
    Members(Vec<(Vec<u8>, usize, Form)>),
    Bytes { size: usize },
}

impl Form {
    fn of(datatype: &Datatype) -> Result<Self> {
        let size = datatype.size()?;
        if let Some((dtype, endian)) = datatype.number()? {
            return Ok(Self::Number { dtype, endian });
        }
        Ok(match datatype.class()? {
            Class::Enum => Self::of(&datatype.base()?)?,
            Class::String if datatype.is_variable_string()? => Self::Text,
            Class::String => Self::FixedText { size },
            Class::Reference => Self::Reference(datatype.reference_kind()?),
            Class::Vlen => {
                let base = datatype.base()?;
                Self::Sequence { size: base.size()?, inner: Box::new(Self::of(&base)?) }
            }
            Class::Array => {
                let base = datatype.base()?;
                let inner = base.size()?;
                Self::Repeat { size: inner, count: size / inner, inner: Box::new(Self::of(&base)?) }
            }
            Class::Compound => {
                let named = datatype.member_names()?.into_iter().zip(datatype.members()?);
                let members = named.map(|(name, (offset, member))| Ok((name, offset, Self::of(&member)?)));
                Self::Members(members.collect::<Result<_>>()?)
            }
            _ => Self::Bytes { size },
        })
    }

    /// # Safety
    /// `at` points to one element of the type the form was made of, in memory form, of an attribute of `owner`'s file.
    unsafe fn read(&self, at: *const u8, owner: &Attr, path_of: &PathOf<'_>) -> Result<Inside> {
        // SAFETY: an element has as many bytes as its type.
        let bytes = |size: usize| unsafe { std::slice::from_raw_parts(at, size) }.to_vec();
        Ok(match self {
            Self::Number { dtype, endian } => {
                let mut bytes = bytes(dtype.size());
                if *endian == Endian::Big {
                    bytes.reverse();
                }
                Inside::Number(*dtype, bytes)
            }
            Self::FixedText { size } => Inside::Text(bytes(*size)),
            Self::Text => {
                // SAFETY: an element is a pointer, null or to a NUL-terminated string of the library.
                Inside::Text(unsafe {
                    let pointer = at.cast::<*const c_char>().read_unaligned();
                    if pointer.is_null() { Vec::new() } else { CStr::from_ptr(pointer).to_bytes().to_vec() }
                })
            }
            Self::Reference(kind) => {
                // SAFETY: passed on from the caller.
                let object = unsafe { target(*kind, at, owner) }?;
                Inside::Path(object.map_or(Ok(Vec::new()), path_of)?)
            }
            Self::Sequence { size, inner } => {
                // SAFETY: an element of a sequence type is an `hvl_t`, perhaps unaligned.
                let sequence = unsafe { at.cast::<hvl_t>().read_unaligned() };
                let first = sequence.p.cast::<u8>().cast_const();
                let len = if first.is_null() { 0 } else { sequence.len };
                // SAFETY: the library allocated `len` elements of `size` bytes at `p`.
                let elements = (0..len).map(|n| unsafe { inner.read(first.add(n * size), owner, path_of) });
                Inside::List(elements.collect::<Result<_>>()?)
            }
            Self::Repeat { size, count, inner } => {
                // SAFETY: arrays hold `count` elements of `size` bytes in a row.
                let elements = (0..*count).map(|n| unsafe { inner.read(at.add(n * size), owner, path_of) });
                Inside::List(elements.collect::<Result<_>>()?)
            }
            Self::Members(members) => {
                let read = |(name, offset, form): &(Vec<u8>, usize, Self)| {
                    // SAFETY: members lie at their offsets inside the compound.
                    Ok((name.clone(), unsafe { form.read(at.add(*offset), owner, path_of) }?))
                };
                Inside::Members(members.iter().map(read).collect::<Result<_>>()?)
            }
            Self::Bytes { size } => Inside::Bytes(bytes(*size)),
        })
    }
}

/// What a reference leads to. Where the library finds nothing there is nothing to tell.
///
/// # Safety
/// `at` points to a reference of this kind of the file that `owner` belongs to.
unsafe fn target(kind: ReferenceKind, at: *const u8, owner: &Attr) -> Result<Option<Address>> {
    let what = "follow a reference";
    let object = match kind {
        ReferenceKind::Object => {
            // SAFETY: object references are eight bytes: the address of the object, little-endian.
            let address = u64::from_le_bytes(unsafe { at.cast::<[u8; 8]>().read_unaligned() });
            return Ok(Some(Address(address)));
        }
        // SAFETY: the caller passes a region reference; the library finds none in zeros.
        ReferenceKind::Region => made(what, || unsafe {
            H5Rdereference2(owner.0.raw(), H5P_DEFAULT, H5R_type_t::H5R_DATASET_REGION1, at.cast())
        }),
        ReferenceKind::Modern => {
            // SAFETY: the caller passes an `H5R_ref_t`, perhaps unaligned; the copy is not released.
            let reference = unsafe { at.cast::<H5R_ref_t>().read_unaligned() };
            // SAFETY: as above.
            made(what, || unsafe { H5Ropen_object(&raw const reference, H5P_DEFAULT, H5P_DEFAULT) })
        }
    };
    object.ok().map(|id| Object(id).address()).transpose()
}
