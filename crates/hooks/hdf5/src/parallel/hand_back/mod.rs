//! Handing a captured file back to the program's HDF5: everything that was put is written through that library into the file
//! that the program asked for, and the program goes on as if without Knarr.
//!
//! The header of such a file lies beside the file, so HDF5 writes the values into it, and it gets the name of the file. HDF5 goes
//! on with the file that it has open. Files of MPI's ranks stay captured: each rank has a header of its own, and these cannot
//! become one file.

pub(in crate::parallel) mod named;
pub(crate) mod needs;
pub(in crate::parallel) mod raw_chunk;

use std::ffi::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::Region;
use knarr_capture::{Event, Writers};
use knarr_captured::{Values, await_delivery, lock, notify};
use knarr_handover::{Put, replay};

use super::file::{self, Captured, Shared};
use super::values::selection::shape;
use crate::host::{CallerHdf5, Herr, Hid};
use crate::property_lists::{Close, Owned, address, file_name};

/// Codes of HDF5's C headers.
mod code {
    pub(super) const ALL: i64 = 0;
    pub(super) const DEFAULT_LIST: i64 = 0;
    pub(super) const THIS_FILE: i32 = 0;
    pub(super) const INDEX_BY_NAME: i32 = 0;
    pub(super) const NATIVE_ORDER: i32 = 2;
    /// `H5O_INFO_BASIC`; releases that are older than fields of an object take no notice of it.
    pub(super) const BASIC: u32 = 1;
    /// `H5I_DATASET`.
    pub(super) const DATASET: i32 = 5;
    /// `H5F_OBJ_DATASET`.
    pub(super) const OPEN_DATASETS: u32 = 2;
    /// `H5S_SELECT_SET`.
    pub(super) const SET: i32 = 0;
}

/// To be called before HDF5 does something to `object` that needs the values in the file: hands the file back that holds it, if it is
/// captured. False if that cannot be, and the reason was told.
pub(crate) fn handed_back(host: &CallerHdf5, object: Hid, why: &str) -> bool {
    let Some(file) = file::of(host, object) else { return true };
    match hand_back(host, &file, object, why) {
        Ok(()) => true,
        Err(error) => {
            lock(&file).refuse(&error);
            false
        }
    }
}

/// As [`handed_back`], before HDF5 is asked something of which the header alone knows no more than that there are no values. A file
/// that stays captured answers so.
pub(crate) fn handed_back_if_can_be(host: &CallerHdf5, object: Hid, why: &str) {
    if let Some(file) = file::of(host, object).filter(|file| lock(file).may_be_handed_back()) {
        // The reason is told.
        if let Err(error) = hand_back(host, &file, object, why) {
            lock(&file).refuse(&error);
        }
    }
}

/// To be called before HDF5 closes a file: nobody makes a file of what was put if the launcher is gone, so HDF5 writes it.
pub(crate) fn hand_back_if_nobody_delivers(host: &CallerHdf5, file: Hid) {
    let is_meant = || file::of(host, file).is_some_and(|file| lock(&file).may_be_handed_back());
    if is_meant() && knarr_capture::program::run().is_some_and(|run| !run.is_alive()) {
        handed_back_if_can_be(host, file, "the launcher is gone, and nobody would make the file");
    }
}

/// Hands a file back, of which `object` is one that is open. What was put stays in the spool until HDF5 has all of it.
///
/// # Errors
/// `Unsupported` for a file that cannot be handed back. `Write` if HDF5 cannot write it: nothing is lost, and it stays captured.
pub(super) fn hand_back(host: &CallerHdf5, file: &Shared, object: Hid, why: &str) -> Result<()> {
    let mut captured = lock(file);
    if captured.is_handed_back() {
        return Ok(());
    }
    if !captured.may_be_handed_back() {
        let leave_out = "leave the file out of the rules, or give its rule when = \"close\"";
        return Err(Error::unsupported(why).hint(leave_out));
    }
    if let Some(error) = captured.common.failed() {
        return Err(error.clone());
    }
    let identity = captured.timed(|captured| {
        let quietly = host.quietly(|host| give(host, captured, object));
        quietly.unwrap_or_else(|| Err(Error::internal("HDF5 cannot be asked")))
    })?;
    captured.common.values = Values::Elsewhere;
    captured.handed_back = Some(identity);
    file::hand_back(captured.header.path());
    captured.common.forget();
    let path = captured.common.target.clone();
    notify(Event::NotHandedOver { path: path.clone(), why: why.to_owned() });
    notify(Event::Opened { path, created: true, writers: Writers::SameNode });
    Ok(())
}

