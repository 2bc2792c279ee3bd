//! What happens around calls of HDF5 on captured files. Arguments and results are those of the function, and `caller` the
//! address it returns to.

use std::ffi::{c_char, c_int, c_uint, c_void};

use knarr_array::comm::barrier;
use knarr_array::error::{Error, ErrorKind};

use super::file::{self, Captured, any};
use super::hand_back::{hand_back, handed_back};
use super::read::get;
use super::transfer::Refused;
use super::values::convert::pointers;
use super::values::order::How;
use super::write::{fill, put};
use crate::datasets::{Write, load_filters};
use crate::host::{CallerHdf5, Herr, Hid};
use crate::property_lists::{Close, Owned, address, copied, object_name};
use knarr_captured::{Values, guard, lock};

const FAILED: Herr = -1;

/// Codes of HDF5's C headers.
mod code {
    pub(super) const DEFAULT_LIST: i64 = 0;
    pub(super) const COLLECTIVE: i32 = 1;
    pub(super) const ALLOCATE_EARLY: i32 = 1;
    pub(super) const ALLOCATE_LATE: i32 = 2;
    pub(super) const ALLOCATE_INCREMENTALLY: i32 = 3;
    pub(super) const CONTIGUOUS: i32 = 1;
    pub(super) const CHUNKED: i32 = 2;
    pub(super) const VIRTUAL: i32 = 3;
}

/// What comes of a transfer.
enum Came {
    /// The call returns this.
    Back(Herr),
    /// HDF5 refuses it, and says why.
    RefusedByHdf5,
    /// HDF5 has the file.
    ByHdf5,
    /// The file is to be handed back first: why.
    IsUnusual(Error),
}

fn outcome(file: &mut Captured, made: Option<Result<(), Refused>>) -> Came {
    match made {
        Some(Ok(())) => Came::Back(0),
        Some(Err(Refused::ByHdf5)) | None => Came::RefusedByHdf5,
        Some(Err(Refused::ByUs(error))) if file.may_be_handed_back() && file.common.failed().is_none() => {
            Came::IsUnusual(error)
        }
        Some(Err(Refused::ByUs(error))) => {
            // HDF5, too, fails a call that it does not serve, and the file is what it was.
            if error.kind() == ErrorKind::Unsupported {
                file.refuse(&error)
            } else {
                file.fail(error)
            }
            Came::Back(FAILED)
        }
    }
}

/// Hands a file back, so that HDF5 makes the call: `None`.
fn by_hdf5(host: &CallerHdf5, file: &file::Shared, object: Hid, why: Error) -> Option<Herr> {
    let error = hand_back(host, file, object, &why.to_string()).err()?;
    let mut file = lock(file);
    file.refuse(&error);
    // What was put without an error stays, and the file is not what the program takes it for.
    if why.kind() != ErrorKind::Unsupported {
        file.fail(why);
    }
    Some(FAILED)
}

/// True if HDF5 itself writes and reads the values of a dataset.
fn is_in_header(host: &CallerHdf5, file: &file::Shared, dataset: Hid) -> bool {
    let file = lock(file);
    host.quietly(|host| file.is_in_header(host, dataset)).unwrap_or(false)
}

/// Calls HDF5 for its own error. If it makes the call anyway, that is made again in the file as it is without Knarr: `None`.
fn refused(
    host: &CallerHdf5,
    file: &file::Shared,
    (object, reads): (Hid, bool),
    real: impl FnOnce() -> Herr,
) -> Option<Herr> {
    if real() < 0 {
        return Some(FAILED);
    }
    let why = Error::unsupported("a selection or a type that only HDF5 understands")
        .hint("leave the file out of the rules, or select elements inside of the dataset");
    let may_be = {
        let file = lock(file);
        file.may_be_handed_back() && file.common.failed().is_none()
    };
    if may_be {
        return by_hdf5(host, file, object, why);
    }
    // Nothing that was put is lost by a read.
    if reads {
        lock(file).refuse(&why);
    } else {
        lock(file).fail(why);
    }
    Some(FAILED)
}

/// Writes to a captured file. `None` if the dataset is in none.
///
/// # Safety
/// The arguments are those of `H5Dwrite`; `real` is that function.
pub(crate) unsafe fn wrote(host: &CallerHdf5, asked: &Write, real: impl FnOnce() -> Herr) -> Option<Herr> {
    // SAFETY: the caller's promise.
    unsafe { written(host, asked, Which { at: 0, of: 1 }, real) }
}

/// One of the datasets of a call.
#[derive(Clone, Copy)]
struct Which {
    at: usize,
    of: usize,
}

