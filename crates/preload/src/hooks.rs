//! What happens around each call of HDF5. Arguments and results are those of the function, and `caller` the address it
//! returns to.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use knarr_core::capture::{Change, Event, Given};

use crate::direct::Chunk;
use crate::given::Dataset;
use crate::host::{Herr, Hid, Host};
use crate::lists::{Lists, Request};
use crate::run::Run;
use crate::whole::Write;
use crate::{files, given, lists, run};

/// `H5F_ACC_RDWR`: without it a file is only read.
const FOR_WRITING: c_uint = 1;
/// What a caller gets whose HDF5 lacks the function, which it could not have called.
const NOTHING: Hid = -1;

/// Runs what is Knarr's own: no panic of it reaches the program, and the program's `errno` stays.
pub(crate) fn guard<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    // SAFETY: the location is valid for the calling thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let errno = unsafe { *place };
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise);
    // SAFETY: as above.
    unsafe { *place = errno };
    result
}

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
    let host = Host::of(caller);
    let Some(real) = host.file_create else { return NOTHING };
    guard((), || host.prepare());
    // SAFETY: HDF5 wants a NUL-terminated name.
    let opening = guard(None, || files::opening(unsafe { bytes(name) }, true));
    // SAFETY: the caller's own arguments.
    let id = unsafe { real(name, flags, creation, access) };
    opened(opening, id);
    if id >= 0 {
        // SAFETY: as above.
        guard((), || given::file_created(unsafe { bytes(name) }));
    }
    id
}

/// # Safety
/// As for `H5Fopen`.
pub(crate) unsafe extern "C" fn file_open(name: *const c_char, flags: c_uint, access: Hid, caller: usize) -> Hid {
    let host = Host::of(caller);
    let Some(real) = host.file_open else { return NOTHING };
    guard((), || host.prepare());
    let writes = flags & FOR_WRITING != 0;
    // SAFETY: HDF5 wants a NUL-terminated name.
    let opening = guard(None, || if writes { files::opening(unsafe { bytes(name) }, false) } else { None });
    // SAFETY: the caller's own arguments.
    let id = unsafe { real(name, flags, access) };
    opened(opening, id);
    id
}

fn opened(opening: Option<files::Opening>, id: Hid) {
    if let Some(opening) = opening
        && id >= 0
    {
        guard((), || opening.opened(id));
    }
}

/// # Safety
/// As for `H5Fclose`.
pub(crate) unsafe extern "C" fn file_close(id: Hid, caller: usize) -> Herr {
    let host = Host::of(caller);
    let Some(real) = host.file_close else { return -1 };
    // SAFETY: the caller's own argument.
    closing(host, Some(id), |result| result >= 0, || unsafe { real(id) })
}

/// # Safety
/// As for `H5Idec_ref`, which closes a file when nobody refers to it any more.
pub(crate) unsafe extern "C" fn release(id: Hid, caller: usize) -> c_int {
    let host = Host::of(caller);
    let Some(real) = host.release else { return -1 };
    // SAFETY: the caller's own argument.
    closing(host, Some(id), |left| left == 0, || unsafe { real(id) })
}

/// # Safety
/// As for `H5close`.
pub(crate) unsafe extern "C" fn close_library(caller: usize) -> Herr {
    let host = Host::of(caller);
    let Some(real) = host.close_library else { return -1 };
    // SAFETY: no arguments.
    let result = closing(host, None, |_| true, || unsafe { real() });
    guard((), || given::library_closed(host));
    result
}