/// Returns the device and the inode of the file. To be asked quietly.
fn give(host: &CallerHdf5, captured: &Captured, object: Hid) -> Result<(u64, u64)> {
    let unknown = || Error::internal("HDF5 does not tell what it has open");
    // SAFETY: the object is the program's own; the identifier is closed when dropped.
    let file = host.file_of.and_then(|get| Owned::new(host, unsafe { get(object) }, Close::Reference));
    let file = file.ok_or_else(unknown)?;
    // SAFETY: the file is open.
    if host.flush.is_none_or(|flush| unsafe { flush(file.id, code::THIS_FILE) } < 0) {
        return Err(Error::internal("HDF5 does not write its header"));
    }
    let datasets = Datasets::of(host, file.id, captured);
    for held in captured.common.rank_values() {
        replay(&held, |put, piece, values| match datasets.numbered(put.variable) {
            // SAFETY: the values are those of the piece.
            Some(dataset) => unsafe { write(host, dataset, (put, piece), values) },
            // It was removed, and what was put into it with it.
            None => Ok(()),
        })?;
    }
    // SAFETY: as above.
    if host.flush.is_none_or(|flush| unsafe { flush(file.id, code::THIS_FILE) } < 0) {
        return Err(Error::new(ErrorKind::Write, "HDF5 does not write the file that it was handed back"));
    }
    let target = &captured.common.target;
    // An older version that comes later would find a newer file.
    await_delivery(target);
    captured.header.becomes(target).map_err(|error| Error::write(target, &error))
}

/// The datasets of a file that are open.
struct Datasets<'h> {
    host: &'h CallerHdf5,
    captured: &'h Captured,
    found: std::collections::HashMap<u32, Hid>,
    /// Those that were opened here.
    opened: Vec<Owned<'h>>,
}

impl<'h> Datasets<'h> {
    /// All that the groups of a file lead to, and those that the program has open: these may have no name yet, or no more.
    fn of(host: &'h CallerHdf5, file: Hid, captured: &'h Captured) -> Self {
        let mut found = Self { host, captured, found: Default::default(), opened: Vec::new() };
        for dataset in found.open_ones(file).unwrap_or_default() {
            found.is_one(dataset);
        }
        let visit = host.visit_3.or(host.visit_2).or(host.visit_1).or(host.visit);
        if let Some(visit) = visit {
            let data = (&raw mut found).cast::<c_void>();
            // SAFETY: the file is open. `seen` gets what it expects, as long as this call lasts.
            unsafe { visit(file, code::INDEX_BY_NAME, code::NATIVE_ORDER, Some(seen), data, code::BASIC) };
        }
        found
    }

    fn open_ones(&self, file: Hid) -> Option<Vec<Hid>> {
        // SAFETY: the file is open.
        let count = usize::try_from(unsafe { self.host.open_count?(file, code::OPEN_DATASETS) }).ok()?;
        let mut all = vec![-1; count];
        // SAFETY: there is a place for each of them.
        let got = unsafe { self.host.open_ones?(file, code::OPEN_DATASETS, count, all.as_mut_ptr()) };
        all.truncate(usize::try_from(got).ok()?);
        Some(all)
    }

