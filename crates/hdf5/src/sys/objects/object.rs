//! Objects: groups, datasets and named types, and what they have in common.

use std::os::raw::c_uint;

use hdf5_metno_sys::h5::{H5_ih_info_t, H5_index_t, H5_iter_order_t, herr_t};
use hdf5_metno_sys::h5a::{H5Aexists, H5Aopen, H5Aopen_by_idx};
use hdf5_metno_sys::h5g::{H5Gcreate2, H5Gget_create_plist};
use hdf5_metno_sys::h5i::{H5I_type_t, H5Iget_name, H5Iget_type, hid_t};
use hdf5_metno_sys::h5o::{
    H5O_INFO_BASIC, H5O_INFO_NUM_ATTRS, H5O_NATIVE_INFO_ALL, H5O_hdr_info_t, H5O_info2_t, H5Oget_comment, H5Oget_info3,
    H5Olink, H5Oopen,
};
use hdf5_metno_sys::h5p::H5P_DEFAULT;
use hdf5_metno_sys::h5t::H5Tget_create_plist;

use crate::sys::{Attr, Dataset, Datatype, Id, Plist, c_string, call, locked, made, read_string};
use hdf5_metno_sys::h5d::H5Dget_create_plist;
use knarr_array::error::{Error, Result};

/// Address of an object header relative to the base address: what object references hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address(pub(crate) u64);

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Group,
    Dataset,
    NamedType,
}

/// An open object of any kind.
#[derive(Debug)]
pub(crate) struct Object(pub(in crate::sys) Id);

/// An open group.
#[derive(Debug)]
pub(crate) struct Group(pub(crate) Object);

/// `H5O_native_info_t`, whose fields the bindings do not show.
#[repr(C)]
#[derive(Default)]
struct NativeInfo {
    header: H5O_hdr_info_t,
    object: H5_ih_info_t,
    attributes: H5_ih_info_t,
}

unsafe extern "C" {
    fn H5Oget_native_info(object: hid_t, info: *mut NativeInfo, fields: c_uint) -> herr_t;
}

/// A zeroed object info for the library to fill.
fn empty_info() -> H5O_info2_t {
    // SAFETY: all fields are numbers, byte arrays or an enum with a zero variant.
    unsafe { std::mem::zeroed() }
}

/// The native token holds the address in its first eight bytes, little-endian.
pub(in crate::sys) fn token_address(token: &hdf5_metno_sys::h5o::H5O_token_t) -> Address {
    let mut bytes = [0u8; 8];
    // SAFETY: a token is a plain array of 16 bytes.
    unsafe { std::ptr::copy_nonoverlapping(std::ptr::from_ref(token).cast::<u8>(), bytes.as_mut_ptr(), 8) };
    Address(u64::from_le_bytes(bytes))
}

impl Object {
    pub(in crate::sys) fn open(location: &Id, path: &[u8]) -> Result<Self> {
        let name = c_string(path)?;
        // SAFETY: location is open, the name outlives the call.
        made("open an object", || unsafe { H5Oopen(location.raw(), name.as_ptr(), H5P_DEFAULT) }).map(Self)
    }

    fn info(&self, fields: c_uint) -> Result<H5O_info2_t> {
        let mut info = empty_info();
        // SAFETY: the object is open and `info` is a valid place for the result.
        call("read an object header", || unsafe { H5Oget_info3(self.0.raw(), &raw mut info, fields) })?;
        Ok(info)
    }

    /// Address of the header.
    pub(crate) fn address(&self) -> Result<Address> {
        Ok(token_address(&self.info(H5O_INFO_BASIC)?.token))
    }

    /// Bytes that its header and attributes take, and with `index` the index of its chunks or links.
    pub(crate) fn header_room(&self, index: bool) -> Result<u64> {
        let mut info = NativeInfo::default();
        let fields = H5O_NATIVE_INFO_ALL;
        // SAFETY: the object is open and `info`, which has the layout of `H5O_native_info_t`, a place for the result.
        call("read an object header", || unsafe { H5Oget_native_info(self.0.raw(), &raw mut info, fields) })?;
        let of = |part: H5_ih_info_t| part.index_size.saturating_add(part.heap_size);
        let index = if index { of(info.object) } else { 0 };
        Ok(info.header.space.total.saturating_add(of(info.attributes)).saturating_add(index))
    }

    /// What it is.
    pub(crate) fn kind(&self) -> Result<ObjectKind> {
        // SAFETY: the identifier is live.
        match locked(|| unsafe { H5Iget_type(self.0.raw()) }) {
            H5I_type_t::H5I_GROUP => Ok(ObjectKind::Group),
            H5I_type_t::H5I_DATASET => Ok(ObjectKind::Dataset),
            H5I_type_t::H5I_DATATYPE => Ok(ObjectKind::NamedType),
            _ => Err(Error::unsupported("the object is neither group, dataset nor named type")),
        }
    }

    /// As a group.
    pub(crate) fn into_group(self) -> Result<Group> {
        self.expect_id(H5I_type_t::H5I_GROUP, "a group").map(|id| Group(Self(id)))
    }

