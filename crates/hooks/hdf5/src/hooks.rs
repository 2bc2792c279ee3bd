//! What happens around each call of HDF5. Arguments and results are those of the function, and `caller` the address it
//! returns to.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use knarr_capture::Writers;

use crate::datasets::Write;
use crate::host::{CallerHdf5, Herr, Hid};
use crate::needing::CHUNKS;
use crate::parallel::{Meeting, Opens, RawChunk};
use crate::{files, parallel};
use knarr_captured::guard;

/// `H5F_ACC_RDWR`: without it a file is only read.
const FOR_WRITING: c_uint = 1;
/// What a caller gets whose HDF5 lacks the function, which it could not have called.
const NOTHING: Hid = -1;

/// Bytes of a file name.
///
/// # Safety
/// `name` is null or NUL-terminated, and stays so while the result is used.
unsafe fn bytes<'a>(name: *const c_char) -> &'a [u8] {
    if name.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

/// # Safety
/// As for `H5Fcreate`.
pub(crate) unsafe extern "C" fn file_create(
    name: *const c_char,
    flags: c_uint,
    creation: Hid,
    access: Hid,
    caller: usize,
) -> Hid {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.file_create else { return NOTHING };
    // SAFETY: the caller's own arguments.
    if let Some(id) = guard(None, || unsafe { parallel::create(host, real, name, flags, creation, access) }) {
        return id;
    }
    guard((), || host.prepare());
    // SAFETY: HDF5 wants a NUL-terminated name.
    let meeting = guard(Ok(None), || unsafe { parallel::meet(host, name, Opens::New, access, true) });
    let Ok(meeting) = meeting else { return NOTHING };
    // SAFETY: as above.
    let opening = guard(None, || files::opening(unsafe { bytes(name) }, true));
    // SAFETY: the caller's own arguments.
    let id = knarr_names::opened_by_library(|| unsafe { real(name, flags, creation, access) });
    opened(opening, meeting, id);
    id
}

/// # Safety
/// As for `H5Fopen`.
pub(crate) unsafe extern "C" fn file_open(name: *const c_char, flags: c_uint, access: Hid, caller: usize) -> Hid {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.file_open else { return NOTHING };
    // SAFETY: the caller's own arguments.
    let captured = guard(None, || unsafe {
        parallel::reopened(host, real, name, flags, access)
            .or_else(|| parallel::opened(host, real, name, flags, access))
    });
    if let Some(id) = captured {
        return id;
    }
    let writes = flags & FOR_WRITING != 0;
    // SAFETY: HDF5 wants a NUL-terminated name.
    let may_open = guard(true, || unsafe { knarr_captured::await_named(name, !writes) });
    guard((), || host.prepare());
    let opens = if writes { Opens::Again } else { Opens::ToRead };
    // SAFETY: HDF5 wants a NUL-terminated name.
    let meeting = guard(Ok(None), || unsafe { parallel::meet(host, name, opens, access, may_open) });
    let Ok(meeting) = meeting else { return NOTHING };
    // SAFETY: as above.
    let opening = guard(None, || if writes { files::opening(unsafe { bytes(name) }, false) } else { None });
    // SAFETY: the caller's own arguments.
    let id = knarr_names::opened_by_library(|| unsafe { real(name, flags, access) });
    opened(opening, meeting, id);
    id
}

/// To be called after the call that was to open a file. Collective if ranks have met.
fn opened(opening: Option<files::Opening>, meeting: Option<Meeting>, id: Hid) {
    guard((), || {
        let writers = meeting.as_ref().map_or(Ok(Writers::SameNode), |meeting| meeting.opened(id >= 0));
        if let Some(opening) = opening
            && id >= 0
        {
            opening.opened(id, meeting, writers);
        }
    });
}

/// # Safety
/// As for `H5Fclose`.
pub(crate) unsafe extern "C" fn file_close(id: Hid, caller: usize) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.file_close else { return -1 };
    // SAFETY: the caller's own argument.
    closing(host, Some(id), |result| result >= 0, || unsafe { real(id) })
}

/// # Safety
/// As for `H5Idec_ref`, which closes a file when nobody refers to it any more.
pub(crate) unsafe extern "C" fn release(id: Hid, caller: usize) -> c_int {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.release else { return -1 };
    // SAFETY: the caller's own argument.
    closing(host, Some(id), |left| left == 0, || unsafe { real(id) })
}

/// # Safety
/// As for `H5close`.
pub(crate) unsafe extern "C" fn close_library(caller: usize) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.close_library else { return -1 };
    // SAFETY: no arguments.
    closing(host, None, |_| true, || unsafe { real() })
}

