//! How a captured file begins and ends.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{Event, Part};
use knarr_captured::{Begins, CapturedFile, Closed, Headers, Ranks, Unplaced, Wanted, lock, note, notify, wanted};

use super::file::{self, Captured, Shared};
use super::header::Header;
use super::mpi::{is_over, ranks_of};
use super::values::order::{Order, now};
use super::values::through;
use crate::host::{CallerHdf5, Hid};
use crate::property_lists::{Close, Owned};
use knarr_captured::guard;

/// Codes of HDF5's C headers.
mod code {
    pub(super) const DEFAULT_LIST: i64 = 0;
    /// `H5F_ACC_RDWR`.
    pub(super) const FOR_WRITING: u32 = 1;
    /// `H5F_ACC_TRUNC`.
    pub(super) const EMPTIES: u32 = 2;
    /// `H5F_ACC_SWMR_WRITE`.
    pub(super) const SINGLE_WRITER: u32 = 0x20;
    /// `H5F_CLOSE_DEFAULT` and `H5F_CLOSE_SEMI`, which is what MPI-IO has for it.
    pub(super) const CLOSE_DEFAULT: i32 = 0;
    pub(super) const CLOSE_SEMI: i32 = 2;
}

pub(super) type Create = unsafe extern "C" fn(*const c_char, c_uint, Hid, Hid) -> Hid;
pub(super) type Open = unsafe extern "C" fn(*const c_char, c_uint, Hid) -> Hid;

/// True if the access list is one of MPI-IO.
pub(super) fn is_parallel(host: &CallerHdf5, access: Hid) -> bool {
    let null = std::ptr::null_mut::<c_void>();
    access != code::DEFAULT_LIST
        && host
            // SAFETY: the list is the program's own; HDF5 leaves out results that have no place.
            .quietly(|host| host.is_parallel.is_some_and(|get| unsafe { get(access, null, null) } >= 0))
            .unwrap_or(false)
}

/// A list with all that `access` says, for a file without MPI that ranks have for themselves; -1 if it cannot be had.
fn serial_list(host: &CallerHdf5, access: Hid) -> Hid {
    let list = host.quietly(|_| without_mpi(host, access)).flatten();
    // It is closed with the file.
    list.map_or(-1, |list| {
        let id = list.id;
        std::mem::forget(list);
        id
    })
}

fn without_mpi<'h>(host: &'h CallerHdf5, access: Hid) -> Option<Owned<'h>> {
    // SAFETY: the list is the program's own; the copy is closed when dropped.
    let list = Owned::new(host, unsafe { host.copy_list?(access) }, Close::List)?;
    let mut degree: c_int = code::CLOSE_DEFAULT;
    // SAFETY: the list is ours, and `degree` a valid place for the result.
    unsafe {
        if host.set_serial?(list.id) < 0 || host.close_degree?(list.id, &raw mut degree) < 0 {
            return None;
        }
        let degree = if degree == code::CLOSE_DEFAULT { code::CLOSE_SEMI } else { degree };
        // Gaps would only make the header longer.
        (host.set_close_degree?(list.id, degree) >= 0 && host.set_alignment?(list.id, 1, 1) >= 0).then_some(list)
    }
}

/// What the program has of its own access list, and that by which the header is opened: both -1 if it has no MPI-IO.
fn lists(host: &CallerHdf5, access: Hid, is_alone: bool) -> (Hid, Hid) {
    if is_alone {
        return (-1, -1);
    }
    // SAFETY: the list is the program's own.
    let kept = host.copy_list.map_or(-1, |copy| unsafe { copy(access) });
    (kept, serial_list(host, access))
}

/// True if the list is one for files in memory.
fn is_in_memory(host: &CallerHdf5, access: Hid) -> bool {
    let null = std::ptr::null_mut::<c_void>();
    // SAFETY: the list is the program's own; HDF5 leaves out results that have no place.
    let asked = || host.quietly(|host| host.is_in_memory.is_some_and(|get| unsafe { get(access, null, null) } >= 0));
    access != code::DEFAULT_LIST && asked().unwrap_or(false)
}

