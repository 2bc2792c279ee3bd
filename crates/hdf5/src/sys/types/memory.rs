//! Values in memory that may hold pointers: strings, sequences, references. Translates references.

use std::os::raw::c_void;

use hdf5_metno_sys::h5p::H5P_DEFAULT;
use hdf5_metno_sys::h5r::{
    H5R_ref_t, H5R_type_t, H5Rcreate, H5Rcreate_attr, H5Rcreate_object, H5Rcreate_region, H5Rdereference2, H5Rdestroy,
    H5Rget_attr_name, H5Rget_region, H5Rget_type, H5Ropen_object, H5Ropen_region,
};
use hdf5_metno_sys::h5t::{H5Treclaim, hvl_t};

use crate::sys::{
    Address, Class, Datatype, File, Object, ReferenceKind, Space, c_string, call, locked, made, read_string,
};
use knarr_array::error::{Error, Result};

/// Elements in the memory form of a type; frees what the library allocated for them.
#[derive(Debug)]
pub(crate) struct Memory {
    datatype: Datatype,
    space: Space,
    bytes: Vec<u8>,
    /// True once the library has put pointers of its own into `bytes`.
    owns: bool,
}

/// Where references of one file lead in another.
pub(crate) trait References {
    /// The file whose references are translated.
    fn source(&self) -> &File;
    /// The file they shall point into.
    fn target(&self) -> &File;
    /// Address and path in the target file of an object of the source file.
    fn translate(&self, address: Address) -> Option<(Address, &[u8])>;
    /// Told of each reference whose object is gone: it becomes null, as there is nothing to point to.
    fn leads_nowhere(&self);
}

/// Where in an element references are.
enum Plan {
    Reference(ReferenceKind),
    Sequence { size: usize, inner: Box<Plan> },
    Repeat { size: usize, count: usize, inner: Box<Plan> },
    Members(Vec<(usize, Plan)>),
}

impl Plan {
    /// `None` if the type holds no references.
    fn of(datatype: &Datatype) -> Result<Option<Self>> {
        Ok(match datatype.class()? {
            Class::Reference => Some(Self::Reference(datatype.reference_kind()?)),
            Class::Vlen => {
                let base = datatype.base()?;
                let size = base.size()?;
                Self::of(&base)?.map(|inner| Self::Sequence { size, inner: Box::new(inner) })
            }
            Class::Array => {
                let base = datatype.base()?;
                let size = base.size()?;
                let count = datatype.size()? / size;
                Self::of(&base)?.map(|inner| Self::Repeat { size, count, inner: Box::new(inner) })
            }
            Class::Compound => {
                let mut members = Vec::new();
                for (offset, member) in datatype.members()? {
                    if let Some(inner) = Self::of(&member)? {
                        members.push((offset, inner));
                    }
                }
                (!members.is_empty()).then_some(Self::Members(members))
            }
            _ => None,
        })
    }

    /// Translates the references of the element at `at`.
    ///
    /// # Safety
    /// `at` points to one element of the type the plan was made for, in memory form, which may be written.
    unsafe fn apply(&self, at: *mut u8, references: &dyn References) -> Result<()> {
        match self {
            // SAFETY: passed on from the caller.
            Self::Reference(kind) => unsafe { translate(*kind, at, references) },
            Self::Sequence { size, inner } => {
                // SAFETY: an element of a sequence type is an `hvl_t`, perhaps unaligned.
                let sequence = unsafe { at.cast::<hvl_t>().read_unaligned() };
                let first = sequence.p.cast::<u8>();
                if first.is_null() {
                    return Ok(());
                }
                // SAFETY: the library allocated `len` elements of `size` bytes at `p`.
                (0..sequence.len).try_for_each(|n| unsafe { inner.apply(first.add(n * size), references) })
            }
            Self::Repeat { size, count, inner } => {
                // SAFETY: arrays hold `count` elements of `size` bytes in a row.
                (0..*count).try_for_each(|n| unsafe { inner.apply(at.add(n * size), references) })
            }
            Self::Members(members) => {
                // SAFETY: members lie at their offsets inside the compound.
                members.iter().try_for_each(|(offset, inner)| unsafe { inner.apply(at.add(*offset), references) })
            }
        }
    }
}

