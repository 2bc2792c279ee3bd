//! What happens around each call of HDF5. Arguments and results are those of the function, and `caller` the address it
//! returns to.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;

use knarr_capture::{Change, Event, Given, Writers};

use crate::direct::Chunk;
use crate::given::{Dataset, Gift};
use crate::guard::guard;
use crate::host::{CallerHdf5, Herr, Hid, Visit};
use crate::lists::{Lists, Request};
use crate::parallel::{Meeting, Opens};
use crate::shown::{Reading, Visitor};
use crate::whole::Write;
use crate::{across, files, given, lists, parallel, shown};
use knarr_capture::program::{self as run, Run};

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
    let id = unsafe { real(name, flags, creation, access) };
    opened(opening, meeting, id);
    if id >= 0 {
        // SAFETY: as above.
        guard((), || given::file_created(unsafe { bytes(name) }));
    }
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
    // SAFETY: HDF5 wants a NUL-terminated name.
    let may_open = guard(true, || unsafe { parallel::await_named(name) });
    guard((), || host.prepare());
    let writes = flags & FOR_WRITING != 0;
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
        let writers = meeting.as_ref().map_or(Ok(Writers::Near), |meeting| meeting.opened(id >= 0));
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
    let result = closing(host, None, |_| true, || unsafe { real() });
    guard((), || given::library_closed(host));
    result
}

/// Makes a call that may close the file `id`, or all files. `closed` tells from its result whether it did.
fn closing(host: &CallerHdf5, id: Option<Hid>, closed: impl Fn(c_int) -> bool, call: impl Fn() -> c_int) -> c_int {
    let ours = guard(false, || id.map_or_else(files::any, files::has));
    // Its filters are asked for before: afterwards its errors must be those of its own call.
    let filters = guard(None, || ours.then(|| host.filters()));
    let may_end = parallel::any() && guard(false, || id.is_none_or(|id| host.is_file(id)));
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
    let request = Request { location, name, datatype, space, creation, access: 0 };
    // Its modern form has a place for the access list; the rest are defaults, as the old one has them.
    let modern = host.create_2;
    create(
        host,
        &request,
        |lists| {
            // SAFETY: the caller's own arguments but for lists that were made for this call.
            modern.map_or(NOTHING, |f| unsafe { f(location, name, datatype, space, 0, lists.creation, lists.access) })
        },
        // SAFETY: the caller's own arguments.
        |creation| unsafe { real(location, name, datatype, space, creation) },
    )
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
    let request = Request { location, name, datatype, space, creation, access };
    create(
        host,
        &request,
        // SAFETY: the caller's own arguments but for lists that were made for this call.
        |lists| unsafe { real(location, name, datatype, space, links, lists.creation, lists.access) },
        // SAFETY: the caller's own arguments.
        |creation| unsafe { real(location, name, datatype, space, links, creation, access) },
    )
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
    let request = Request { location, name: std::ptr::null(), datatype, space, creation, access };
    create(
        host,
        &request,
        // SAFETY: the caller's own arguments but for lists that were made for this call.
        |lists| unsafe { real(location, datatype, space, lists.creation, lists.access) },
        // SAFETY: the caller's own arguments.
        |creation| unsafe { real(location, datatype, space, creation, access) },
    )
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
    if given::any() {
        let write = Write { dataset, memory_type, memory, file, transfer, values };
        guard((), || across::look(host, &write));
        if guard(false, || write.run(host)) {
            return 0;
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
    if let Some(refused) = guard(None, || parallel::refuses_chunks(host, dataset)) {
        return refused;
    }
    let chunk = Chunk { dataset, mask, offset, size, bytes };
    let unknown = if run::run().is_some() { guard(None, || chunk.unknown_filters(host)) } else { None };
    if unknown.is_some() && guard(false, || chunk.run(host)) {
        return 0;
    }
    // SAFETY: the caller's own arguments but for the mask.
    unsafe { real(dataset, transfer, mask | unknown.unwrap_or(0), offset, size, bytes) }
}

/// # Safety
/// As for `H5Dget_create_plist`.
pub(crate) unsafe extern "C" fn creation_list(dataset: Hid, caller: usize) -> Hid {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.creation_of else { return NOTHING };
    // SAFETY: the caller's own argument.
    let list = unsafe { real(dataset) };
    if list >= 0 {
        guard((), || shown::restore(host, dataset, list));
    }
    list
}

/// # Safety
/// As for `H5Dread_chunk`.
pub(crate) unsafe extern "C" fn read_chunk(
    dataset: Hid,
    transfer: Hid,
    offset: *const u64,
    mask: *mut u32,
    values: *mut c_void,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.read_chunk else { return -1 };
    if let Some(refused) = guard(None, || parallel::refuses_chunks(host, dataset)) {
        return refused;
    }
    let reading = Reading { dataset, offset, mask, values, room: std::ptr::null_mut() };
    // SAFETY: the caller's own arguments.
    guard(None, || unsafe { reading.run(host) })
        .unwrap_or_else(|| unsafe { real(dataset, transfer, offset, mask, values) })
}

/// # Safety
/// As for `H5Dread_chunk1`.
pub(crate) unsafe extern "C" fn read_chunk_1(
    dataset: Hid,
    transfer: Hid,
    offset: *const u64,
    mask: *mut u32,
    values: *mut c_void,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.read_chunk_1 else { return -1 };
    if let Some(refused) = guard(None, || parallel::refuses_chunks(host, dataset)) {
        return refused;
    }
    let reading = Reading { dataset, offset, mask, values, room: std::ptr::null_mut() };
    // SAFETY: the caller's own arguments.
    guard(None, || unsafe { reading.run(host) })
        .unwrap_or_else(|| unsafe { real(dataset, transfer, offset, mask, values) })
}

/// # Safety
/// As for `H5Dread_chunk2`.
pub(crate) unsafe extern "C" fn read_chunk_2(
    dataset: Hid,
    transfer: Hid,
    offset: *const u64,
    mask: *mut u32,
    values: *mut c_void,
    room: *mut usize,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.read_chunk_2 else { return -1 };
    if let Some(refused) = guard(None, || parallel::refuses_chunks(host, dataset)) {
        return refused;
    }
    let reading = Reading { dataset, offset, mask, values, room };
    // SAFETY: the caller's own arguments.
    guard(None, || unsafe { reading.run(host) })
        .unwrap_or_else(|| unsafe { real(dataset, transfer, offset, mask, values, room) })
}

/// # Safety
/// As for `H5Dget_chunk_storage_size`.
pub(crate) unsafe extern "C" fn chunk_size(dataset: Hid, offset: *const u64, bytes: *mut u64, caller: usize) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.chunk_size else { return -1 };
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(dataset, offset, bytes) };
    // SAFETY: as above.
    let found = || unsafe { show_size(host, dataset, offset, std::ptr::null_mut(), bytes) };
    if result >= 0 {
        guard((), found);
    }
    result
}