    /// Notes a dataset. True if it was not known.
    fn is_one(&mut self, dataset: Hid) -> bool {
        let number = address(self.host, dataset).and_then(|address| self.captured.header.number(address[0]));
        match number.map(|number| self.found.entry(number)) {
            Some(std::collections::hash_map::Entry::Vacant(place)) => {
                place.insert(dataset);
                true
            }
            _ => false,
        }
    }

    fn numbered(&self, number: u32) -> Option<Hid> {
        self.found.get(&number).copied()
    }
}

/// Called by HDF5 for each object.
unsafe extern "C" fn seen(group: Hid, name: *const c_char, _: *const c_void, data: *mut c_void) -> Herr {
    // SAFETY: this is what `Datasets::of` gave HDF5.
    let found = unsafe { &mut *data.cast::<Datasets<'_>>() };
    let host = found.host;
    // SAFETY: HDF5's own arguments; what is opened is closed when dropped.
    let object = host.open_object.and_then(|open| Owned::new(host, unsafe { open(group, name, 0) }, Close::Reference));
    // SAFETY: any number may be asked about.
    let is_dataset = |id| host.kind_of.is_some_and(|kind| unsafe { kind(id) } == code::DATASET);
    if let Some(object) = object.filter(|object| is_dataset(object.id))
        && found.is_one(object.id)
    {
        found.opened.push(object);
    }
    0
}

/// Writes a piece of a put into its dataset, as far as that reaches: it may have been cut since.
///
/// # Safety
/// The values are those of the piece.
unsafe fn write(host: &CallerHdf5, dataset: Hid, (put, piece): (&Put, &Region), values: &[u8]) -> Result<()> {
    let unknown = || Error::internal("HDF5 does not tell what a dataset is");
    // SAFETY: the dataset is open; what is made is closed when dropped, here and below.
    let space = host.space_of.and_then(|get| Owned::new(host, unsafe { get(dataset) }, Close::Reference));
    let space = space.ok_or_else(unknown)?;
    // SAFETY: as above.
    let datatype = host.type_of.and_then(|get| Owned::new(host, unsafe { get(dataset) }, Close::Reference));
    let datatype = datatype.ok_or_else(unknown)?;
    let shape = shape(host, space.id).ok_or_else(unknown)?;
    if shape.len() != piece.start.len() {
        return Err(unknown());
    }
    let stride = |axis: usize| put.stride.get(axis).copied().unwrap_or(1);
    let reaches = |axis: usize| match shape[axis].checked_sub(piece.start[axis]) {
        None | Some(0) => 0,
        Some(behind) => piece.count[axis].min((behind - 1) / stride(axis) + 1),
    };
    let count: Vec<u64> = (0..shape.len()).map(reaches).collect();
    if count.contains(&0) {
        return Ok(());
    }
    let stride: Vec<u64> = (0..shape.len()).map(stride).collect();
    let memory =
        select(host, &piece.count, (&vec![0; shape.len()], &vec![1; shape.len()], &count)).ok_or_else(unknown)?;
    let selected = if shape.is_empty() { Some(()) } else { hyperslab(host, space.id, (&piece.start, &stride, &count)) };
    selected.ok_or_else(unknown)?;
    let (memory, selected) = match &memory {
        Some(memory) => (memory.id, space.id),
        None => (code::ALL, code::ALL),
    };
    let transfer = code::DEFAULT_LIST;
    let whole;
    let values = if put.parts.is_empty() {
        values
    } else {
        let elements = piece.volume().and_then(|count| usize::try_from(count).ok()).ok_or_else(unknown)?;
        let mut all = vec![0u8; elements * put.dtype.size()];
        let into = all.as_mut_ptr().cast();
        // SAFETY: there is room for all elements of the piece.
        if unsafe { host.read.ok_or_else(unknown)?(dataset, datatype.id, memory, selected, transfer, into) } < 0 {
            return Err(Error::new(ErrorKind::Read, "HDF5 does not read what it has written"));
        }
        overlay(put, &mut all, values);
        whole = all;
        &whole
    };
    // SAFETY: the caller's promise; the type in memory is that of the dataset, as which values were put.
    if unsafe {
        host.write.ok_or_else(unknown)?(dataset, datatype.id, memory, selected, transfer, values.as_ptr().cast())
    } < 0
    {
        return Err(Error::new(ErrorKind::Write, "HDF5 does not write what was handed over"));
    }
    Ok(())
}

/// Replaces the bytes of elements that a put has.
fn overlay(put: &Put, elements: &mut [u8], values: &[u8]) {
    let width = put.parts.iter().map(|part| part.len as usize).sum::<usize>().max(1);
    for (element, mut values) in elements.chunks_exact_mut(put.dtype.size().max(1)).zip(values.chunks_exact(width)) {
        for part in &put.parts {
            let (at, len) = (part.at as usize, part.len as usize);
            if let (Some(place), Some((some, rest))) = (element.get_mut(at..at + len), values.split_at_checked(len)) {
                place.copy_from_slice(some);
                values = rest;
            }
        }
    }
}

/// A dataspace of this shape with a selection. The inner `None` is for a single value.
#[expect(clippy::option_option, reason = "no dataspace is needed, or none can be had")]
pub(super) fn select<'h>(
    host: &'h CallerHdf5,
    shape: &[u64],
    selection: (&[u64], &[u64], &[u64]),
) -> Option<Option<Owned<'h>>> {
    if shape.is_empty() {
        return Some(None);
    }
    let rank = c_int::try_from(shape.len()).ok()?;
    // SAFETY: there are as many extents as are said; without largest ones they stay. It is closed when dropped.
    let space = Owned::new(host, unsafe { host.new_space?(rank, shape.as_ptr(), std::ptr::null()) }, Close::Reference)?;
    hyperslab(host, space.id, selection)?;
    Some(Some(space))
}

