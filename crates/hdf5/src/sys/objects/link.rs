//! Links of a group.

use std::ffi::CStr;
use std::os::raw::{c_char, c_void};

use hdf5_metno_sys::h5::{H5_index_t, H5_iter_order_t, herr_t, hsize_t};
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5l::{
    H5L_info2_t, H5L_type_t, H5Lcreate_external, H5Lcreate_hard, H5Lcreate_soft, H5Lget_val, H5Literate2,
    H5Lunpack_elink_val,
};
use hdf5_metno_sys::h5o::H5O_token_t;
use hdf5_metno_sys::h5p::H5P_DEFAULT;
use hdf5_metno_sys::h5t::H5T_cset_t;

use crate::sys::objects::object::token_address;
use crate::sys::{Address, Group, Plist, c_string, call, locked};
use knarr_array::error::{Error, Result};

/// Where a link leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkTarget {
    /// An object of this file.
    Hard(Address),
    /// A path in this file, which need not exist.
    Soft(Vec<u8>),
    /// A path in another file.
    External { file: Vec<u8>, path: Vec<u8> },
    /// Of a class that a program defined: its number, and bytes that it knows the meaning of.
    User { class: i32, value: Vec<u8> },
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) name: Vec<u8>,
    /// True if the name is UTF-8 rather than ASCII.
    pub(crate) utf8: bool,
    pub(crate) target: LinkTarget,
}

struct Found {
    name: Vec<u8>,
    utf8: bool,
    kind: i32,
    address: Address,
    value_size: usize,
}

unsafe extern "C" fn visit(_: hid_t, name: *const c_char, info: *const H5L_info2_t, data: *mut c_void) -> herr_t {
    // SAFETY: the library hands a NUL-terminated name and a link info that live during the callback; `data`
    // is the vector that `Group::links` lends.
    let (found, name) = unsafe { (&mut *data.cast::<Vec<Found>>(), CStr::from_ptr(name)) };
    // The number of a class that a program defined is none of the enumeration's.
    // SAFETY: both fields lie in the info, which is alive; the class is stored as a C int.
    let (kind, cset) = unsafe { ((&raw const (*info).type_).cast::<i32>().read(), (*info).cset) };
    // SAFETY: the union holds a token for hard links and a size for all others.
    let (address, value_size) = unsafe {
        let value = &raw const (*info).u;
        if kind == H5L_type_t::H5L_TYPE_HARD as i32 {
            (token_address(&*value.cast::<H5O_token_t>()), 0)
        } else {
            (Address(0), value.cast::<usize>().read())
        }
    };
    found.push(Found {
        name: name.to_bytes().to_vec(),
        utf8: cset == H5T_cset_t::H5T_CSET_UTF8,
        kind,
        address,
        value_size,
    });
    0
}

impl Group {
    /// Links in creation order where it is tracked, else by name.
    pub(crate) fn links(&self) -> Result<Vec<Link>> {
        locked(|| {
            let index = if self.0.creation()?.link_order_tracked()? {
                H5_index_t::H5_INDEX_CRT_ORDER
            } else {
                H5_index_t::H5_INDEX_NAME
            };
            let mut found: Vec<Found> = Vec::new();
            let mut position: hsize_t = 0;
            // SAFETY: the callback only touches `found`, which outlives the call.
            call("list a group", || unsafe {
                H5Literate2(
                    self.0.0.raw(),
                    index,
                    H5_iter_order_t::H5_ITER_INC,
                    &raw mut position,
                    Some(visit),
                    std::ptr::from_mut(&mut found).cast::<c_void>(),
                )
            })?;
            found.into_iter().map(|found| self.resolve(found)).collect()
        })
    }

    fn resolve(&self, found: Found) -> Result<Link> {
        let target = match found.kind {
            0 => LinkTarget::Hard(found.address),
            1 => {
                let mut value = self.link_value(&found)?;
                value.truncate(value.iter().position(|&byte| byte == 0).unwrap_or(value.len()));
                LinkTarget::Soft(value)
            }
            64 => {
                let value = self.link_value(&found)?;
                unpack_external(&value)?
            }
            class => LinkTarget::User { class, value: self.user_link(&found.name, class)? },
        };
        Ok(Link { name: found.name, utf8: found.utf8, target })
    }

    fn link_value(&self, found: &Found) -> Result<Vec<u8>> {
        let name = c_string(&found.name)?;
        let mut value = vec![0u8; found.value_size];
        // SAFETY: the buffer has the size that the link info gave.
        call("read a link", || unsafe {
            H5Lget_val(self.0.0.raw(), name.as_ptr(), value.as_mut_ptr().cast(), value.len(), H5P_DEFAULT)
        })?;
        Ok(value)
    }

    /// Creates a further hard link to the object at `path`.
    pub(crate) fn link_hard(&self, name: &[u8], path: &[u8], lcpl: &Plist) -> Result<()> {
        let (name, path) = (c_string(name)?, c_string(path)?);
        // SAFETY: the group is open; strings and list outlive the call. Absolute paths start at the file's root.
        call("create a link", || unsafe {
            H5Lcreate_hard(self.0.0.raw(), path.as_ptr(), self.0.0.raw(), name.as_ptr(), lcpl.0.raw(), H5P_DEFAULT)
        })
        .map(|_| ())
    }

    /// Creates a soft link.
    pub(crate) fn link_soft(&self, name: &[u8], target: &[u8], lcpl: &Plist) -> Result<()> {
        let (name, target) = (c_string(name)?, c_string(target)?);
        // SAFETY: as in `link_hard`.
        call("create a soft link", || unsafe {
            H5Lcreate_soft(target.as_ptr(), self.0.0.raw(), name.as_ptr(), lcpl.0.raw(), H5P_DEFAULT)
        })
        .map(|_| ())
    }

    /// Creates an external link.
    pub(crate) fn link_external(&self, name: &[u8], file: &[u8], path: &[u8], lcpl: &Plist) -> Result<()> {
        let (name, file, path) = (c_string(name)?, c_string(file)?, c_string(path)?);
        // SAFETY: as in `link_hard`.
        call("create an external link", || unsafe {
            H5Lcreate_external(file.as_ptr(), path.as_ptr(), self.0.0.raw(), name.as_ptr(), lcpl.0.raw(), H5P_DEFAULT)
        })
        .map(|_| ())
    }
}

fn unpack_external(value: &[u8]) -> Result<LinkTarget> {
    let (mut flags, mut file, mut path) = (0, std::ptr::null(), std::ptr::null());
    // SAFETY: the library only reads `value.len()` bytes and returns pointers into them.
    call("read an external link", || unsafe {
        H5Lunpack_elink_val(value.as_ptr().cast(), value.len(), &raw mut flags, &raw mut file, &raw mut path)
    })?;
    if file.is_null() || path.is_null() {
        return Err(Error::corrupt("an external link has no target"));
    }
    // SAFETY: the library checked that both strings end within `value`, which is still alive.
    let text = |pointer| unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec();
    Ok(LinkTarget::External { file: text(file), path: text(path) })
}