/// # Safety
/// As for `H5Dget_chunk_info_by_coord`.
pub(crate) unsafe extern "C" fn chunk_state(
    dataset: Hid,
    offset: *const u64,
    mask: *mut c_uint,
    address: *mut u64,
    bytes: *mut u64,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.chunk_state else { return -1 };
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(dataset, offset, mask, address, bytes) };
    if result >= 0 {
        // SAFETY: as above.
        guard((), || unsafe { show_size(host, dataset, offset, mask, bytes) });
    }
    result
}

/// # Safety
/// As for `H5Dget_chunk_info`.
pub(crate) unsafe extern "C" fn chunk_number(
    dataset: Hid,
    space: Hid,
    number: u64,
    offset: *mut u64,
    mask: *mut c_uint,
    address: *mut u64,
    bytes: *mut u64,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.chunk_number else { return -1 };
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(dataset, space, number, offset, mask, address, bytes) };
    if result >= 0 {
        let origin = [0u64; 32];
        // All chunks of a dataset have the same size, and HDF5 allows no more axes than there are extents.
        // SAFETY: as above.
        guard((), || unsafe { show_size(host, dataset, origin.as_ptr(), mask, bytes) });
    }
    result
}

/// Shows a stored chunk as the program would have it, where there is one.
///
/// # Safety
/// `offset` has an extent for each axis; the places for results are null or valid.
unsafe fn show_size(host: &CallerHdf5, dataset: Hid, offset: *const u64, mask: *mut c_uint, bytes: *mut u64) {
    // SAFETY: the caller's promise.
    let Some(bytes) = (unsafe { bytes.as_mut() }).filter(|bytes| **bytes > 0) else { return };
    // SAFETY: as above.
    if let Some(shown) = unsafe { shown::chunk_bytes(host, dataset, offset) } {
        *bytes = shown;
        // SAFETY: as above.
        if let Some(mask) = unsafe { mask.as_mut() } {
            *mask = 0;
        }
    }
}

