//! How a captured file begins and ends.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{Event, Part};
use knarr_captured::sessions::publish_closed;
use knarr_captured::{
    Agreed, Closed, Ending, Headers, Ranks, Unplaced, Wanted, agree_on_place, finish, forget, wanted,
};

use super::file::{self, Captured, Shared, Values, lock, tell};
use super::header::Header;
use super::mpi::{Communicator, is_over};
use super::order::{Order, now};
use super::through::{self, Through};
use crate::files::is_open;
use crate::guard::guard;
use crate::host::{CallerHdf5, Hid};
use crate::lists::{Close, Owned};

/// Codes of HDF5's C headers.
mod code {
    pub(super) const DEFAULT_LIST: i64 = 0;
    /// `H5F_ACC_RDWR`.
    pub(super) const FOR_WRITING: u32 = 1;
    /// `H5F_ACC_TRUNC`.
    pub(super) const EMPTIES: u32 = 2;
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

/// What is to become of a file that the program creates, if its values are to be handed over.
fn wanted_of(host: &CallerHdf5, named: &[u8], access: Hid) -> Option<(Wanted, bool)> {
    let wanted = wanted(named)?;
    let is_parallel = is_parallel(host, access);
    let passed = |why: &str| {
        wanted.run.tell(Event::Passed { path: wanted.target.clone(), why: why.to_owned() });
        None
    };
    match wanted.part {
        // A file that is not handed over is packed when it is closed, so nobody is told.
        None => (is_parallel && !wanted.rule.compresses_writes()).then_some((wanted, is_parallel)),
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
    let (wanted, is_parallel) = wanted_of(host, named, access)?;
    end_late(host);
    if let Some(open) = file::becoming(&wanted.target) {
        // HDF5 refuses to empty a file that is open.
        let path = CString::new(lock(&open).header.path().as_os_str().as_bytes()).ok()?;
        let serial = lock(&open).serial;
        // SAFETY: the program's own flags and list, with the name and the list of the header.
        return Some(unsafe { real(path.as_ptr(), flags, creation, if is_parallel { serial } else { access }) });
    }
    let ranks = if is_parallel {
        let comm = Communicator::of(host, access)?;
        // SAFETY: the program's own communicator.
        unsafe { Ranks::of(comm.0, &wanted.run.rules().adapters) }
    } else {
        Ok(Ranks::Alone(Default::default()))
    };
    let passed = |why: String| wanted.run.tell(Event::Passed { path: wanted.target.clone(), why });
    let itself = |why: String| wanted.run.tell(Event::NotHandedOver { path: wanted.target.clone(), why });
    let is_transfer = wanted.part.is_some();
    let ranks = match ranks {
        Ok(ranks) => ranks,
        Err(error) => {
            match error.to_string() {
                why if is_transfer => passed(why),
                why if wanted.spool.peer.is_some() => apart_perhaps(&wanted, why),
                why => itself(why),
            }
            return None;
        }
    };
    let agreed = agree_on_place(&wanted, &ranks, flags & code::EMPTIES == 0, Headers::Own);
    let Agreed { directory, log, session } = match agreed {
        Ok(agreed) => agreed,
        Err(Unplaced { why, are_apart }) => {
            match why {
                Some(why) if is_transfer => passed(why),
                Some(why) if are_apart => wanted.run.tell(Event::Apart { path: wanted.target.clone(), why }),
                Some(why) => itself(why),
                // HDF5 says what is wrong.
                None => {}
            }
            return None;
        }
    };
    let rank = ranks.comm().rank();
    let header = Header::new(&directory, &wanted.target, rank);
    let path = CString::new(header.path().as_os_str().as_bytes()).ok()?;
    let (kept, serial) = lists(host, access, ranks.is_alone());
    let list = if is_parallel { serial } else { access };
    if rank == 0 && ranks.comm().size() > 1 && !ranks.are_apart() {
        through::begin(&directory, ranks.comm().size());
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
        forget(&directory, &ranks);
        match "its header cannot be made in the spool".to_owned() {
            why if is_transfer => passed(why),
            why => itself(why),
        }
        return None;
    }
    end_with_mpi(host, &ranks);
    let since = if ranks.are_apart() { None } else { ranks.largest(now()).ok() };
    let captured = Captured {
        named: named.to_vec(),
        target: wanted.target,
        rule: wanted.rule,
        directory,
        session,
        header,
        ranks,
        values: Values::Own(Box::new(log)),
        access: kept,
        serial,
        order: Order::new(since),
        through: Through::default(),
        failed: None,
        is_flushed: true,
        blocked: start.elapsed(),
        process: std::process::id(),
    };
    file::add(path.into_bytes(), captured);
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
    let (path, serial, flags) = {
        let mut file = lock(&file);
        // Only a file that HDF5 has open is known to be in use.
        if file.serial < 0 && (!file.ranks.is_alone() || is_in_memory(host, access)) {
            (file.access, file.serial) = lists(host, access, false);
        }
        let serial = if file.serial < 0 { access } else { file.serial };
        let flags = if file.is_incoming() { flags & !code::FOR_WRITING } else { flags };
        (CString::new(file.header.path().as_os_str().as_bytes()).ok()?, serial, flags)
    };
    // SAFETY: the program's own flags, with the name and the list of its header.
    Some(unsafe { real(path.as_ptr(), flags, serial) })
}

/// Has the launcher leave a file as it is whose ranks do not know each other, and why, if other nodes may have some of them.
pub(super) fn apart_perhaps(wanted: &Wanted, why: String) {
    if wanted.spool.peer.is_some() {
        wanted.run.tell(Event::Apart { path: wanted.target.clone(), why });
    }
}

/// The same for a file that this process has closed: waits until it is there. False if it could not be made.
///
/// # Safety
/// `name` is null or NUL-terminated.
pub(crate) unsafe fn await_named(name: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    unsafe { knarr_captured::await_named(name) }
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

/// To be called when the process ends: HDF5 has closed what the program has not. Ranks of MPI do not meet any more.
pub(crate) fn exiting() {
    if file::any() {
        for file in gone(|file| file.ranks.is_alone()) {
            end(None, &file);
        }
    }
}

/// The HDF5 that has the files of MPI's ranks.
static PARALLEL: OnceLock<&CallerHdf5> = OnceLock::new();

/// HDF5 closes what the program has left open when MPI ends. It does so here before, while the ranks still meet.
fn end_with_mpi(host: &'static CallerHdf5, ranks: &Ranks) {
    if !ranks.is_alone()
        && PARALLEL.set(host).is_ok()
        && let Err(error) = ranks.at_end(mpi_ends)
    {
        tell(Path::new("MPI"), format!("files that the program does not close are not made: {error}"));
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
    file::take(|file| file.process == process && is_asked(file) && !is_open(file.header.path()))
}

fn end(host: Option<&CallerHdf5>, file: &Shared) -> bool {
    let start = Instant::now();
    let mut file = lock(file);
    for list in [file.access, file.serial] {
        host.and_then(|host| host.quietly(|host| drop(Owned::new(host, list, Close::List))));
    }
    if file.is_incoming() {
        end_incoming(&mut file);
        return true;
    }
    file.writes_no_more();
    if let Err(error) = file.header.closed() {
        file.fail(error);
    }
    if !file.ranks.is_alone() && is_over() {
        // The other ranks are not there any more. What was put is kept, as of a program that was killed.
        return false;
    }
    // A put names its dataset by a number, which all ranks must give alike.
    match file.ranks.largest(file.header.digest()) {
        Ok(largest) if largest == file.header.digest() => {}
        Ok(_) => file.fail(Error::usage("the ranks have not created the same datasets in the same order")),
        Err(error) => file.fail(error),
    }
    if let Err(error) = compare_calls(&file) {
        file.fail(error);
    }
    if file.session > 0
        && file.failed.is_none()
        && file.ranks.comm().rank() == 0
        && let Err(error) = publish_closed(&file.rule.transfer, file.session, &file.directory)
    {
        file.fail(error);
    }
    let blocked: Duration = file.blocked + start.elapsed();
    let (bytes, logged) = file.log().map_or((0, 0), |log| (log.bytes(), log.close()));
    let mine = Closed {
        code: 0,
        failed: file.failed.clone(),
        records: 0,
        filled: Vec::new(),
        bytes,
        logged,
        blocked_s: blocked.as_secs_f64(),
    };
    let Captured { ranks, target, rule, directory, session, .. } = &*file;
    // The launcher tells why it could not be handed over.
    let handed_over = finish(&Ending { ranks, target, rule, directory, session: *session }, &mine).is_ok();
    file.are_flushed() && handed_over
}

/// Says so if ranks on several nodes have not made the same collective calls, by which their writes are ordered. Collective.
fn compare_calls(file: &Captured) -> Result<()> {
    let Captured { ranks, order, target, .. } = file;
    if !ranks.are_apart() {
        return Ok(());
    }
    let most = ranks.largest(order.count())?;
    let differ = ranks.largest(u64::from(order.count() < most))? > 0;
    if differ && ranks.comm().rank() == 0 {
        let what = "the ranks have not made the same collective calls, as HDF5 asks them to";
        tell(target, format!("{what}: where their writes overlap, another one may count"));
    }
    Ok(())
}

/// The component has what it wants of a session. Collective.
fn end_incoming(file: &mut Captured) {
    let Captured { ranks, values, .. } = file;
    let Values::Incoming { incoming, shown, .. } = values else { return };
    incoming.end_together(ranks.comm());
    if let Some(shown) = shown {
        forget(shown, ranks);
    }
}