    /// As a dataset.
    pub(crate) fn into_dataset(self) -> Result<Dataset> {
        self.expect_id(H5I_type_t::H5I_DATASET, "a dataset").map(|id| Dataset(Self(id)))
    }

    /// As a named type.
    pub(crate) fn into_datatype(self) -> Result<Datatype> {
        self.expect_id(H5I_type_t::H5I_DATATYPE, "a named type").map(Datatype)
    }

    fn expect_id(self, wanted: H5I_type_t, what: &str) -> Result<Id> {
        // SAFETY: the identifier is live.
        let found = locked(|| unsafe { H5Iget_type(self.0.raw()) });
        if found == wanted { Ok(self.0) } else { Err(Error::corrupt(format!("the object is not {what}"))) }
    }

    /// Creation properties of the object, whatever its kind.
    pub(crate) fn creation(&self) -> Result<Plist> {
        let what = "read an object's properties";
        // SAFETY: the identifier is live and of the kind that each function takes.
        made(what, || unsafe {
            match H5Iget_type(self.0.raw()) {
                H5I_type_t::H5I_GROUP => H5Gget_create_plist(self.0.raw()),
                H5I_type_t::H5I_DATASET => H5Dget_create_plist(self.0.raw()),
                H5I_type_t::H5I_DATATYPE => H5Tget_create_plist(self.0.raw()),
                _ => -1,
            }
        })
        .map(Plist)
    }

    /// Attributes in creation order where it is tracked, else in the order of the header.
    pub(crate) fn attributes(&self) -> Result<Vec<Attr>> {
        locked(|| {
            let count = self.info(H5O_INFO_NUM_ATTRS)?.num_attrs;
            let (index, order) = if count > 1 && self.creation()?.attribute_order_tracked()? {
                (H5_index_t::H5_INDEX_CRT_ORDER, H5_iter_order_t::H5_ITER_INC)
            } else {
                (H5_index_t::H5_INDEX_NAME, H5_iter_order_t::H5_ITER_NATIVE)
            };
            (0..count)
                .map(|n| {
                    // SAFETY: the object is open; "." means the object itself.
                    made("open an attribute", || unsafe {
                        H5Aopen_by_idx(self.0.raw(), c".".as_ptr(), index, order, n, H5P_DEFAULT, H5P_DEFAULT)
                    })
                    .map(Attr)
                })
                .collect()
        })
    }

    /// The attribute called `name`, if there is one.
    pub(crate) fn attribute(&self, name: &[u8]) -> Result<Option<Attr>> {
        let name = c_string(name)?;
        locked(|| {
            // SAFETY: the object is open, the name outlives the call.
            if call("look up an attribute", || unsafe { H5Aexists(self.0.raw(), name.as_ptr()) })? == 0 {
                return Ok(None);
            }
            // SAFETY: as above.
            made("open an attribute", || unsafe { H5Aopen(self.0.raw(), name.as_ptr(), H5P_DEFAULT) })
                .map(|id| Some(Attr(id)))
        })
    }

    /// A path that leads to it.
    pub(crate) fn path(&self) -> Result<Vec<u8>> {
        // SAFETY: the object is open; buffer and length are those of `read_string`.
        read_string("read an object's name", |buffer, size| unsafe { H5Iget_name(self.0.raw(), buffer, size) })
    }

    /// The comment, empty if there is none.
    pub(crate) fn comment(&self) -> Result<Vec<u8>> {
        // SAFETY: the object is open; buffer and length are those of `read_string`.
        read_string("read a comment", |buffer, size| unsafe { H5Oget_comment(self.0.raw(), buffer, size) })
    }

    /// Sets the comment.
    #[expect(deprecated, reason = "new files should use attributes, but comments of old ones are kept")]
    pub(crate) fn set_comment(&self, comment: &[u8]) -> Result<()> {
        let comment = c_string(comment)?;
        // SAFETY: the object is open, the text outlives the call.
        call("write a comment", || unsafe { hdf5_metno_sys::h5o::H5Oset_comment(self.0.raw(), comment.as_ptr()) })
            .map(|_| ())
    }
}

impl Group {
    /// Creates a group here.
    pub(crate) fn create_group(&self, name: &[u8], lcpl: &Plist, gcpl: &Plist) -> Result<Self> {
        let name = c_string(name)?;
        // SAFETY: the group is open; name and lists outlive the call.
        made("create a group", || unsafe {
            H5Gcreate2(self.0.0.raw(), name.as_ptr(), lcpl.0.raw(), gcpl.0.raw(), H5P_DEFAULT)
        })
        .map(|id| Self(Object(id)))
    }

    /// Links an existing, perhaps nameless object here.
    pub(crate) fn link_id(&self, name: &[u8], target: &Datatype, lcpl: &Plist) -> Result<()> {
        let name = c_string(name)?;
        // SAFETY: both objects are open in the same file; name and list outlive the call.
        call("create a link", || unsafe {
            H5Olink(target.0.raw(), self.0.0.raw(), name.as_ptr(), lcpl.0.raw(), H5P_DEFAULT)
        })
        .map(|_| ())
    }
}