/// Makes a call that may close the file `id`, or all files. `closed` tells from its result whether it did.
fn closing(host: &CallerHdf5, id: Option<Hid>, closed: impl Fn(c_int) -> bool, call: impl Fn() -> c_int) -> c_int {
    let ours = guard(false, || id.map_or_else(files::any, files::has));
    // Its filters are asked for before: afterwards its errors must be those of its own call.
    let filters = guard(None, || ours.then(|| host.filters()));
    let may_end = parallel::any() && guard(false, || id.is_none_or(|id| host.is_file(id)));
    if may_end && let Some(id) = id {
        guard((), || parallel::hand_back_if_nobody_delivers(host, id));
    }
    let result = call();
    match (filters, id) {
        (Some(filters), _) if closed(result) => guard((), || files::closed(id, filters)),
        (Some(_), Some(id)) if result < 0 => guard((), || files::not_closed(id)),
        _ => {}
    }
    // The other ranks wait for this one, also if HDF5 has an error here.
    if may_end && !guard(false, || parallel::ended(host, result < 0)) {
        return -1;
    }
    result
}

/// # Safety
/// As for `H5Dcreate1`.
pub(crate) unsafe extern "C" fn create_1(
    location: Hid,
    name: *const c_char,
    datatype: Hid,
    space: Hid,
    creation: Hid,
    caller: usize,
) -> Hid {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.create_1 else { return NOTHING };
    // SAFETY: the caller's own arguments.
    create(host, location, (datatype, creation), |creation| unsafe { real(location, name, datatype, space, creation) })
}

/// # Safety
/// As for `H5Dcreate2`.
pub(crate) unsafe extern "C" fn create_2(
    location: Hid,
    name: *const c_char,
    datatype: Hid,
    space: Hid,
    links: Hid,
    creation: Hid,
    access: Hid,
    caller: usize,
) -> Hid {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.create_2 else { return NOTHING };
    // SAFETY: the caller's own arguments.
    create(host, location, (datatype, creation), |creation| unsafe {
        real(location, name, datatype, space, links, creation, access)
    })
}

/// # Safety
/// As for `H5Dcreate_anon`.
pub(crate) unsafe extern "C" fn create_unnamed(
    location: Hid,
    datatype: Hid,
    space: Hid,
    creation: Hid,
    access: Hid,
    caller: usize,
) -> Hid {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.create_unnamed else { return NOTHING };
    // SAFETY: the caller's own arguments.
    create(host, location, (datatype, creation), |creation| unsafe {
        real(location, datatype, space, creation, access)
    })
}

/// Creates a dataset with the creation list `list`, or another one if the file is captured.
fn create(host: &CallerHdf5, location: Hid, (datatype, list): (Hid, Hid), create: impl Fn(Hid) -> Hid) -> Hid {
    guard(None, || parallel::creation(host, location, (datatype, list), &create)).unwrap_or_else(|| create(list))
}

/// # Safety
/// As for `H5Dwrite`.
pub(crate) unsafe extern "C" fn write(
    dataset: Hid,
    memory_type: Hid,
    memory: Hid,
    file: Hid,
    transfer: Hid,
    values: *const c_void,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.write else { return -1 };
    if parallel::any() {
        let write = Write { dataset, memory_type, memory, file, transfer, values };
        // SAFETY: the caller's own arguments.
        let plain = || unsafe { real(dataset, memory_type, memory, file, transfer, values) };
        // SAFETY: as above.
        if let Some(result) = guard(Some(-1), || unsafe { parallel::wrote(host, &write, plain) }) {
            return result;
        }
    }
    // SAFETY: the caller's own arguments.
    unsafe { real(dataset, memory_type, memory, file, transfer, values) }
}

/// # Safety
/// As for `H5Dwrite_chunk`.
pub(crate) unsafe extern "C" fn write_chunk(
    dataset: Hid,
    transfer: Hid,
    mask: u32,
    offset: *const u64,
    size: usize,
    bytes: *const c_void,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.write_chunk else { return -1 };
    if !guard(false, || parallel::handed_back(host, dataset, CHUNKS)) {
        return -1;
    }
    let chunk = RawChunk { dataset, mask, offset, size, bytes };
    // SAFETY: the caller's own arguments.
    guard(None, || unsafe { chunk.write(host) })
        .unwrap_or_else(|| unsafe { real(dataset, transfer, mask, offset, size, bytes) })
}
