//! Datasets that are about to be created, read through the program's own HDF5, and the property lists they get instead
//! of the program's.
//!
//! Left as the program wants them are datasets with filters, of compact, external or virtual storage, of types of
//! variable length or references, without or with few values, in files of parallel, in-memory or single-writer-
//! multiple-reader access, and contiguous ones whose space is to be there early: such may be mapped.

use std::ffi::{CStr, c_char, c_int, c_uint};

use knarr_array::array::{DType, Endian};
use knarr_array::filter::Hdf5Filter;
use knarr_array::model::{StorageLayout, Variable};
use knarr_capture::Change;
use knarr_codec::codec::filter_name;

use crate::host::{CallerHdf5, Hid};
use knarr_caller::Identifier;

/// Codes of HDF5's C headers.
mod code {
    pub(super) const DEFAULT_LIST: i64 = 0;
    pub(super) const UNLIMITED: u64 = u64::MAX;
    pub(super) const SIMPLE: i32 = 1;
    pub(super) const CONTIGUOUS: i32 = 1;
    pub(super) const CHUNKED: i32 = 2;
    pub(super) const COMPACT: i32 = 0;
    pub(super) const INTEGER: i32 = 0;
    pub(super) const FLOAT: i32 = 1;
    pub(super) const STRING: i32 = 3;
    pub(super) const REFERENCE: i32 = 7;
    pub(super) const VARIABLE_LENGTH: i32 = 9;
    pub(super) const UNSIGNED: i32 = 0;
    pub(super) const BIG_ENDIAN: i32 = 1;
    pub(super) const SINGLE_WRITER: u32 = 0x20;
    pub(super) const ALLOCATE_EARLY: i32 = 1;
    pub(super) const OPTIONAL: u32 = 1;
    pub(super) const MOST_DIMENSIONS: usize = 32;
    pub(super) const MOST_DIMENSIONS_C: i32 = 32;
}

/// Why a dataset is left that HDF5 does not tell enough of: most often it will refuse it anyway.
const UNKNOWN: &str = "HDF5 does not tell what it is";

/// What a program asks HDF5 to create.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// File or group.
    pub(crate) location: Hid,
    /// Name below it; null if it gets none yet.
    pub(crate) name: *const c_char,
    pub(crate) datatype: Hid,
    pub(crate) space: Hid,
    pub(crate) creation: Hid,
    pub(crate) access: Hid,
}

/// Property lists to create a dataset with, closed when dropped.
pub(crate) struct Lists<'h> {
    host: &'h CallerHdf5,
    pub(crate) creation: Hid,
    pub(crate) access: Hid,
}

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

impl Request {
    /// The dataset as a variable of this path.
    ///
    /// # Errors
    /// In words, why it is left as the program wants it.
    pub(crate) fn variable(&self, host: &CallerHdf5, path: &str) -> Result<Variable, &'static str> {
        check_file(host, self.location)?;
        let (dtype, endian) = element(host, self.datatype)?;
        let (shape, max_shape) = extents(host, self.space)?;
        let layout = self.layout(host, shape.len())?;
        if layout == StorageLayout::Contiguous && max_shape.iter().zip(&shape).any(|(most, now)| *most != Some(*now)) {
            return Err(UNKNOWN);
        }
        let variable = Variable { endian, layout, ..Variable::plain(path, dtype, shape) };
        Ok(Variable { max_shape, ..variable })
    }

    /// Path in the file; it ends in a slash where the dataset has no name yet.
    pub(crate) fn path(&self, host: &CallerHdf5) -> String {
        let group = object_name(host, self.location).unwrap_or_default();
        if self.name.is_null() {
            return format!("{}/", group.trim_end_matches('/'));
        }
        // SAFETY: HDF5 wants a NUL-terminated name.
        let name = unsafe { CStr::from_ptr(self.name) }.to_string_lossy().into_owned();
        if name.starts_with('/') { name } else { format!("{}/{name}", group.trim_end_matches('/')) }
    }

    fn layout(&self, host: &CallerHdf5, rank: usize) -> Result<StorageLayout, &'static str> {
        if self.creation == code::DEFAULT_LIST {
            return Ok(StorageLayout::Contiguous);
        }
        let (filters, layout, external) =
            (host.filter_count.ok_or(UNKNOWN)?, host.layout.ok_or(UNKNOWN)?, host.external_count.ok_or(UNKNOWN)?);
        // SAFETY: the list is the program's own.
        let (filters, layout, external) =
            unsafe { (filters(self.creation), layout(self.creation), external(self.creation)) };
        if filters > 0 {
            return Err("the program has chosen filters");
        }
        match layout {
            code::CONTIGUOUS if external > 0 => Ok(StorageLayout::Elsewhere),
            code::CONTIGUOUS => {
                let mut time: c_int = 0;
                let get = host.allocation_time.ok_or(UNKNOWN)?;
                // SAFETY: `time` is a valid place for the result.
                if unsafe { get(self.creation, &raw mut time) } < 0 || time == code::ALLOCATE_EARLY {
                    return Err("its space is to be there early");
                }
                Ok(StorageLayout::Contiguous)
            }
            code::CHUNKED => Ok(StorageLayout::Chunked(chunk_shape(host, self.creation, rank).ok_or(UNKNOWN)?)),
            code::COMPACT => Ok(StorageLayout::Compact),
            _ => Ok(StorageLayout::Elsewhere),
        }
    }

    /// The lists that make the change.
    ///
    /// # Errors
    /// In words, what of it HDF5 does not do.
    pub(crate) fn lists<'h>(&self, host: &'h CallerHdf5, change: &Change) -> Result<Lists<'h>, String> {
        let mut lists = Lists { host, creation: copied(host, self.creation, &host.creation_class)?, access: -1 };
        lists.access = copied(host, self.access, &host.access_class)?;
        if let Some(chunk) = &change.chunk {
            lists.set_chunk(chunk).ok_or_else(|| format!("HDF5 refused chunks of {chunk:?}"))?;
        }
        for filter in &change.filters {
            lists.add(filter).ok_or_else(|| {
                format!("the program's HDF5 lacks a filter: {} ({})", filter_name(filter.id), filter.id)
            })?;
        }
        lists.enlarge_cache(change.cache_bytes).ok_or("HDF5 refused a larger chunk cache")?;
        Ok(lists)
    }
}