/// # Safety
/// As for `H5Dchunk_iter`.
pub(crate) unsafe extern "C" fn each_chunk(
    dataset: Hid,
    transfer: Hid,
    visit: Option<Visit>,
    data: *mut c_void,
    caller: usize,
) -> Herr {
    let host = CallerHdf5::of(caller);
    let Some(real) = host.each_chunk else { return -1 };
    let visitor = visit.and_then(|visit| guard(None, || Visitor::new(host, dataset, visit, data)));
    match visitor {
        // SAFETY: the caller's own arguments, but for a visit that passes on to the program's; the visitor outlives it.
        Some(visitor) => unsafe { real(dataset, transfer, Some(shown::visit), (&raw const visitor).cast_mut().cast()) },
        // SAFETY: the caller's own arguments.
        None => unsafe { real(dataset, transfer, visit, data) },
    }
}

/// Creates a dataset: with filters where its file is compressed as it is written, and else, or where that fails, by the
/// plain call, which takes the program's creation list and shows its own errors.
fn create(
    host: &CallerHdf5,
    request: &Request,
    changed: impl Fn(&Lists<'_>) -> Hid,
    plain: impl Fn(Hid) -> Hid,
) -> Hid {
    if let Some(id) = guard(None, || parallel::creation(host, request.location, request.creation, &plain)) {
        return id;
    }
    if !files::any_compressed() {
        return plain(request.creation);
    }
    let attempt = guard(None, || host.quietly(|host| Attempt::make(host, request, changed)).flatten());
    let Some(Attempt { run, path, variable, created }) = attempt else { return plain(request.creation) };
    let (id, gift, given) = match created {
        Ok(Created { id, gift, given }) => (id, Some(gift), given),
        Err(why) => (plain(request.creation), None, Given::Nothing(why)),
    };
    // What HDF5 refuses either way is the program's own affair.
    if id >= 0 {
        guard((), || {
            given::note(Dataset::open(host, id), gift);
            if let Some(stored) = host.quietly(|host| Dataset::stored(host, id)).flatten() {
                given::note(stored, gift);
            }
            run.tell(Event::Created { path, variable, given });
        });
    }
    id
}

/// What came of creating a dataset with filters.
struct Attempt {
    run: &'static Run,
    path: PathBuf,
    /// Its path in the file.
    variable: String,
    /// The dataset, or why the plain call is to be made.
    created: Result<Created, String>,
}

/// A dataset that got filters.
struct Created {
    id: Hid,
    gift: Gift,
    given: Given,
}

impl Attempt {
    /// `None` if the dataset is in no file that is compressed as it is written.
    fn make(host: &CallerHdf5, request: &Request, create: impl Fn(&Lists<'_>) -> Hid) -> Option<Self> {
        let (path, rule) = files::compressed(&lists::file_name(host, request.location)?)?;
        let run = run::run()?;
        let snapshot = run.newest()?;
        let name = request.path(host);
        let created = request.variable(host, &name).map_err(str::to_owned).and_then(|variable| {
            let seen = across::seen(&variable);
            let change = snapshot.change(rule, &variable, files::cache_left(), seen.as_deref())?;
            let given = if change.has_own_filter() { Given::Own } else { Given::Standard };
            let why = match Created::with(host, request, &change, given, &create) {
                Err(why) => why,
                created => return created,
            };
            let usual = change.usual(variable.dtype).ok_or_else(|| why.clone())?;
            Created::with(host, request, &usual, Given::Usual(why), &create)
        });
        Some(Self { run, path, variable: name, created })
    }
}

impl Created {
    fn with(
        host: &CallerHdf5,
        request: &Request,
        change: &Change,
        given: Given,
        create: impl Fn(&Lists<'_>) -> Hid,
    ) -> Result<Self, String> {
        if change.has_own_filter() {
            host.own_filter()?;
        }
        let lists = request.lists(host, change)?;
        let id = create(&lists);
        if id < 0 {
            return Err("HDF5 refused it with filters".to_owned());
        }
        files::cache_taken(change.cache_bytes);
        Ok(Self { id, gift: Gift::new(change.filters.len(), change.chunk.is_some(), change.cache_bytes), given })
    }
}