/// As [`wrote`], for one of the datasets of a call for several.
///
/// # Safety
/// As for [`wrote`].
unsafe fn written(host: &CallerHdf5, asked: &Write, which: Which, real: impl FnOnce() -> Herr) -> Option<Herr> {
    let file = file::of(host, asked.dataset)?;
    if is_in_header(host, &file, asked.dataset) {
        return Some(real());
    }
    let how = how(host, asked.transfer);
    let came = lock(&file).timed(|file| {
        if file.is_handed_back() {
            return Came::ByHdf5;
        }
        if which.at == 0 && how == How::Collective {
            file.order.calls();
        }
        // SAFETY: the caller's promise.
        let made = host.quietly(|host| unsafe { put(host, file, (asked, how)) });
        outcome(file, made)
    });
    let code = match came {
        Came::Back(code) => code,
        Came::RefusedByHdf5 => refused(host, &file, (asked.dataset, false), real)?,
        Came::ByHdf5 => return None,
        Came::IsUnusual(why) => return by_hdf5(host, &file, asked.dataset, why),
    };
    // HDF5 is asked nothing any more: it would forget its error.
    if which.at + 1 == which.of && how == How::Collective {
        lock(&file).wrote_collectively();
    }
    Some(code)
}

/// # Safety
/// As for `H5Dread`.
pub(crate) unsafe extern "C" fn read(
    dataset: Hid,
    memory_type: Hid,
    memory: Hid,
    file: Hid,
    transfer: Hid,
    values: *mut c_void,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.read else { return FAILED };
    // SAFETY: the caller's own arguments.
    let plain = || unsafe { real(dataset, memory_type, memory, file, transfer, values) };
    if !any() {
        return plain();
    }
    let asked = Write { dataset, memory_type, memory, file, transfer, values };
    // SAFETY: as above.
    guard(Some(FAILED), || unsafe { fetched(host, &asked, 0, values) }).unwrap_or_else(plain)
}

/// Reads from a captured file, for the dataset of number `at` in a call for several. `None` if the dataset is in none.
///
/// # Safety
/// The arguments are those of `H5Dread`.
unsafe fn fetched(host: &CallerHdf5, asked: &Write, at: usize, values: *mut c_void) -> Option<Herr> {
    let file = file::of(host, asked.dataset)?;
    let real = host.read?;
    let Write { dataset, memory_type, memory, file: selected, transfer, .. } = *asked;
    // SAFETY: the caller's promise.
    let plain = || unsafe { real(dataset, memory_type, memory, selected, transfer, values) };
    if is_in_header(host, &file, dataset) {
        return Some(plain());
    }
    let how = how(host, asked.transfer);
    let came = lock(&file).timed(|file| {
        if file.is_handed_back() {
            return Came::ByHdf5;
        }
        if !file.common.is_incoming() && how == How::Collective {
            if at == 0 {
                file.order.calls();
            }
            // What others have put before is there when they are here.
            if let Err(error) = barrier(file.common.ranks.comm()) {
                file.fail(error);
                return Came::Back(FAILED);
            }
        }
        if how == How::Independent {
            file.await_collective_writes();
        }
        let last = file.order.seen(how);
        // SAFETY: the caller's promise.
        let made = host.quietly(|host| unsafe { get(host, file, (asked, last), values) });
        match made {
            // Nothing that was put is lost by that.
            Some(Err(Refused::ByUs(error))) if !file.may_be_handed_back() => {
                file.refuse(&error);
                if let (Values::ReadSession(incoming), true) =
                    (&file.common.values, error.kind() != ErrorKind::Unsupported)
                {
                    let name = host.quietly(|host| object_name(host, dataset)).flatten().unwrap_or_default();
                    incoming.failed(&format!("dataset '{name}': {error}"));
                }
                Came::Back(FAILED)
            }
            made => outcome(file, made),
        }
    });
    match came {
        Came::Back(code) => Some(code),
        Came::RefusedByHdf5 => refused(host, &file, (dataset, true), plain),
        Came::ByHdf5 => None,
        Came::IsUnusual(why) => by_hdf5(host, &file, dataset, why),
    }
}

/// How a transfer list has values written or read.
fn how(host: &CallerHdf5, transfer: Hid) -> How {
    let mut mode: c_int = 0;
    // SAFETY: the list is the program's own, and `mode` a valid place for the result.
    let mut asked = || host.quietly(|host| host.is_collective.map(|get| unsafe { get(transfer, &raw mut mode) }));
    let is_collective = transfer != code::DEFAULT_LIST && asked().is_some() && mode == code::COLLECTIVE;
    if is_collective { How::Collective } else { How::Independent }
}