/// True if HDF5 keeps a file that is opened by this list as the system's own functions do: in one file, of which it has a
/// descriptor. Other drivers keep it in memory, or in several files.
fn is_plain(host: &CallerHdf5, access: Hid) -> bool {
    let usual = std::env::var_os("HDF5_DRIVER").is_none_or(|name| name.is_empty() || name == "sec2");
    let same = || {
        host.quietly(|host| {
            // SAFETY: the class is HDF5's own; the list is closed when dropped.
            let list = Owned::new(host, unsafe { host.new_list?(host.file_access_class.id()?) }, Close::List)?;
            let driver = host.driver?;
            // SAFETY: both lists are open, or HDF5 says that they are not.
            Some(unsafe { driver(access) == driver(list.id) })
        })
    };
    usual && (access == code::DEFAULT_LIST || same().flatten().unwrap_or(false))
}

/// True if half of the descriptors are in use that the process may have: the program has use for the others.
fn has_few_descriptors() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: there is a place for the result; the system gives the lowest number that is free, which is closed again.
    let lowest = unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) < 0 {
            return false;
        }
        let lowest = libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        libc::close(lowest);
        lowest
    };
    u64::try_from(lowest).map_or(true, |lowest| lowest > limit.rlim_cur / 2)
}

/// What is to become of a file that the program creates, if its values are to be handed over.
fn wanted_of(host: &CallerHdf5, named: &[u8], flags: c_uint, access: Hid) -> Option<(Wanted, bool)> {
    let wanted = wanted(named)?;
    let is_parallel = is_parallel(host, access);
    let may_be = || flags & code::SINGLE_WRITER == 0 && is_plain(host, access);
    let passed = |why: &str| {
        wanted.passed(why.to_owned());
        None
    };
    if wanted.part.is_none() && !is_parallel && wanted.rule.hands_over_hdf5() && may_be() && has_few_descriptors() {
        let why = "the process has few descriptors left, of which a file that is handed over takes several".to_owned();
        wanted.run.notify(Event::NotHandedOver { path: wanted.target, why });
        return None;
    }
    match wanted.part {
        // A file that is not handed over is packed when it is closed, so nobody is told.
        None => (wanted.rule.hands_over_hdf5() && (is_parallel || may_be())).then_some((wanted, is_parallel)),
        Some(Part::Reads) => passed("this component only reads it"),
        Some(Part::Writes) if is_in_memory(host, access) => passed("HDF5 keeps it in memory until it is closed"),
        Some(Part::Writes) => Some((wanted, is_parallel)),
    }
}

/// Creates a file whose values are handed over. `None` if it is left to HDF5, which has not been called.
///
/// # Safety
/// The arguments are those of `H5Fcreate`; `real` is that function.
pub(crate) unsafe fn create(
    host: &'static CallerHdf5,
    real: Create,
    name: *const c_char,
    flags: c_uint,
    creation: Hid,
    access: Hid,
) -> Option<Hid> {
    if name.is_null() {
        return None;
    }
    let start = Instant::now();
    // SAFETY: HDF5 wants a NUL-terminated name.
    let named = unsafe { CStr::from_ptr(name) }.to_bytes();
    let (wanted, is_parallel) = wanted_of(host, named, flags, access)?;
    end_late(host);
    if let Some(open) = file::becoming(&wanted.target) {
        if lock(&open).is_handed_back() {
            return None;
        }
        // HDF5 refuses to empty a file that is open.
        let path = CString::new(lock(&open).header.path().as_os_str().as_bytes()).ok()?;
        let serial = lock(&open).serial;
        // SAFETY: the program's own flags and list, with the name and the list of the header.
        return Some(unsafe { real(path.as_ptr(), flags, creation, if is_parallel { serial } else { access }) });
    }
    let ranks = ranks_of(host, access, &wanted, is_parallel)?;
    let is_transfer = wanted.part.is_some();
    let left = |why: String, span_nodes: bool| match why {
        why if is_transfer => wanted.passed(why),
        why if span_nodes => wanted.run.notify(Event::Unwatched { path: wanted.target.clone(), why }),
        why => wanted.run.notify(Event::NotHandedOver { path: wanted.target.clone(), why }),
    };
    let ranks = match ranks {
        Ok(ranks) => ranks,
        Err(error) => {
            left(error.to_string(), wanted.spool.peer.is_some());
            return None;
        }
    };
    // Of a transfer, others are the readers.
    let filters = (ranks.is_alone() && !is_transfer).then(|| host.filters());
    let begins = Begins { is_new: flags & code::EMPTIES == 0, headers: Headers::Own, filters };
    let file = match CapturedFile::begin(&wanted, named, ranks, begins) {
        Ok(file) => file,
        Err(Unplaced { why, span_nodes }) => {
            // Without a reason HDF5 says what is wrong.
            why.into_iter().for_each(|why| left(why, span_nodes));
            return None;
        }
    };
    let CapturedFile { directory, ranks, .. } = &file;
    let rank = ranks.comm().rank();
    let may_be_handed_back = ranks.is_alone() && !is_transfer;
    let header = if may_be_handed_back {
        Header::beside(directory, &wanted.target)
    } else {
        Ok(Header::new(directory, &wanted.target, rank))
    };
    let Ok(header) = header else {
        file.forget();
        left("its header has no place".to_owned(), false);
        return None;
    };
    let path = CString::new(header.path().as_os_str().as_bytes()).ok()?;
    let (kept, serial) = lists(host, access, ranks.is_alone());
    let list = if is_parallel { serial } else { access };
    if rank == 0 && ranks.comm().size() > 1 && !ranks.span_nodes() {
        through::begin(directory, ranks.comm().size());
    }
    // SAFETY: the program's own arguments but for the name and the list.
    let id = host.quietly(|_| unsafe { real(path.as_ptr(), flags, creation, list) }).unwrap_or(-1);
    // Each rank has a header of its own, so each may fail alone. Then HDF5 creates the file itself, or says what is wrong.
    if !matches!(ranks.largest(u64::from(id < 0)), Ok(0)) {
        host.quietly(|host| {
            if let (true, Some(close)) = (id >= 0, host.file_close) {
                // SAFETY: the file was created above, and nobody else knows it.
                unsafe { close(id) };
            }
            for list in [kept, serial] {
                drop(Owned::new(host, list, Close::List));
            }
        });
        file.forget();
        left("its header cannot be made in the spool".to_owned(), false);
        return None;
    }
    end_with_mpi(host, ranks);
    let since = if ranks.span_nodes() { None } else { ranks.largest(now()).ok() };
    let host = may_be_handed_back.then_some(host);
    let captured = Captured { access: kept, serial, host, ..Captured::new(file, header, Order::new(since)) };
    file::add(captured, start);
    Some(id)
}