/// # Safety
/// `at` points to a reference of this kind, which may be written.
unsafe fn translate(kind: ReferenceKind, at: *mut u8, references: &dyn References) -> Result<()> {
    match kind {
        ReferenceKind::Object => {
            // SAFETY: object references are eight bytes: the address of the object, little-endian.
            let old = Address(u64::from_le_bytes(unsafe { at.cast::<[u8; 8]>().read_unaligned() }));
            let new = references.translate(old).map_or(0, |(address, _)| address.0);
            if new == 0 && old.0 != 0 {
                references.leads_nowhere();
            }
            // SAFETY: as above.
            unsafe { at.cast::<[u8; 8]>().write_unaligned(new.to_le_bytes()) };
            Ok(())
        }
        // SAFETY: passed on from the caller.
        ReferenceKind::Region => unsafe { translate_region(at, references) },
        // SAFETY: passed on from the caller.
        ReferenceKind::Modern => unsafe { translate_modern(at, references) },
    }
}

/// # Safety
/// `at` points to a region reference of 12 bytes, which may be written.
unsafe fn translate_region(at: *mut u8, references: &dyn References) -> Result<()> {
    const KIND: H5R_type_t = H5R_type_t::H5R_DATASET_REGION1;
    // SAFETY: region references are 12 bytes.
    let old = unsafe { at.cast::<[u8; 12]>().read_unaligned() };
    let mut new = [0u8; 12];
    if old != new {
        let source = references.source().0.raw();
        // SAFETY: `old` is a region reference of the open source file.
        let object = made("follow a region reference", || unsafe {
            H5Rdereference2(source, H5P_DEFAULT, KIND, old.as_ptr().cast())
        })
        .map(Object);
        if let Ok(object) = object
            && let Some((_, path)) = references.translate(object.address()?)
        {
            // SAFETY: as above.
            let space =
                made("follow a region reference", || unsafe { H5Rget_region(source, KIND, old.as_ptr().cast()) })?;
            let path = c_string(path)?;
            // SAFETY: `new` has room for a region reference; the target file is open.
            call("write a region reference", || unsafe {
                H5Rcreate(new.as_mut_ptr().cast(), references.target().0.raw(), path.as_ptr(), KIND, space.raw())
            })?;
        } else {
            references.leads_nowhere();
        }
    }
    // SAFETY: as above.
    unsafe { at.cast::<[u8; 12]>().write_unaligned(new) };
    Ok(())
}

/// # Safety
/// `at` points to an `H5R_ref_t`, which may be written.
unsafe fn translate_modern(at: *mut u8, references: &dyn References) -> Result<()> {
    // SAFETY: the caller passes an `H5R_ref_t`, perhaps unaligned; the copy takes its place at the end.
    let mut old = unsafe { at.cast::<H5R_ref_t>().read_unaligned() };
    // SAFETY: `old` is a reference; a null one has a bad type.
    let kind = locked(|| unsafe { H5Rget_type(&raw const old) });
    if kind == H5R_type_t::H5R_BADTYPE || kind == H5R_type_t::H5R_MAXTYPE {
        return Ok(());
    }
    // SAFETY: `old` is a reference of an open file.
    let object = made("follow a reference", || unsafe { H5Ropen_object(&raw const old, H5P_DEFAULT, H5P_DEFAULT) });
    let mut new = H5R_ref_t::default();
    if let Ok(object) = object.map(Object)
        && let Some((_, path)) = references.translate(object.address()?)
    {
        let path = c_string(path)?;
        let target = references.target().0.raw();
        match kind {
            H5R_type_t::H5R_DATASET_REGION2 => {
                // SAFETY: `old` is a region reference of an open file.
                let space = made("follow a region reference", || unsafe {
                    H5Ropen_region(&raw const old, H5P_DEFAULT, H5P_DEFAULT)
                })?;
                // SAFETY: `new` is a place for a reference; the target file is open.
                call("write a region reference", || unsafe {
                    H5Rcreate_region(target, path.as_ptr(), space.raw(), H5P_DEFAULT, &raw mut new)
                })?;
            }
            H5R_type_t::H5R_ATTR => {
                // SAFETY: `old` is an attribute reference; buffer and size are those of `read_string`.
                let name = read_string("follow an attribute reference", |buffer, size| unsafe {
                    H5Rget_attr_name(&raw const old, buffer, size)
                })?;
                let name = c_string(&name)?;
                // SAFETY: as above.
                call("write an attribute reference", || unsafe {
                    H5Rcreate_attr(target, path.as_ptr(), name.as_ptr(), H5P_DEFAULT, &raw mut new)
                })?;
            }
            _ => {
                // SAFETY: as above.
                call("write a reference", || unsafe {
                    H5Rcreate_object(target, path.as_ptr(), H5P_DEFAULT, &raw mut new)
                })?;
            }
        }
    } else {
        references.leads_nowhere();
    }
    // SAFETY: `old` is released once; the element gets the new reference, which `Memory` releases.
    unsafe {
        locked(|| H5Rdestroy(&raw mut old));
        at.cast::<H5R_ref_t>().write_unaligned(new);
    }
    Ok(())
}

