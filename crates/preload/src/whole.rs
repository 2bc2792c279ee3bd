//! Writes that cover whole chunks of a dataset that was given filters: Knarr encodes the chunks in threads and hands
//! them to `H5Dwrite_chunk` of the program's HDF5, which drops what its chunk cache holds of them.
//!
//! Everything unusual is left to HDF5: values that are to be converted or transformed, that do not lie together in
//! memory, or that cover chunks only in part; chunks that the file has already, which may be rewritten in the cache
//! many times; files that are parallel, in memory, or read at the same time. Single chunks that do not get smaller go
//! through HDF5's own filters, which skip them. Where something fails the whole write is left to HDF5, too, which then
//! writes all of it.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use knarr_array::filter::Hdf5Filter;
use knarr_array::region::{Placed, Region};
use knarr_flow::online::Block;

use crate::given;
use crate::host::{CallerHdf5, Herr, Hid};
use crate::library::library;
use crate::lists::{Close, Owned, check_file, chunk_shape, element, extents};
use crate::transfer::Transfer;
use knarr_capture::program as run;

/// Codes of HDF5's C headers.
mod code {
    pub(super) const ALL: i64 = 0;
    pub(super) const DEFAULT_LIST: i64 = 0;
    pub(super) const SELECT_HYPERSLABS: i32 = 2;
    pub(super) const SELECT_ALL: i32 = 3;
    pub(super) const FILL_USER_DEFINED: i32 = 2;
}

/// Less is not worth the questions.
const LEAST_BYTES: u64 = 64 << 10;
const MOST_FILTERS: usize = 32;
const MOST_WORDS: usize = 256;

/// The arguments of `H5Dwrite`.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    pub(crate) dataset: Hid,
    pub(crate) memory_type: Hid,
    pub(crate) memory: Hid,
    pub(crate) file: Hid,
    pub(crate) transfer: Hid,
    pub(crate) values: *const c_void,
}

/// The region that is selected in a dataspace.
#[derive(Clone)]
pub(crate) struct Selected {
    /// Shape of the dataspace.
    pub(crate) shape: Vec<u64>,
    pub(crate) region: Region,
}

impl Write {
    /// Writes. `false` if that is left to HDF5, as if nothing had happened.
    pub(crate) fn run(&self, host: &CallerHdf5) -> bool {
        !self.values.is_null() && host.quietly(|host| self.attempt(host)).flatten().is_some()
    }

    fn attempt(&self, host: &CallerHdf5) -> Option<()> {
        // SAFETY: the dataset is the program's own, here and below; the dataspace is closed when dropped.
        let space = Owned::new(host, unsafe { host.space_of?(self.dataset) }, Close::Reference)?;
        let all = whole(host, space.id)?;
        let selected = if self.file == code::ALL { all.clone() } else { select(host, self.file)? };
        // SAFETY: the type is the program's own.
        let size = u64::try_from(unsafe { host.type_size?(self.memory_type) }).ok().filter(|&size| size > 0)?;
        let bytes = selected.region.volume()?.checked_mul(size)?;
        if bytes < LEAST_BYTES {
            return None;
        }
        let filters = given::of(host, self.dataset)?.filters;
        if selected.shape != all.shape || !self.is_usual(host)? {
            return None;
        }
        check_file(host, self.dataset).ok()?;
        let skipped = self.offset_in_memory(host, &selected)?.checked_mul(size)?;
        let block = self.block(host, selected, filters)?;
        if stored(host, self.dataset, &block.region.start)? > 0 {
            return None;
        }
        // SAFETY: HDF5 would read as many bytes from there: the program selected them.
        let values = unsafe {
            let first = self.values.cast::<u8>().add(usize::try_from(skipped).ok()?);
            std::slice::from_raw_parts(first, usize::try_from(bytes).ok()?)
        };
        let put = Put { host, write: self, block: &block, values };
        library().ok()?.encode_block(&block, values, put_chunk, (&raw const put).cast_mut().cast())
    }

    /// True for values of the dataset's type, which the transfer does not transform. Its other properties have no say
    /// here: HDF5 notes what it did among them, so that they cannot be compared with the defaults.
    fn is_usual(&self, host: &CallerHdf5) -> Option<bool> {
        // SAFETY: as above; the type is closed when dropped.
        let stored = Owned::new(host, unsafe { host.type_of?(self.dataset) }, Close::Reference)?;
        // SAFETY: both types are open.
        if unsafe { host.types_equal?(stored.id, self.memory_type) } <= 0 {
            return Some(false);
        }
        if self.transfer == code::DEFAULT_LIST {
            return Some(true);
        }
        // SAFETY: the list is open; without room nothing is written. There is a length only where there is a transform.
        Some(unsafe { host.transform?(self.transfer, null_mut(), 0) } < 0)
    }