/// Opens a captured file that this process has open, by its own name or that of its header. `None` if it has not.
///
/// # Safety
/// The arguments are those of `H5Fopen`; `real` is that function.
pub(crate) unsafe fn reopened(
    host: &CallerHdf5,
    real: Open,
    name: *const c_char,
    flags: c_uint,
    access: Hid,
) -> Option<Hid> {
    if !file::any() || name.is_null() {
        return None;
    }
    end_late(host);
    // SAFETY: HDF5 wants a NUL-terminated name.
    let named = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    let absolute = std::path::absolute(named).ok()?;
    let target = std::fs::canonicalize(&absolute).unwrap_or(absolute);
    let file = file::becoming(&target)?;
    if lock(&file).is_handed_back() {
        return None;
    }
    let (path, serial, flags) = {
        let mut file = lock(&file);
        // Only a file that HDF5 has open is known to be in use.
        if file.serial < 0 && (!file.common.ranks.is_alone() || is_in_memory(host, access)) {
            (file.access, file.serial) = lists(host, access, false);
        }
        let serial = if file.serial < 0 { access } else { file.serial };
        let flags = if file.common.is_incoming() { flags & !code::FOR_WRITING } else { flags };
        (CString::new(file.header.path().as_os_str().as_bytes()).ok()?, serial, flags)
    };
    // SAFETY: the program's own flags, with the name and the list of its header.
    Some(unsafe { real(path.as_ptr(), flags, serial) })
}

/// Has the launcher leave a file as it is whose ranks do not know each other, and why, if other nodes may have some of them.
pub(super) fn apart_perhaps(wanted: &Wanted, why: String) {
    if wanted.spool.peer.is_some() {
        wanted.run.notify(Event::Unwatched { path: wanted.target.clone(), why });
    }
}

/// To be called after a call that may have closed captured files; `has_failed` if that has returned an error. Returns false if the
/// values of one could not be handed over. Collective if one was closed.
pub(crate) fn ended(host: &CallerHdf5, has_failed: bool) -> bool {
    let end = |file: &Shared| {
        if has_failed {
            lock(file).fail(Error::new(ErrorKind::Write, "HDF5 does not close its header without an error"));
        }
        end(Some(host), file)
    };
    // Each is ended, whatever comes of the others.
    let ended: Vec<bool> = gone(|_| true).iter().map(end).collect();
    !ended.contains(&false)
}

/// Ends what HDF5 has closed later than the program: objects in the file were open, and the last of them is closed now.
fn end_late(host: &CallerHdf5) {
    if file::any() {
        ended(host, false);
    }
}