pub(super) fn hyperslab(host: &CallerHdf5, space: Hid, (start, stride, count): (&[u64], &[u64], &[u64])) -> Option<()> {
    let block = std::ptr::null();
    // SAFETY: each has a number for each axis of the dataspace; blocks are single elements.
    let done =
        unsafe { host.select_hyperslab?(space, code::SET, start.as_ptr(), stride.as_ptr(), count.as_ptr(), block) };
    (done >= 0).then_some(())
}

/// Hands back the captured file `file` before the program does something with its name, if HDF5 is not busy with it. The call then
/// finds what it would find without Knarr.
pub(super) fn hand_back_by_name(file: &Shared) {
    const WHY: &str = "the program uses the name of the file while it has it open";
    // A thread that has it may be in HDF5, and wait for this one there.
    let Some((host, header)) = file.try_lock().ok().and_then(|file| Some((file.host?, file.header.path().to_owned())))
    else {
        return;
    };
    let object = host.quietly(|host| object_of(host, &header)).flatten();
    // What cannot be handed back has no file of its name, and the program is told so.
    if let Some(object) = object
        && let Err(error) = hand_back(host, file, object, WHY)
    {
        lock(file).refuse(&error);
    }
}

/// Anything that is open of the file whose header is this one.
fn object_of(host: &CallerHdf5, header: &Path) -> Option<Hid> {
    /// `H5F_OBJ_ALL`, of all files.
    const EVERYWHERE: Hid = 0x1f;
    const ALL_KINDS: u32 = 0x1f;
    // SAFETY: asks about all files.
    let count = usize::try_from(unsafe { host.open_count?(EVERYWHERE, ALL_KINDS) }).ok()?;
    let mut all = vec![-1; count];
    // SAFETY: there is a place for each of them.
    let got = usize::try_from(unsafe { host.open_ones?(EVERYWHERE, ALL_KINDS, count, all.as_mut_ptr()) }).ok()?;
    let header = header.as_os_str().as_bytes();
    all.get(..got)?.iter().copied().find(|object| file_name(host, *object).is_some_and(|name| name == header))
}
