//! Identifiers of HDF5 that Knarr opens and closes, property lists among them, and names of objects.

use std::ffi::c_char;

use crate::host::{CallerHdf5, Hid};
use knarr_caller::Identifier;

/// Codes of HDF5's C headers.
mod code {
    pub(super) const DEFAULT_LIST: i64 = 0;
    pub(super) const SIMPLE: i32 = 1;
    pub(super) const MOST_DIMENSIONS: usize = 32;
}

/// Why nothing can be had that HDF5 does not tell enough of: most often it will refuse it anyway.
const UNKNOWN: &str = "HDF5 does not tell what it is";

/// Something of HDF5 that is closed when dropped.
pub(crate) struct Owned<'h> {
    host: &'h CallerHdf5,
    pub(crate) id: Hid,
    close: Close,
}

/// How it is closed.
pub(crate) enum Close {
    /// A property list.
    List,
    /// Whatever else.
    Reference,
}

impl<'h> Owned<'h> {
    /// `None` if there is no such thing.
    pub(crate) fn new(host: &'h CallerHdf5, id: Hid, close: Close) -> Option<Self> {
        // What is made is closed, so nothing may be made of an identifier that is none.
        if id < 0 { None } else { Some(Self { host, id, close }) }
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        let close = match self.close {
            Close::List => self.host.close_list,
            Close::Reference => self.host.release,
        };
        if let Some(close) = close {
            // SAFETY: the identifier was made for us and is closed once.
            unsafe { close(self.id) };
        }
    }
}

/// Name of the file that holds `object`, as the program gave it.
pub(crate) fn file_name(host: &CallerHdf5, object: Hid) -> Option<Vec<u8>> {
    let get = host.file_name?;
    // SAFETY: as HDF5 documents: without room it tells the length.
    read_name(|buffer, room| unsafe { get(object, buffer, room) })
}

/// Path of an object in its file.
pub(crate) fn object_name(host: &CallerHdf5, object: Hid) -> Option<String> {
    let get = host.object_name?;
    // SAFETY: as HDF5 documents: without room it tells the length.
    let name = read_name(|buffer, room| unsafe { get(object, buffer, room) })?;
    Some(String::from_utf8_lossy(&name).into_owned())
}

/// Where an object begins in its file, by whatever name it was opened.
pub(crate) fn address(host: &CallerHdf5, object: Hid) -> Option<[u64; 2]> {
    // An `H5G_stat_t`: the number of the file in two words, the address of the object in two, and what has no say here.
    let mut found = [0u64; 32];
    // SAFETY: the object is the program's own; the structure takes less than half of the room.
    let done = unsafe { host.object_info?(object, c".".as_ptr(), 0, found.as_mut_ptr().cast()) };
    (done >= 0).then_some([found[2], found[3]])
}

/// Reads a name with a function that tells its length and writes as much as fits, with a NUL.
fn read_name(get: impl Fn(*mut c_char, usize) -> isize) -> Option<Vec<u8>> {
    let len = usize::try_from(get(std::ptr::null_mut(), 0)).ok().filter(|&len| len < 1 << 20)?;
    let mut name = vec![0u8; len + 1];
    let got = get(name.as_mut_ptr().cast(), name.len());
    if usize::try_from(got) != Ok(len) {
        return None;
    }
    name.truncate(len);
    Some(name)
}

/// Extents of a dataspace that has some. `None` if HDF5 does not tell.
pub(crate) fn extents(host: &CallerHdf5, space: Hid) -> Option<Vec<u64>> {
    // SAFETY: the dataspace is the program's own.
    let (kind, rank) = unsafe { (host.space_kind?(space), host.space_rank?(space)) };
    let rank = usize::try_from(rank).ok().filter(|&rank| rank <= code::MOST_DIMENSIONS)?;
    if kind != code::SIMPLE || rank == 0 {
        return None;
    }
    let mut shape = [0u64; code::MOST_DIMENSIONS];
    // SAFETY: there is room for as many extents as HDF5 allows; how far each may grow is not asked.
    if unsafe { host.space_extents?(space, shape.as_mut_ptr(), std::ptr::null_mut()) } < 0 {
        return None;
    }
    Some(shape.into_iter().take(rank).collect())
}

/// A copy of a property list, or a new one where the program wants the default.
///
/// # Errors
/// In words, why there is none.
pub(crate) fn copied(host: &CallerHdf5, list: Hid, class: &Identifier) -> Result<Hid, &'static str> {
    let id = if list == code::DEFAULT_LIST {
        let (make, class) =
            (host.new_list.ok_or(UNKNOWN)?, class.id().ok_or("HDF5 shows no classes of property lists")?);
        // SAFETY: any class may be asked for; HDF5 checks it.
        unsafe { make(class) }
    } else {
        let copy = host.copy_list.ok_or(UNKNOWN)?;
        // SAFETY: the list is the program's own.
        unsafe { copy(list) }
    };
    if id >= 0 { Ok(id) } else { Err("HDF5 made no property list") }
}