/// Ends a file of this process alone if HDF5 has closed it later than the program. False if it is open, or if another thread has it.
pub(super) fn end_if_closed(file: &Shared) -> bool {
    // Others may be locked by threads that wait for this one.
    let closed = file.try_lock().ok().and_then(|file| {
        let is_own = file.process == std::process::id() && file.common.ranks.is_alone();
        (is_own && !file.is_open()).then_some(file.host)
    });
    let Some(host) = closed else { return false };
    if file::take_one(file) {
        end(host, file);
    }
    true
}

/// To be called when the process ends: HDF5 has closed what the program has not. Ranks of MPI do not meet any more.
pub(crate) fn exiting() {
    if file::any() {
        for file in gone(|file| file.common.ranks.is_alone()) {
            end(None, &file);
        }
    }
}

/// The HDF5 that has the files of MPI's ranks.
static PARALLEL: OnceLock<&CallerHdf5> = OnceLock::new();

/// HDF5 closes what the program has left open when MPI ends. It does so here before, while the ranks still meet.
fn end_with_mpi(host: &'static CallerHdf5, ranks: &Ranks) {
    if !ranks.is_alone() && PARALLEL.set(host).is_ok() {
        ranks.at_end(Path::new("MPI"), mpi_ends);
    }
}

extern "C" fn mpi_ends() {
    if !file::any() {
        return;
    }
    guard((), || {
        if let Some(host) = PARALLEL.get() {
            // SAFETY: no arguments.
            host.close_library.map(|close| unsafe { close() });
            ended(host, false);
        }
    });
}

/// Takes out the files that this process has open no more, of those that are asked for.
fn gone(is_asked: impl Fn(&Captured) -> bool) -> Vec<Shared> {
    let process = std::process::id();
    file::take(|file| file.process == process && is_asked(file) && !file.is_open())
}

fn end(host: Option<&CallerHdf5>, file: &Shared) -> bool {
    let start = Instant::now();
    let mut file = lock(file);
    for list in [file.access, file.serial] {
        host.and_then(|host| host.quietly(|host| drop(Owned::new(host, list, Close::List))));
    }
    if file.common.end_incoming() {
        return true;
    }
    if let Some(identity) = file.handed_back {
        let target = &file.common.target;
        let path = std::fs::canonicalize(file.header.now(target)).unwrap_or_else(|_| target.clone());
        closed_by_hdf5(host, path, identity);
        return true;
    }
    if file.header.is_removed() {
        // So are its values, as they would be without Knarr.
        file.common.forget();
        return true;
    }
    file.writes_no_more();
    if let Err(error) = file.header.closed() {
        file.fail(error);
    }
    if !file.common.ranks.is_alone() && is_over() {
        // The other ranks are not there any more. What was put is kept, as of a program that was killed.
        return false;
    }
    // A put names its dataset by a number, which all ranks must give alike.
    match file.common.ranks.largest(file.header.digest()) {
        Ok(largest) if largest == file.header.digest() => {}
        Ok(_) => file.fail(Error::usage("the ranks have not created the same datasets in the same order")),
        Err(error) => file.fail(error),
    }
    if let Err(error) = compare_calls(&file) {
        file.fail(error);
    }
    if file.common.failed().is_none()
        && let Err(error) = file.common.publish_closed()
    {
        file.fail(error);
    }
    // The launcher tells why it could not be handed over.
    let handed_over = file.common.finish(Closed::default(), start).is_ok();
    file.are_flushed() && handed_over
}

/// Has the launcher pack a file that was handed back.
fn closed_by_hdf5(host: Option<&CallerHdf5>, path: PathBuf, identity: (u64, u64)) {
    let filters = host.map(CallerHdf5::filters).unwrap_or_default();
    notify(Event::Closed { path, still_open: false, filters, identity: Some(identity) });
}

/// Says so if ranks on several nodes have not made the same collective calls, by which their writes are ordered. Collective.
fn compare_calls(file: &Captured) -> Result<()> {
    let (order, CapturedFile { ranks, target, .. }) = (&file.order, &file.common);
    if !ranks.span_nodes() {
        return Ok(());
    }
    let most = ranks.largest(order.count())?;
    let differ = ranks.largest(u64::from(order.count() < most))? > 0;
    if differ && ranks.comm().rank() == 0 {
        let what = "the ranks have not made the same collective calls, as HDF5 asks them to";
        note(target, format!("{what}: where their writes overlap, another one may count"));
    }
    Ok(())
}