/// # Safety
/// As for `H5Dwrite_multi`.
pub(crate) unsafe extern "C" fn write_many(
    count: usize,
    datasets: *const Hid,
    types: *const Hid,
    memory: *const Hid,
    files: *const Hid,
    transfer: Hid,
    values: *const *const c_void,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.write_many else { return FAILED };
    // SAFETY: the caller's own arguments.
    let plain = || unsafe { real(count, datasets, types, memory, files, transfer, values) };
    if !any() || datasets.is_null() {
        return plain();
    }
    let each = (0..count).map(|at| {
        // SAFETY: as above: each array has as many entries as are said.
        unsafe {
            let asked = Write {
                dataset: *datasets.add(at),
                memory_type: *types.add(at),
                memory: *memory.add(at),
                file: *files.add(at),
                transfer,
                values: *values.add(at),
            };
            let one = || {
                let Write { dataset, memory_type, memory, file, transfer, values } = asked;
                host.write.map_or(FAILED, |write| write(dataset, memory_type, memory, file, transfer, values))
            };
            guard(Some(FAILED), || written(host, &asked, Which { at, of: count }, one))
        }
    });
    together(each, plain)
}

/// # Safety
/// As for `H5Dread_multi`.
pub(crate) unsafe extern "C" fn read_many(
    count: usize,
    datasets: *const Hid,
    types: *const Hid,
    memory: *const Hid,
    files: *const Hid,
    transfer: Hid,
    values: *const *mut c_void,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.read_many else { return FAILED };
    // SAFETY: the caller's own arguments.
    let plain = || unsafe { real(count, datasets, types, memory, files, transfer, values) };
    if !any() || datasets.is_null() {
        return plain();
    }
    let each = (0..count).map(|at| {
        // SAFETY: as above: each array has as many entries as are said.
        unsafe {
            let buffer = *values.add(at);
            let asked = Write {
                dataset: *datasets.add(at),
                memory_type: *types.add(at),
                memory: *memory.add(at),
                file: *files.add(at),
                transfer,
                values: buffer,
            };
            guard(Some(FAILED), || fetched(host, &asked, at, buffer))
        }
    });
    together(each, plain)
}

/// A call for several datasets, which HDF5 wants in one file: `plain` if that is not captured.
fn together(each: impl Iterator<Item = Option<Herr>>, plain: impl FnOnce() -> Herr) -> Herr {
    // A file that was handed back meanwhile is HDF5's: it makes the call for all of them, also for those that were put before.
    let all: Option<Vec<Herr>> = each.collect();
    all.and_then(|all| all.into_iter().min()).unwrap_or_else(plain)
}

/// Creates a dataset in a captured file. `None` if it is in none.
pub(crate) fn creation(
    host: &CallerHdf5,
    location: Hid,
    (datatype, list): (Hid, Hid),
    create: impl Fn(Hid) -> Hid,
) -> Option<Hid> {
    let file = file::of(host, location)?;
    let may_be_handed_back = lock(&file).may_be_handed_back();
    if let Some(what) = unusual(host, (datatype, list), may_be_handed_back) {
        // Without values in the header, nobody could tell what the dataset has.
        return if handed_back(host, location, what) { None } else { Some(-1) };
    }
    // Parallel HDF5 has room for all values early, and the program may ask for it. The header has none.
    let late = host.quietly(|_| without_room(host, list)).flatten();
    let id = create(late.as_ref().map_or(list, |late| late.id));
    if id >= 0 {
        let mut file = lock(&file);
        let found = host.quietly(|host| Some((address(host, id)?[0], object_name(host, id)))).flatten();
        match found {
            Some((address, name)) => {
                file.order.calls();
                file.header.created(address, name.as_deref());
            }
            None => file.fail(Error::internal("HDF5 does not tell where a dataset is")),
        }
    }
    Some(id)
}