    /// Elements before the first one that is written, if all lie together in memory.
    fn offset_in_memory(&self, host: &CallerHdf5, file: &Selected) -> Option<u64> {
        let memory = if self.memory == code::ALL { file.clone() } else { select(host, self.memory)? };
        let volume = |count: &[u64]| count.iter().product::<u64>();
        if volume(&memory.region.count) != volume(&file.region.count) {
            return None;
        }
        // Behind the first axis with more than one element all are whole.
        let Selected { shape, region } = &memory;
        let mut behind = region.count.iter().zip(shape).skip_while(|(count, _)| **count == 1).skip(1);
        let lies_together = behind.all(|(count, extent)| count == extent);
        let place = |at: u64, (start, extent): (&u64, &u64)| at.checked_mul(*extent)?.checked_add(*start);
        region.start.iter().zip(shape).try_fold(0, place).filter(|_| lies_together)
    }

    /// The block, if it consists of whole chunks.
    fn block(&self, host: &CallerHdf5, selected: Selected, given: u32) -> Option<Block> {
        // SAFETY: the dataset is open; the list is closed when dropped.
        let list = Owned::new(host, unsafe { host.creation_of?(self.dataset) }, Close::List)?;
        let filters = filters(host, list.id).filter(|filters| u32::try_from(filters.len()) == Ok(given))?;
        let chunk = chunk_shape(host, list.id, selected.shape.len())?;
        if let Some(options) = host.chunk_options {
            let mut set: c_uint = 0;
            // SAFETY: `set` is a valid place for the result.
            if unsafe { options(list.id, &raw mut set) } < 0 || set != 0 {
                return None;
            }
        }
        let Selected { shape, region } = selected;
        let is_whole = chunk.iter().zip(&shape).enumerate().all(|(axis, (&chunk, &extent))| {
            let (start, end) = (region.start[axis], region.end(axis));
            start % chunk == 0 && (end % chunk == 0 || end == extent)
        });
        let (dtype, endian) = element(host, self.memory_type).ok()?;
        let padding = fill_value(host, list.id, self.memory_type, dtype.size())?;
        let threads = run::run()?.rules().threads.min(processors());
        is_whole.then_some(Block { dtype, endian, filters, chunk, region, padding, threads })
    }
}

/// Where chunks go.
struct Put<'p> {
    host: &'p CallerHdf5,
    write: &'p Write,
    block: &'p Block,
    /// Of the whole block.
    values: &'p [u8],
}

impl Put<'_> {
    /// Lets HDF5 encode the chunk at `offset`.
    fn leave(&self, offset: &[u64]) -> Option<()> {
        let Block { chunk, region: block, .. } = self.block;
        let place: Vec<u64> =
            offset.iter().zip(&block.start).map(|(at, start)| at.checked_sub(*start)).collect::<Option<_>>()?;
        let left = place.iter().zip(&block.count).map(|(at, count)| count.checked_sub(*at));
        let count: Vec<u64> = left.zip(chunk).map(|(left, chunk)| Some(left?.min(*chunk))).collect::<Option<_>>()?;
        let region = Region::new(offset, count);
        let transfer = Transfer { region: &region, memory: Placed { shape: &block.count, start: &place } };
        // SAFETY: the values are those of the block, in the type of the dataset.
        unsafe { transfer.write(self.host, self.write.dataset, self.values.as_ptr().cast()) }
    }
}

/// Bytes that the chunk at `offset` has in the file; 0 if it is not there.
fn stored(host: &CallerHdf5, dataset: Hid, offset: &[u64]) -> Option<u64> {
    let mut bytes = 0u64;
    // SAFETY: the offset has an extent for each axis; `bytes` is a valid place for the result.
    let done = unsafe { host.chunk_size?(dataset, offset.as_ptr(), &raw mut bytes) };
    // It fails where there is no such chunk.
    Some(if done >= 0 { bytes } else { 0 })
}

/// Whether `H5Dwrite_chunk` does right with a chunk of `len` bytes that skips no filter: if its predecessor, where there
/// is one, skips none and has another size.
fn can_be_stored(host: &CallerHdf5, dataset: Hid, offset: &[u64], len: usize) -> Option<bool> {
    let before = stored(host, dataset, offset)?;
    if before == 0 || u64::try_from(len) == Ok(before) {
        return Some(before == 0);
    }
    let (mut mask, mut place, mut bytes) = (c_uint::MAX, 0u64, 0u64);
    // SAFETY: the offset has an extent for each axis; the places for results are valid.
    let done = unsafe { host.chunk_state?(dataset, offset.as_ptr(), &raw mut mask, &raw mut place, &raw mut bytes) };
    Some(done >= 0 && mask == 0)
}