/// Whether the file that holds `object` is one that Knarr writes into.
///
/// # Errors
/// In words, why not.
pub(crate) fn check_file(host: &CallerHdf5, object: Hid) -> Result<(), &'static str> {
    // SAFETY: the object is the program's own.
    let file = host.file_of.map_or(-1, |get| unsafe { get(object) });
    let file = Owned::new(host, file, Close::Reference).ok_or(UNKNOWN)?;
    let mut intent: c_uint = 0;
    let get_intent = host.file_intent.ok_or(UNKNOWN)?;
    // SAFETY: `intent` is a valid place for the result.
    if unsafe { get_intent(file.id, &raw mut intent) } < 0 || intent & code::SINGLE_WRITER != 0 {
        return Err("the file is written for readers at the same time (SWMR)");
    }
    // SAFETY: the file is open.
    let list = host.file_access.map_or(-1, |get| unsafe { get(file.id) });
    let list = Owned::new(host, list, Close::List).ok_or(UNKNOWN)?;
    let null = std::ptr::null_mut::<std::ffi::c_void>();
    // SAFETY: HDF5 leaves out results that have no place; it fails if the file has another driver.
    if host.is_parallel.is_some_and(|get| unsafe { get(list.id, null, null) } >= 0) {
        return Err("the file is written in parallel");
    }
    // SAFETY: as above.
    if host.is_in_memory.is_some_and(|get| unsafe { get(list.id, null, null) } >= 0) {
        return Err("the file is kept in memory");
    }
    Ok(())
}

/// Element type and byte order.
///
/// # Errors
/// In words, why elements of this type are left as they are.
pub(crate) fn element(host: &CallerHdf5, datatype: Hid) -> Result<(DType, Endian), &'static str> {
    let (class_of, size_of, holds) =
        (host.type_class.ok_or(UNKNOWN)?, host.type_size.ok_or(UNKNOWN)?, host.type_holds.ok_or(UNKNOWN)?);
    // SAFETY: the type is the program's own.
    let (class, size) = unsafe { (class_of(datatype), size_of(datatype)) };
    if class < 0 || size == 0 {
        return Err(UNKNOWN);
    }
    // SAFETY: as above.
    let any = |class: c_int| unsafe { holds(datatype, class) } != 0;
    // SAFETY: as above.
    let is_variable = host.is_variable_string.is_none_or(|get| unsafe { get(datatype) } != 0);
    // Strings inside of other types may be of variable length, which HDF5 does not tell.
    if any(code::VARIABLE_LENGTH) || (class == code::STRING && is_variable) || (class > 4 && any(code::STRING)) {
        return Err("of variable length");
    }
    if any(code::REFERENCE) {
        return Err("references");
    }
    // SAFETY: as above; the order of types that have none is not asked for.
    let order = host.type_order.map_or(0, |get| unsafe { get(datatype) });
    let endian = if order == code::BIG_ENDIAN { Endian::Big } else { Endian::Little };
    // SAFETY: as above.
    let signed = || host.type_sign.is_none_or(|get| unsafe { get(datatype) } != code::UNSIGNED);
    let dtype = match (class, size) {
        (code::FLOAT, 2) => DType::F16,
        (code::FLOAT, 4) => DType::F32,
        (code::FLOAT, 8) => DType::F64,
        (code::INTEGER, 1) if signed() => DType::I8,
        (code::INTEGER, 2) if signed() => DType::I16,
        (code::INTEGER, 4) if signed() => DType::I32,
        (code::INTEGER, 8) if signed() => DType::I64,
        (code::INTEGER, 1) => DType::U8,
        (code::INTEGER, 2) => DType::U16,
        (code::INTEGER, 4) => DType::U32,
        (code::INTEGER, 8) => DType::U64,
        _ => DType::Opaque(u32::try_from(size).map_err(|_| UNKNOWN)?),
    };
    Ok((dtype, endian))
}