/// What is unusual about a dataset that is created by this list, if its values cannot be handed over, or should not be: of a file that
/// may be handed back.
fn unusual(host: &CallerHdf5, (datatype, list): (Hid, Hid), may_be_handed_back: bool) -> Option<&'static str> {
    if list == code::DEFAULT_LIST {
        return None;
    }
    // SAFETY: the list is the program's own, here and below.
    let layout = host.quietly(|host| host.layout.map(|layout| unsafe { layout(list) })).flatten();
    if layout == Some(code::VIRTUAL) {
        return Some("a virtual dataset, whose values are those of other datasets");
    }
    if !may_be_handed_back {
        return None;
    }
    // SAFETY: as above.
    let external = host.quietly(|host| host.external_count.map_or(0, |count| unsafe { count(list) })).unwrap_or(0);
    if external > 0 {
        return Some("a dataset whose values are in other files (H5Pset_external)");
    }
    let has_other = |known: &[u32]| host.quietly(|host| has_other_filters(host, list, known)).unwrap_or(false);
    if has_other(&EXACT) {
        return Some("a dataset with a filter of the program that may change values");
    }
    let is_of_pointers = || host.quietly(|host| pointers(host, datatype)).flatten().is_some();
    (has_other(&OWN) && is_of_pointers())
        .then_some("a dataset of variable length with a filter that is not one of HDF5's own")
}

/// Filters that every HDF5 has. What is of variable length HDF5 itself copies into the file that is made, in a process that has no others.
const OWN: [u32; 4] = [1, 2, 3, 5];

/// Filters that give back what they got (HDF5's own but for scale-offset, and registered ones). A dataset with others is smaller
/// than what the program writes, for a reason that Knarr does not know.
const EXACT: [u32; 12] = [1, 2, 3, 4, 5, 307, 32000, 32001, 32004, 32008, 32015, 32026];

/// To be asked quietly.
fn has_other_filters(host: &CallerHdf5, list: Hid, known: &[u32]) -> bool {
    // SAFETY: the list is the program's own, here and below.
    let count = host.filter_count.map_or(0, |count| unsafe { count(list) });
    (0..count.max(0).cast_unsigned()).any(|at| {
        let (mut flags, mut values) = (0, 0usize);
        let null = std::ptr::null_mut();
        // SAFETY: there are places for the flags and for no values; names are not asked for.
        let found = host.filter.map_or(-1, |get| unsafe {
            get(list, at, &raw mut flags, &raw mut values, std::ptr::null_mut(), 0, std::ptr::null_mut(), null)
        });
        u32::try_from(found).is_ok_and(|id| !known.contains(&id))
    })
}

/// A creation list with which room is made late, if `list` would make it early.
fn without_room<'h>(host: &'h CallerHdf5, list: Hid) -> Option<Owned<'h>> {
    if list == code::DEFAULT_LIST {
        return None;
    }
    let mut time: c_int = 0;
    // SAFETY: the list is the program's own, and `time` a valid place for the result.
    let (layout, done) = unsafe { (host.layout?(list), host.allocation_time?(list, &raw mut time)) };
    let later = match layout {
        code::CONTIGUOUS => code::ALLOCATE_LATE,
        code::CHUNKED => code::ALLOCATE_INCREMENTALLY,
        _ => return None,
    };
    if done < 0 || time != code::ALLOCATE_EARLY {
        return None;
    }
    let copy = Owned::new(host, copied(host, list, &host.creation_class).ok()?, Close::List)?;
    // SAFETY: the list is ours.
    (unsafe { host.set_allocation_time?(copy.id, later) } >= 0).then_some(copy)
}

/// # Safety
/// As for `H5Dset_extent`.
pub(crate) unsafe extern "C" fn set_extent(dataset: Hid, shape: *const u64, caller: usize) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.set_extent else { return FAILED };
    let file = if any() { guard(None, || file::of(host, dataset)) } else { None };
    let Some(file) = file else {
        guard((), || load_filters(host, dataset));
        // SAFETY: the caller's own arguments.
        return unsafe { real(dataset, shape) };
    };
    guard((), || lock(&file).order.calls());
    let before = guard(None, || extent(host, dataset));
    // SAFETY: as above.
    let result = unsafe { real(dataset, shape) };
    let after = guard(None, || extent(host, dataset));
    if result >= 0
        && let (Some(before), Some(after)) = (before, after)
        && before.iter().zip(&after).any(|(before, after)| after < before)
    {
        guard((), || cut(host, &file, dataset, (&before, &after)));
    }
    result
}

/// A dataset was made smaller. What was cut off is not there if it grows again: fill values are.
fn cut(host: &CallerHdf5, shared: &file::Shared, dataset: Hid, (before, after): (&[u64], &[u64])) {
    let mut file = lock(shared);
    // What other ranks have put before comes before, and what they put then comes then.
    let done = barrier(file.common.ranks.comm()).and_then(|()| match file.common.ranks.comm().rank() {
        0 => host.quietly(|host| fill(host, &mut file, dataset, before, after)).unwrap_or(Ok(())),
        _ => Ok(()),
    });
    let Err(error) = done.and_then(|()| barrier(file.common.ranks.comm())) else { return };
    if !file.may_be_handed_back() {
        return file.fail(error);
    }
    drop(file);
    // HDF5 knows where the dataset ends, and leaves out what lay behind.
    if hand_back(host, shared, dataset, &error.to_string()).is_err() {
        lock(shared).fail(error);
    }
}