/// # Safety
/// `context` is the [`Put`] of the call; offset and bytes are as `H5Dwrite_chunk` wants them.
unsafe extern "C" fn put_chunk(
    context: *mut c_void,
    offset: *const u64,
    mask: u32,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let put = unsafe { &*context.cast::<Put<'_>>() };
    // SAFETY: an offset has an extent for each axis.
    let place = unsafe { std::slice::from_raw_parts(offset, put.block.chunk.len()) };
    let Write { dataset, transfer, .. } = *put.write;
    if mask != 0 || can_be_stored(put.host, dataset, place, len) != Some(true) {
        return if put.leave(place).is_some() { 0 } else { -1 };
    }
    let Some(write) = put.host.write_chunk else { return -1 };
    // SAFETY: the caller's promise; the dataset is the program's own.
    unsafe { write(dataset, transfer, mask, offset, len, bytes) }
}

/// All elements of a dataspace.
pub(crate) fn whole(host: &CallerHdf5, space: Hid) -> Option<Selected> {
    let (shape, _) = extents(host, space).ok()?;
    Some(Selected { region: Region::whole(&shape), shape })
}

/// What is selected in a dataspace, if it is a region.
pub(crate) fn select(host: &CallerHdf5, space: Hid) -> Option<Selected> {
    let Selected { shape, region: Region { mut start, mut count } } = whole(host, space)?;
    // SAFETY: the dataspace is the program's own, here and below.
    let kind = unsafe { host.selection_kind?(space) };
    if kind != code::SELECT_HYPERSLABS && kind != code::SELECT_ALL {
        return None;
    }
    // SAFETY: there is a place for each axis. The results are the first and the last element.
    if unsafe { host.selection_bounds?(space, start.as_mut_ptr(), count.as_mut_ptr()) } < 0 {
        return None;
    }
    for ((last, first), extent) in count.iter_mut().zip(&start).zip(&shape) {
        if *last < *first || *last >= *extent {
            return None;
        }
        *last = *last - *first + 1;
    }
    let region = Region { start, count };
    let volume = region.volume()?;
    // SAFETY: as above.
    let selected = unsafe { host.selection_count?(space) };
    (u64::try_from(selected) == Ok(volume)).then_some(Selected { shape, region })
}

/// The pipeline in a creation list.
pub(crate) fn filters(host: &CallerHdf5, list: Hid) -> Option<Vec<Hdf5Filter>> {
    // SAFETY: the list is open, here and below.
    let count = usize::try_from(unsafe { host.filter_count?(list) }).ok().filter(|&count| count <= MOST_FILTERS)?;
    let get = host.filter?;
    (0..c_uint::try_from(count).ok()?)
        .map(|position| {
            let mut words = vec![0; MOST_WORDS];
            let (mut flags, mut len) = (0, words.len());
            // SAFETY: `len` says how much room `words` has; neither name nor configuration are asked for.
            let id = unsafe {
                get(list, position, &raw mut flags, &raw mut len, words.as_mut_ptr(), 0, null_mut(), null_mut())
            };
            if len > words.len() {
                return None;
            }
            words.truncate(len);
            Some(Hdf5Filter { id: id.try_into().ok()?, optional: flags & 1 != 0, cd_values: words })
        })
        .collect()
}

/// Has HDF5 load the filters of a dataset that it finds as plugins. It does so itself when it reads values, but not before the
/// dataset grows, which fails then where space is filled.
pub(crate) fn load_filters(host: &CallerHdf5, dataset: Hid) {
    host.quietly(|host| {
        // SAFETY: the program's own identifier; for what is no dataset HDF5 says that it failed.
        let list = Owned::new(host, unsafe { host.creation_of?(dataset) }, Close::List)?;
        let available = host.filter_available?;
        for filter in filters(host, list.id)? {
            // SAFETY: any number may be asked about.
            c_int::try_from(filter.id).map(|id| unsafe { available(id) }).ok()?;
        }
        Some(())
    });
}

/// Bytes of the element that HDF5 fills chunks with.
pub(crate) fn fill_value(host: &CallerHdf5, list: Hid, datatype: Hid, size: usize) -> Option<Vec<u8>> {
    let mut value = vec![0u8; size];
    let mut status: c_int = 0;
    // SAFETY: the list is open and `status` a valid place for the result.
    if unsafe { host.fill_is_defined?(list, &raw mut status) } < 0 {
        return None;
    }
    if status == code::FILL_USER_DEFINED {
        // SAFETY: the type is open and takes as many bytes as there are.
        let done: Herr = unsafe { host.fill_value?(list, datatype, value.as_mut_ptr().cast()) };
        return (done >= 0).then_some(value);
    }
    Some(value)
}

/// Processors that this thread may run on.
fn processors() -> usize {
    // SAFETY: a set of processors is plain data, and the call fills it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) < 0 {
            return 1;
        }
        usize::try_from(libc::CPU_COUNT(&set)).unwrap_or(1).max(1)
    }
}