/// Makes a call that may close the file `id`, or all files. `closed` tells from its result whether it did.
fn closing(host: &Host, id: Option<Hid>, closed: impl Fn(c_int) -> bool, call: impl Fn() -> c_int) -> c_int {
    let ours = guard(false, || id.map_or_else(files::any, files::has));
    // What the program can read is asked before: afterwards its errors must be those of its own call.
    let reader = guard(None, || ours.then(|| host.reader()));
    let result = call();
    if let Some(reader) = reader
        && closed(result)
    {
        guard((), || files::closed(id, reader));
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
    let host = Host::of(caller);
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
        || unsafe { real(location, name, datatype, space, creation) },
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
    let host = Host::of(caller);
    let Some(real) = host.create_2 else { return NOTHING };
    let request = Request { location, name, datatype, space, creation, access };
    create(
        host,
        &request,
        // SAFETY: the caller's own arguments but for lists that were made for this call.
        |lists| unsafe { real(location, name, datatype, space, links, lists.creation, lists.access) },
        // SAFETY: the caller's own arguments.
        || unsafe { real(location, name, datatype, space, links, creation, access) },
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
    let host = Host::of(caller);
    let Some(real) = host.create_unnamed else { return NOTHING };
    let request = Request { location, name: std::ptr::null(), datatype, space, creation, access };
    create(
        host,
        &request,
        // SAFETY: the caller's own arguments but for lists that were made for this call.
        |lists| unsafe { real(location, datatype, space, lists.creation, lists.access) },
        // SAFETY: the caller's own arguments.
        || unsafe { real(location, datatype, space, creation, access) },
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
    let host = Host::of(caller);
    let Some(real) = host.write else { return -1 };
    if given::any() {
        let write = Write { dataset, memory_type, memory, file, transfer, values };
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
    let host = Host::of(caller);
    let Some(real) = host.write_chunk else { return -1 };
    let chunk = Chunk { dataset, offset, size, bytes };
    let given = if given::any() { guard(None, || chunk.given(host)) } else { None };
    if given.is_some() && guard(false, || chunk.run(host)) {
        return 0;
    }
    // SAFETY: the caller's own arguments but for the mask.
    unsafe { real(dataset, transfer, mask | given.unwrap_or(0), offset, size, bytes) }
}

/// Creates a dataset: with filters where its file is compressed as it is written, and else, or where that fails, by the
/// plain call, which shows its own errors.
fn create(host: &Host, request: &Request, changed: impl Fn(&Lists<'_>) -> Hid, plain: impl Fn() -> Hid) -> Hid {
    if !files::any_compressed() {
        return plain();
    }
    let attempt = guard(None, || host.quietly(|host| Attempt::make(host, request, changed)).flatten());
    let Some(Attempt { run, path, created }) = attempt else { return plain() };
    let (id, filters, given) = match created {
        Ok(Created { id, filters, given }) => (id, filters, given),
        Err(why) => (plain(), 0, Given::Nothing(why)),
    };
    // What HDF5 refuses either way is the program's own affair.
    if id >= 0 {
        guard((), || {
            given::note(Dataset::open(host, id), filters);
            if let Some(stored) = host.quietly(|host| Dataset::stored(host, id)).flatten() {
                given::note(stored, filters);
            }
            run.tell(Event::Created { path, given });
        });
    }
    id
}

/// What came of creating a dataset with filters.
struct Attempt {
    run: &'static Run,
    path: PathBuf,
    /// The dataset, or why the plain call is to be made.
    created: Result<Created, String>,
}

/// A dataset that got filters.
struct Created {
    id: Hid,
    filters: usize,
    given: Given,
}

impl Attempt {
    /// `None` if the dataset is in no file that is compressed as it is written.
    fn make(host: &Host, request: &Request, create: impl Fn(&Lists<'_>) -> Hid) -> Option<Self> {
        let (path, rule) = files::compressed(&lists::file_name(host, request.location)?)?;
        let run = run::run()?;
        let snapshot = run.newest()?;
        let name = request.path(host);
        let created = request.variable(host, &name).map_err(str::to_owned).and_then(|variable| {
            let change = snapshot.change(rule, &variable)?;
            let given = if change.has_own_filter() { Given::Own } else { Given::Standard };
            let why = match Created::with(host, request, &change, given, &create) {
                Err(why) => why,
                created => return created,
            };
            let usual = change.usual(variable.dtype).ok_or_else(|| why.clone())?;
            Created::with(host, request, &usual, Given::Usual(why), &create)
        });
        Some(Self { run, path, created })
    }
}

impl Created {
    fn with(
        host: &Host,
        request: &Request,
        change: &Change,
        given: Given,
        create: impl Fn(&Lists<'_>) -> Hid,
    ) -> Result<Self, String> {
        if change.has_own_filter() {
            host.own_filter()?;
        }
        let lists = request.lists(host, change).ok_or_else(|| "the program's HDF5 lacks a filter".to_owned())?;
        let id = create(&lists);
        if id < 0 {
            return Err("HDF5 refused it with filters".to_owned());
        }
        Ok(Self { id, filters: change.filters.len(), given })
    }
}