/// Extents of a dataspace, and how far each may grow.
///
/// # Errors
/// In words, why there are none.
pub(crate) fn extents(host: &CallerHdf5, space: Hid) -> Result<(Vec<u64>, Vec<Option<u64>>), &'static str> {
    let (kind, rank, get) =
        (host.space_kind.ok_or(UNKNOWN)?, host.space_rank.ok_or(UNKNOWN)?, host.space_extents.ok_or(UNKNOWN)?);
    // SAFETY: the dataspace is the program's own.
    let (kind, rank) = unsafe { (kind(space), rank(space)) };
    let rank = usize::try_from(rank).ok().filter(|&rank| rank <= code::MOST_DIMENSIONS).ok_or(UNKNOWN)?;
    if kind != code::SIMPLE || rank == 0 {
        return Err("scalar or without values");
    }
    let (mut shape, mut most) = ([0u64; code::MOST_DIMENSIONS], [0u64; code::MOST_DIMENSIONS]);
    // SAFETY: there is room for as many extents as HDF5 allows.
    if unsafe { get(space, shape.as_mut_ptr(), most.as_mut_ptr()) } < 0 {
        return Err(UNKNOWN);
    }
    let shape: Vec<u64> = shape.into_iter().take(rank).collect();
    let most = most.into_iter().take(rank).map(|extent| (extent != code::UNLIMITED).then_some(extent)).collect();
    Ok((shape, most))
}

/// Chunks that a creation list sets, for as many axes.
pub(crate) fn chunk_shape(host: &CallerHdf5, list: Hid, rank: usize) -> Option<Vec<u64>> {
    let mut chunk = [0u64; code::MOST_DIMENSIONS];
    // SAFETY: the list is open, and there is room for as many extents as are said.
    let found = unsafe { host.chunk?(list, code::MOST_DIMENSIONS_C, chunk.as_mut_ptr()) };
    let shape = chunk.get(..rank).filter(|shape| usize::try_from(found) == Ok(rank) && !shape.contains(&0))?;
    Some(shape.to_vec())
}

impl Lists<'_> {
    fn set_chunk(&self, chunk: &[u64]) -> Option<()> {
        let rank = c_int::try_from(chunk.len()).ok()?;
        // SAFETY: `chunk` has as many extents as are said.
        (unsafe { self.host.set_chunk?(self.creation, rank, chunk.as_ptr()) } >= 0).then_some(())
    }

    /// Adds a filter to the pipeline. `None` if this HDF5 does not have it.
    fn add(&self, filter: &Hdf5Filter) -> Option<()> {
        let flags = if filter.optional { code::OPTIONAL } else { 0 };
        let (id, values) = (c_int::try_from(filter.id).ok()?, filter.given_values());
        // SAFETY: there are as many values as are said.
        let done = unsafe { self.host.set_filter?(self.creation, id, flags, values.len(), values.as_ptr()) };
        // SAFETY: any number may be asked about.
        (done >= 0 && unsafe { self.host.filter_available?(id) } > 0).then_some(())
    }

    /// Lets the dataset's chunk cache hold at least so many bytes.
    fn enlarge_cache(&self, wanted: u64) -> Option<()> {
        let (get, set) = (self.host.cache?, self.host.set_cache?);
        let (mut slots, mut bytes, mut preemption) = (0usize, 0usize, 0f64);
        // SAFETY: valid places for the results.
        if unsafe { get(self.access, &raw mut slots, &raw mut bytes, &raw mut preemption) } < 0 {
            return None;
        }
        let wanted = usize::try_from(wanted).ok()?;
        if wanted > bytes {
            // SAFETY: the list is ours.
            (unsafe { set(self.access, slots, wanted, preemption) } >= 0).then_some(())
        } else {
            Some(())
        }
    }
}

impl Drop for Lists<'_> {
    fn drop(&mut self) {
        for id in [self.creation, self.access] {
            drop(Owned::new(self.host, id, Close::List));
        }
    }
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