impl Memory {
    /// Room for the elements of `space`, zeroed.
    pub(in crate::sys) fn new(datatype: Datatype, space: Space) -> Result<Self> {
        let size = datatype.size()?;
        let bytes = usize::try_from(space.len()?)
            .ok()
            .and_then(|len| len.checked_mul(size))
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .ok_or_else(|| Error::unsupported("values are too large for memory"))?;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(bytes).map_err(|_| Error::unsupported("values are too large for memory"))?;
        buffer.resize(bytes, 0);
        Ok(Self { datatype, space, bytes: buffer, owns: false })
    }

    pub(in crate::sys) fn as_mut_ptr(&mut self) -> *mut c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// Tells that the library has written the elements.
    pub(in crate::sys) fn filled(&mut self) {
        self.owns = true;
    }

    pub(in crate::sys) fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    pub(in crate::sys) fn space(&self) -> &Space {
        &self.space
    }

    /// The elements; pointers in them stay with the library.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes references point into the target file.
    pub(crate) fn translate(&mut self, references: &dyn References) -> Result<()> {
        let size = self.datatype.size()?;
        let Some(plan) = Plan::of(&self.datatype)? else { return Ok(()) };
        if !self.owns {
            return Ok(());
        }
        locked(|| {
            for element in self.bytes.chunks_exact_mut(size) {
                // SAFETY: the library filled the elements of this type; nobody else sees them.
                unsafe { plan.apply(element.as_mut_ptr(), references) }?;
            }
            Ok(())
        })
    }

    /// The strings, if elements are strings of variable length.
    pub(crate) fn variable_strings(&self) -> Result<Vec<Vec<u8>>> {
        if !self.datatype.is_variable_string()? || !self.owns {
            return Ok(Vec::new());
        }
        Ok(self
            .bytes
            .chunks_exact(size_of::<*const i8>())
            .map(|element| {
                // SAFETY: an element is a pointer, null or to a NUL-terminated string of the library.
                unsafe {
                    let pointer = element.as_ptr().cast::<*const std::os::raw::c_char>().read_unaligned();
                    if pointer.is_null() { Vec::new() } else { std::ffi::CStr::from_ptr(pointer).to_bytes().to_vec() }
                }
            })
            .collect())
    }

    /// Elements of sequences of object references.
    pub(crate) fn reference_sequences(&self) -> Result<Vec<Vec<Address>>> {
        let plan = Plan::of(&self.datatype)?;
        let Some(Plan::Sequence { size: 8, inner }) = plan else { return Ok(Vec::new()) };
        if !matches!(*inner, Plan::Reference(ReferenceKind::Object)) || !self.owns {
            return Ok(Vec::new());
        }
        Ok(self
            .bytes
            .chunks_exact(size_of::<hvl_t>())
            .map(|element| {
                // SAFETY: an element is an `hvl_t` whose `len` references of 8 bytes the library allocated.
                unsafe {
                    let sequence = element.as_ptr().cast::<hvl_t>().read_unaligned();
                    if sequence.p.is_null() {
                        return Vec::new();
                    }
                    let references = sequence.p.cast::<[u8; 8]>();
                    (0..sequence.len).map(|n| Address(u64::from_le_bytes(references.add(n).read_unaligned()))).collect()
                }
            })
            .collect())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.owns {
            // SAFETY: the elements were filled by the library in this type and space, and are freed once.
            locked(|| unsafe {
                H5Treclaim(self.datatype.0.raw(), self.space.0.raw(), H5P_DEFAULT, self.bytes.as_mut_ptr().cast())
            });
        }
    }
}