fn extent(host: &CallerHdf5, dataset: Hid) -> Option<Vec<u64>> {
    host.quietly(|host| {
        // SAFETY: the dataset is the program's own; the dataspace is closed when dropped.
        let space = Owned::new(host, unsafe { host.space_of?(dataset) }, Close::Reference)?;
        super::values::selection::shape(host, space.id)
    })
    .flatten()
}

/// # Safety
/// As for `H5Fget_name`.
pub(crate) unsafe extern "C" fn file_name(object: Hid, name: *mut c_char, room: usize, caller: usize) -> isize {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.file_name else { return -1 };
    let named = guard(None, || file::named(host, object).map(|file| lock(&file).common.named.clone()));
    let Some(named) = named else {
        // SAFETY: the caller's own arguments.
        return unsafe { real(object, name, room) };
    };
    if !name.is_null() && room > 0 {
        let len = named.len().min(room - 1);
        // SAFETY: the program has so much room.
        unsafe {
            std::ptr::copy_nonoverlapping(named.as_ptr().cast(), name, len);
            name.add(len).write(0);
        }
    }
    named.len().try_into().unwrap_or(-1)
}

/// # Safety
/// As for `H5Fget_access_plist`.
pub(crate) unsafe extern "C" fn access_list(file: Hid, caller: usize) -> Hid {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.file_access else { return -1 };
    let shown = guard(None, || {
        let kept = file::of(host, file).map(|file| lock(&file).access).filter(|kept| *kept >= 0)?;
        // SAFETY: the list is ours.
        Some(unsafe { host.copy_list?(kept) })
    });
    // SAFETY: the caller's own argument.
    shown.unwrap_or_else(|| unsafe { real(file) })
}

/// # Safety
/// As for `H5Fget_mpi_atomicity`.
pub(crate) unsafe extern "C" fn atomicity(file: Hid, is_atomic: *mut u8, caller: usize) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.atomicity else { return FAILED };
    let known = guard(None, || file::of(host, file).map(|file| lock(&file).order.is_atomic()));
    // SAFETY: the program's place for the result.
    match (known, unsafe { is_atomic.as_mut() }) {
        (Some(known), Some(place)) => {
            *place = u8::from(known);
            0
        }
        // SAFETY: the caller's own arguments.
        _ => unsafe { real(file, is_atomic) },
    }
}

/// # Safety
/// As for `H5Fset_mpi_atomicity`.
pub(crate) unsafe extern "C" fn set_atomicity(file: Hid, is_atomic: c_uint, caller: usize) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.set_atomicity else { return FAILED };
    let captured = guard(None, || file::of(host, file));
    let Some(captured) = captured else {
        // SAFETY: the caller's own arguments.
        return unsafe { real(file, is_atomic) };
    };
    guard(FAILED, || {
        lock(&captured).order.set_atomic(is_atomic & 1 != 0);
        0
    })
}

/// # Safety
/// As for `H5Fflush`.
pub(crate) unsafe extern "C" fn flush(object: Hid, scope: c_int, caller: usize) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.flush else { return FAILED };
    let captured = if any() { guard(None, || file::of(host, object)) } else { None };
    if let Some(file) = &captured {
        guard((), || lock(file).order.calls());
    }
    // SAFETY: the caller's own arguments.
    let flushed = unsafe { real(object, scope) };
    if let Some(file) = captured {
        guard((), || {
            let mut file = lock(&file);
            file.is_flushed = flushed >= 0;
            if file.is_flushed && file.may_be_kept() {
                file.header.flushed();
            }
        });
    }
    flushed
}

/// # Safety
/// As for `H5Ocopy`.
pub(crate) unsafe extern "C" fn copy_object(
    from: Hid,
    from_name: *const c_char,
    to: Hid,
    to_name: *const c_char,
    copying: Hid,
    links: Hid,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.copy_object else { return FAILED };
    let what = "objects are copied from or to the file (H5Ocopy), and with them values that are not there";
    if any() && !guard(false, || [from, to].iter().all(|object| handed_back(host, *object, what))) {
        return FAILED;
    }
    // SAFETY: the caller's own arguments.
    unsafe { real(from, from_name, to, to_name, copying, links) }
}
