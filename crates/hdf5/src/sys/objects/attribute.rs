//! Attributes.

use hdf5_metno_sys::h5a::{
    H5Acreate2, H5Adelete, H5Aget_create_plist, H5Aget_name, H5Aget_space, H5Aget_type, H5Aread, H5Awrite,
};
use hdf5_metno_sys::h5p::H5P_DEFAULT;

use hdf5_metno_sys::h5t::hvl_t;

use crate::sys::{
    Address, Class, Datatype, Id, Memory, Object, Plist, Space, c_string, call, locked, made, read_string,
};
use knarr_array::error::Result;

/// An open attribute.
#[derive(Debug)]
pub(crate) struct Attr(pub(in crate::sys) Id);

impl Attr {
    /// Its name.
    pub(crate) fn name(&self) -> Result<Vec<u8>> {
        // SAFETY: the attribute is open; the library takes the size before the buffer here.
        read_string("read an attribute's name", |buffer, size| unsafe { H5Aget_name(self.0.raw(), size, buffer) })
    }

    /// Type of an element.
    pub(crate) fn datatype(&self) -> Result<Datatype> {
        // SAFETY: the attribute is open.
        made("read an attribute's type", || unsafe { H5Aget_type(self.0.raw()) }).map(Datatype)
    }

    /// Shape.
    pub(crate) fn space(&self) -> Result<Space> {
        // SAFETY: the attribute is open.
        made("read an attribute's shape", || unsafe { H5Aget_space(self.0.raw()) }).map(Space)
    }

    /// Creation properties: encoding of the name.
    pub(crate) fn creation(&self) -> Result<Plist> {
        // SAFETY: the attribute is open.
        made("read an attribute's properties", || unsafe { H5Aget_create_plist(self.0.raw()) }).map(Plist)
    }

    /// All values, in the memory form of the stored type.
    pub(crate) fn read(&self) -> Result<Memory> {
        locked(|| {
            let mut memory = Memory::new(self.datatype()?, self.space()?)?;
            if !memory.bytes().is_empty() {
                // SAFETY: the buffer holds exactly the attribute's elements in the given memory type.
                call("read an attribute", || unsafe {
                    H5Aread(self.0.raw(), memory.datatype().0.raw(), memory.as_mut_ptr())
                })?;
                memory.filled();
            }
            Ok(memory)
        })
    }

    /// Writes all values.
    pub(crate) fn write(&self, memory: &Memory) -> Result<()> {
        if memory.bytes().is_empty() {
            return Ok(());
        }
        // SAFETY: the buffer holds the elements of the attribute's space in the given memory type.
        call("write an attribute", || unsafe {
            H5Awrite(self.0.raw(), memory.datatype().0.raw(), memory.bytes().as_ptr().cast())
        })
        .map(|_| ())
    }

    /// Writes all values given as bytes in the form of `datatype`.
    pub(crate) fn write_bytes(&self, datatype: &Datatype, bytes: &[u8]) -> Result<()> {
        locked(|| {
            let needed = self.space()?.len()?.saturating_mul(datatype.size()? as u64);
            if needed != bytes.len() as u64 {
                return Err(knarr_array::error::Error::internal(format!(
                    "an attribute of {needed} bytes was given {}",
                    bytes.len()
                )));
            }
            // SAFETY: the length was checked against the attribute's space just now.
            call("write an attribute", || unsafe { H5Awrite(self.0.raw(), datatype.0.raw(), bytes.as_ptr().cast()) })
                .map(|_| ())
        })
    }
}

impl Attr {
    /// Writes strings; `datatype` is that of variable-length strings.
    pub(crate) fn write_strings(&self, datatype: &Datatype, strings: &[String]) -> Result<()> {
        let owned = strings.iter().map(|string| c_string(string.as_bytes())).collect::<Result<Vec<_>>>()?;
        let pointers: Vec<_> = owned.iter().map(|string| string.as_ptr()).collect();
        locked(|| {
            if self.space()?.len()? != pointers.len() as u64 || !datatype.is_variable_string()? {
                return Err(knarr_array::error::Error::internal("an attribute of strings has another shape"));
            }
            if pointers.is_empty() {
                return Ok(());
            }
            // SAFETY: the buffer holds one pointer to a NUL-terminated string per element, checked above.
            call("write an attribute", || unsafe { H5Awrite(self.0.raw(), datatype.0.raw(), pointers.as_ptr().cast()) })
                .map(|_| ())
        })
    }
}

impl Attr {
    /// Writes sequences of object references, one per element.
    pub(crate) fn write_reference_sequences(&self, datatype: &Datatype, sequences: &[Vec<Address>]) -> Result<()> {
        let mut owned: Vec<Vec<[u8; 8]>> =
            sequences.iter().map(|sequence| sequence.iter().map(|address| address.0.to_le_bytes()).collect()).collect();
        let elements: Vec<hvl_t> =
            owned.iter_mut().map(|sequence| hvl_t { len: sequence.len(), p: sequence.as_mut_ptr().cast() }).collect();
        locked(|| {
            if self.space()?.len()? != elements.len() as u64 || datatype.class()? != Class::Vlen {
                return Err(knarr_array::error::Error::internal("an attribute of references has another shape"));
            }
            // SAFETY: each element points to its sequence of 8-byte references, alive until after the call; their
            // number was checked above.
            call("write an attribute", || unsafe { H5Awrite(self.0.raw(), datatype.0.raw(), elements.as_ptr().cast()) })
                .map(|_| ())
        })
    }
}

impl Object {
    /// Creates an attribute without values.
    pub(crate) fn create_attribute(
        &self,
        name: &[u8],
        datatype: &Datatype,
        space: &Space,
        acpl: Option<&Plist>,
    ) -> Result<Attr> {
        let name = c_string(name)?;
        let acpl = acpl.map_or(H5P_DEFAULT, |list| list.0.raw());
        // SAFETY: all handles are open and outlive the call, as does the name.
        made("create an attribute", || unsafe {
            H5Acreate2(self.0.raw(), name.as_ptr(), datatype.0.raw(), space.0.raw(), acpl, H5P_DEFAULT)
        })
        .map(Attr)
    }

    /// Removes the attribute called `name`.
    pub(crate) fn delete_attribute(&self, name: &[u8]) -> Result<()> {
        let name = c_string(name)?;
        // SAFETY: the object is open, the name outlives the call.
        call("delete an attribute", || unsafe { H5Adelete(self.0.raw(), name.as_ptr()) }).map(|_| ())
    }
}
