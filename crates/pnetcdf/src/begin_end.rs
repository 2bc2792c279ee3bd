//! How a captured file begins and ends: the header in the spool, agreement of the ranks, and word to the launcher.

use std::ffi::{CString, c_char, c_int};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use knarr_array::comm::{Comm, agree, all_gather, read, share, written};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::meeting::begin_session;
use knarr_capture::program::run;
use knarr_capture::{Event, HandedOver, Part, SpoolPlace, Writers, account_of, key_of, place_of};
use knarr_config::{FileRule, Output, Wait};
use knarr_handover::{PutLog, Room};
use knarr_mapped::map_file;
use knarr_names::{Call, Names, Over, here};
use serde::{Deserialize, Serialize};

use crate::apart::{Apart, Headers, Homes};
use crate::codes::{EPENDING, EWRITE, NOCLOBBER, NOERR, has_opened};
use crate::file::{Captured, Values};
use crate::files;
use crate::parent;
use crate::ranks::Ranks;
use crate::real::real;
use crate::waiting::await_launcher;
use crate::wanted::{Wanted, matched, wanted};

type Create = unsafe extern "C" fn(usize, *const c_char, c_int, usize, *mut c_int) -> c_int;

/// What the first rank found before the file is created.
#[derive(Serialize, Deserialize)]
enum Begun {
    /// Its name in the spool, and what is to become of it.
    In(String, Box<HandedOver>),
    /// It is left to the library, and why, if anybody should know.
    Passed(Option<String>),
}

/// Creates a file whose values are handed over. `None` if the file is left to the library, which has not been called.
///
/// # Safety
/// The arguments are those of `ncmpi_create`; `real` is that function.
pub(crate) unsafe fn create(
    real: Create,
    comm: usize,
    path: *const c_char,
    mode: c_int,
    info: usize,
    id: *mut c_int,
) -> Option<c_int> {
    if path.is_null() || id.is_null() {
        return None;
    }
    let start = Instant::now();
    // SAFETY: PnetCDF wants a NUL-terminated name.
    let named = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
    let wanted = matched(named, Some(Part::Writes))?;
    let passed = |why: String| wanted.run.tell(Event::Passed { path: wanted.target.clone(), why });
    if let Some(why) = wanted.rule.route.traits().classic_is_left {
        passed(why.to_owned());
    }
    if !wanted.is_captured() {
        return None;
    }
    wanted.run.tell(Event::Calls);
    if wanted.part == Some(Part::Reads) {
        passed("this component only reads it".to_owned());
        return None;
    }
    // SAFETY: the program's own communicator.
    let ranks = match unsafe { Ranks::of(comm, &wanted.run.rules().adapters) } {
        Ok(ranks) => ranks,
        Err(error) => {
            passed(error.to_string());
            return None;
        }
    };
    let Agreed { directory, log, session } =
        match agree_on_place(&wanted, &ranks, mode & NOCLOBBER != 0, Headers::Shared) {
            Ok(agreed) => agreed,
            Err(Unplaced { why, .. }) => {
                why.into_iter().for_each(passed);
                return None;
            }
        };
    let header = CString::new(ranks.header(&directory).as_os_str().as_bytes()).ok()?;
    // SAFETY: the program's own arguments but for the name.
    let code = unsafe { real(comm, header.as_ptr(), mode, info, id) };
    if !has_opened(code) {
        forget(&directory, &ranks);
    }
    // If there is no room for a header in the spool, the library creates the file itself, or says what is wrong.
    match (ranks.largest(u64::from(!has_opened(code))), has_opened(code)) {
        (Ok(0), _) => {}
        (_, false) if matches!(ranks.largest(0), Ok(0)) => return None,
        (_, true) if ranks.largest(1).is_ok() => {}
        _ => return Some(code),
    }
    // SAFETY: the library has put the number there.
    let number = unsafe { *id };
    let Wanted { target, rule, .. } = wanted;
    let values = Values::Own(Box::new(log));
    files::add(Captured::new(number, named.to_vec(), target, rule, directory, session, ranks, values, start.elapsed()));
    Some(code)
}

/// Where the ranks hand a file over.
pub struct Agreed {
    /// A directory in the spool.
    pub directory: PathBuf,
    /// For the values of this rank.
    pub log: PutLog,
    /// Number of the session if the file is transferred, else 0.
    pub session: u64,
}

/// A file that the library writes itself.
pub struct Unplaced {
    /// Why, if anybody should know.
    pub why: Option<String>,
    /// Its ranks are on several nodes.
    pub are_apart: bool,
}

/// The ranks agree on a directory for a file in each of their spools, and each begins its log there. With `is_new` a file of
/// that name must not exist. Collective.
///
/// # Errors
/// The file is left to the library.
pub fn agree_on_place(
    wanted: &Wanted,
    ranks: &Ranks,
    is_new: bool,
    headers: Headers,
) -> std::result::Result<Agreed, Unplaced> {
    let comm = ranks.comm();
    // Sessions of a transfer follow each other without waiting.
    if wanted.part.is_none() {
        await_delivery(&wanted.target);
    }
    await_room(wanted);
    let homes =
        Homes::meet(comm, wanted.spool).map_err(|error| Unplaced { why: Some(error.to_string()), are_apart: false })?;
    let unplaced =
        |why: Option<String>| Unplaced { why: why.filter(|_| homes.is_first()), are_apart: homes.are_apart() };
    let (mut directory, open) = match begun(wanted, comm, &homes, is_new) {
        Ok(Begun::In(name, open)) => (wanted.spool.directory.join(name), *open),
        Ok(Begun::Passed(why)) => return Err(unplaced(why)),
        Err(error) => return Err(unplaced(Some(error.to_string()))),
    };
    if homes.are_apart() {
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match Apart::begin(comm, &homes, (&name, headers), &open, || make_directory(&wanted.spool.directory)) {
            Ok(apart) => {
                directory = apart.directory();
                ranks.set_apart(apart);
            }
            Err(error) => {
                if comm.rank() == 0 {
                    HandedOver::discard(&directory);
                }
                let why = format!("its ranks are on several nodes, whose parts have no place: {error}");
                return Err(unplaced(Some(why)));
            }
        }
    }
    let rank = comm.rank();
    if rank == 0 {
        parent::keep(&directory, &wanted.target);
    }
    let (values, log) = (HandedOver::values(rank), HandedOver::log(rank));
    let log = room(wanted, &directory, comm).and_then(|room| PutLog::create(room, &values, &log, map_file));
    match agree(comm, log.map(Some)) {
        Ok(Some(log)) => Ok(Agreed { directory, log, session: open.session }),
        _ => {
            forget(&directory, ranks);
            Err(unplaced(Some("its values have no place in the spool".to_owned())))
        }
    }
}

/// How the ranks write a file themselves that they open together, or why no launcher can look after it. Collective.
///
/// # Errors
/// Those of the communicator.
pub fn writers(wanted: &Wanted, ranks: &Ranks) -> Result<std::result::Result<Writers, String>> {
    Homes::meet(ranks.comm(), wanted.spool).map(|homes| homes.writers())
}

/// Room for the values of this rank, within the account of its node.
///
/// # Errors
/// `Write` if the account is gone.
fn room(wanted: &Wanted, directory: &Path, comm: &dyn Comm) -> Result<Room> {
    let SpoolPlace { disk, token, .. } = wanted.spool;
    let spool = &wanted.spool.directory;
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let more = format!("{}-{token}-{}.{}", name(spool), name(directory), comm.rank());
    let account = account_of(spool).ok_or_else(|| Error::internal("the account of the spool cannot be opened"))?;
    Ok(Room {
        directory: directory.to_owned(),
        free: wanted.spool.free(),
        account: Arc::new(account),
        more: disk.join(more),
    })
}

/// Waits until values that are delivered leave half of the memory that values may take.
fn await_room(wanted: &Wanted) {
    let SpoolPlace { directory, .. } = wanted.spool;
    let Some(account) = account_of(directory) else { return };
    let is_used = || account.taken().saturating_sub(unused(&wanted.spool.free())) > account.limit() / 2;
    await_launcher(wanted.run, || !is_used() || HandedOver::pending(directory).is_empty());
}

/// Bytes of memory that wait for values.
fn unused(free: &Path) -> u64 {
    let entries = std::fs::read_dir(free).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

/// Makes a directory for the file, on the first rank. Collective.
fn begun(wanted: &Wanted, comm: &dyn Comm, homes: &Homes, is_new: bool) -> Result<Begun> {
    let target = &wanted.target;
    let is_transfer = wanted.part.is_some();
    if comm.rank() != 0 {
        return share(comm, &Begun::Passed(None));
    }
    let parent = target.parent().unwrap_or(Path::new("/"));
    if !is_transfer {
        // Of a file that could not be made there, this one takes the place.
        await_elsewhere(target);
    }
    let begun = if let Some(node) = homes.closed().filter(|_| homes.are_apart()) {
        Begun::Passed(Some(format!(
            "its ranks are on several nodes, and the 'knarr run' of node '{node}' answers nobody"
        )))
    } else if is_new && target.exists()
        || target.is_dir()
        || !is_transfer && !(may(parent, libc::W_OK | libc::X_OK) && (!target.exists() || may(target, libc::W_OK)))
    {
        // The library says what is wrong.
        Begun::Passed(None)
    } else if !wanted.run.is_alive() {
        Begun::Passed(Some("the launcher is gone: nobody would take its values".to_owned()))
    } else if !is_transfer && HandedOver::bytes_set_aside(&wanted.spool.directory) > wanted.spool.most / 2 {
        Begun::Passed(Some("values that could not be delivered take the memory that is for its own".to_owned()))
    } else if let Output::S3(_) = wanted.rule.compress.output()
        && target.as_os_str().as_bytes().iter().any(u8::is_ascii_control)
    {
        Begun::Passed(Some("no object in a bucket can have its name".to_owned()))
    } else if is_new && wanted.rule.made_of(target).exists() {
        let made = wanted.rule.made_of(target);
        Begun::Passed(Some(format!("the program wants no file replaced, and {} is there", made.display())))
    } else {
        match place(wanted, is_new, comm.size()) {
            Ok((name, open)) => Begun::In(name, Box::new(open)),
            Err(error) => Begun::Passed(Some(format!("its values have no place in the spool: {error}"))),
        }
    };
    share(comm, &begun)
}

/// Makes a directory in the spool for what `ranks` ranks put into the file. Returns its name, and what is to become of it.
fn place(wanted: &Wanted, is_new: bool, ranks: usize) -> Result<(String, HandedOver)> {
    let Wanted { target, rule, spool, .. } = wanted;
    let session = if wanted.part.is_some() { begin_session(&rule.transfer, target)? } else { 0 };
    let open = HandedOver { session, is_new, ..HandedOver::new(target.clone(), rule.clone(), ranks) };
    begin(&spool.directory, open)
}

/// Makes a directory in the spool for a file that the program begins. Returns its name, and what is to become of the file.
///
/// # Errors
/// `Write`.
pub(crate) fn begin(spool: &Path, open: HandedOver) -> Result<(String, HandedOver)> {
    let account = account_of(spool).ok_or_else(|| Error::internal("the account of the spool cannot be opened"))?;
    let name = make_directory(spool)?;
    let directory = spool.join(&name);
    let begun = open.begin_anew(&directory, account.next_generation(0));
    let open = begun.inspect_err(|_| HandedOver::discard(&directory))?;
    Ok((name, open))
}

fn may(path: &Path, do_this: c_int) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a NUL-terminated name.
    unsafe { libc::access(name.as_ptr(), do_this) == 0 }
}

pub(crate) fn make_directory(spool: &Path) -> Result<String> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let name = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        match DirBuilder::new().mode(0o700).create(spool.join(&name)) {
            // Another container has a process of this number, or this one was another program before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| name).map_err(|error| Error::write(spool, &error)),
        }
    }
}

/// Removes what was handed over of a file that nothing will be made of.
pub fn forget(directory: &Path, ranks: &Ranks) {
    parent::forget(directory);
    if ranks.is_first() {
        HandedOver::discard(directory);
    }
}

/// Removes what was put into a file of which nothing will be made.
fn give_up(file: &Ending<'_>) {
    forget(file.directory, file.ranks);
}

fn ending(file: &Captured) -> Ending<'_> {
    let Captured { ranks, target, rule, directory, session, .. } = file;
    Ending { ranks, target, rule, directory, session: *session }
}

/// Waits until nothing handed over of earlier times is to become the file `target`. False if the newest version could not be
/// made: what has the name, if anything has, is older.
pub fn await_delivery(target: &Path) -> bool {
    let Some(run) = run() else { return true };
    let Some(SpoolPlace { directory: spool, .. }) = &run.rules().spool else { return true };
    let is_pending = || {
        let becomes = |handed: &HandedOver| handed.target == target && handed.may_be_kept();
        HandedOver::pending(spool).iter().any(|(_, handed)| handed.as_ref().is_ok_and(becomes))
    };
    await_launcher(run, || !is_pending());
    !HandedOver::is_missing(spool, target)
}

/// The same for what other nodes make of the name.
pub(crate) fn await_elsewhere(target: &Path) -> bool {
    let Some((notes, key)) = here().and_then(Names::notes).zip(key_of(target)) else { return true };
    notes.settle(&key, Call::Open).is_ok_and(|came| came.over == Over::Free)
}

/// The same for the name that a program gives a file, on all nodes.
///
/// # Safety
/// `path` is null or NUL-terminated.
pub unsafe fn await_named(path: *const c_char) -> bool {
    if path.is_null() {
        return true;
    }
    // SAFETY: the caller's promise.
    let named = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
    wanted(named).is_none_or(|wanted| {
        let is_made = await_delivery(&wanted.target) && await_elsewhere(&wanted.target);
        if !is_made {
            let text = "it could not be made: the program is not shown an older version".to_owned();
            tell(Event::Note { path: wanted.target, text });
        }
        is_made
    })
}

/// What a rank says of a file that it has closed.
#[derive(Clone, Serialize, Deserialize)]
pub struct Closed {
    /// 0, or the code with which the library does not close the header.
    pub code: c_int,
    /// The first error of handing over.
    pub failed: Option<Error>,
    /// Along the unlimited dimension, where a file has one for all variables.
    pub records: u64,
    /// Variables whose elements have a fill value where nobody has put one, if the file is transferred.
    pub filled: Vec<c_int>,
    /// Bytes of values.
    pub bytes: u64,
    /// Bytes of the records in the log.
    pub logged: u64,
    /// Seconds that the program spent in its calls.
    pub blocked_s: f64,
}

/// A file that all ranks are closing.
pub struct Ending<'f> {
    /// Its ranks.
    pub ranks: &'f Ranks,
    /// The file, in the eyes of the program.
    pub target: &'f Path,
    /// What is to become of it.
    pub rule: &'f FileRule,
    /// In the spool.
    pub directory: &'f Path,
    /// Number of the session if the file is transferred, else 0.
    pub session: u64,
}

/// Closes a captured file, or ends it by `ncmpi_abort`. `None` if `id` is none. Collective.
pub(crate) fn end(id: c_int, aborts: bool) -> Option<c_int> {
    let file = files::take(id)?;
    let start = Instant::now();
    let mut file = file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let pending = file.requests.len();
    let filled = if file.session > 0 { file.filled() } else { Vec::new() };
    // SAFETY: PnetCDF's functions for a file that it knows.
    let code = unsafe { if aborts { real!(ncmpi_abort(c_int))(id) } else { real!(ncmpi_close(c_int))(id) } };
    let Captured { values, ranks, .. } = &mut *file;
    if let Values::Incoming(incoming) = values {
        incoming.end_together(ranks.comm());
        return Some(if code == NOERR && pending > 0 { EPENDING } else { code });
    }
    if matches!(file.values, Values::Beside(_)) {
        return Some(code);
    }
    if aborts && file.is_new {
        give_up(&ending(&file));
        return Some(code);
    }
    let logged = if let Values::Own(log) = &mut file.values { log.close() } else { 0 };
    let mine = Closed {
        code,
        failed: file.failure().or_else(|| file.publish().err()),
        records: file.records,
        filled,
        bytes: file.bytes(),
        logged,
        blocked_s: (file.blocked + start.elapsed()).as_secs_f64(),
    };
    let code = match finish(&ending(&file), &mine) {
        Ok(()) => code,
        Err(_) if code == NOERR => EWRITE,
        Err(_) => code,
    };
    Some(if code == NOERR && pending > 0 { EPENDING } else { code })
}

/// The ranks agree that the file is complete, and one of them on each node says so. If it is not, what was put is kept, and the
/// launcher is told why. Collective.
///
/// # Errors
/// That of the first rank that has one; `Write` if the rule has closing wait for the file, and it was not delivered.
pub fn finish(file: &Ending<'_>, mine: &Closed) -> Result<()> {
    let comm = file.ranks.comm();
    let is_first = file.ranks.is_first();
    let (begun, unread) = match if is_first { HandedOver::begun(file.directory) } else { Ok(unknown(file)) } {
        Ok(begun) => (begun, None),
        Err(error) => (unknown(file), Some(error)),
    };
    let is_read = unread.is_none();
    let (begun, moved) = match parent::moved(file.directory, file.target) {
        // Other nodes know it by its name.
        Some(now) if file.ranks.are_apart() => (begun, Some(is_elsewhere(&now))),
        Some(target) => (HandedOver { target, ..begun }, None),
        None => (begun, None),
    };
    let mine = Closed { failed: mine.failed.clone().or(unread).or(moved), ..mine.clone() };
    let handed = gather(file, &mine, begun).inspect_err(|_| keep(file, is_first))?;
    if let Some(error) = handed.failure.clone() {
        let kept = match is_first {
            // What it says stays as it is.
            true if !is_read => HandedOver::set_aside(file.directory),
            true => handed.keep(file.directory),
            false => Ok(()),
        };
        if agree(comm, kept).is_err() {
            keep(file, is_first);
        } else if is_first {
            tell(Event::SetAside { directory: file.directory.to_owned() });
        }
        return Err(error);
    }
    let saved = if is_first { save(&handed, file.directory) } else { Ok(()) };
    agree(comm, saved).inspect_err(|_| keep(file, is_first))?;
    if is_first {
        tell(Event::HandedOver { directory: file.directory.to_owned() });
    }
    await_place(comm, (&handed.target, file.rule, file.directory))
}

/// The directory of a file of several nodes has another name than when it was begun.
fn is_elsewhere(now: &Path) -> Error {
    let what = format!("its directory was renamed while it was open: it would be {} now", now.display());
    Error::new(ErrorKind::Write, what).hint("rename the directory back before 'knarr run --recover'")
}

/// Keeps what was put into a file of which nothing more can be said.
fn keep(file: &Ending<'_>, is_first: bool) {
    if is_first {
        // If the name cannot be changed either, the launcher finds a file that was never closed.
        let _ = HandedOver::set_aside(file.directory);
        tell(Event::SetAside { directory: file.directory.to_owned() });
    }
}

/// What is known of a file without its record.
fn unknown(file: &Ending<'_>) -> HandedOver {
    HandedOver::new(file.target.to_owned(), file.rule.clone(), file.ranks.comm().size())
}

/// Milliseconds since 1970.
fn now_ms() -> Option<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(now.as_millis()).ok()
}

/// What the ranks say of a file that all have closed, beside what was said when it was begun. Collective.
fn gather(file: &Ending<'_>, mine: &Closed, begun: HandedOver) -> Result<HandedOver> {
    let comm = file.ranks.comm();
    let all = all_gather(comm, &written(mine)?)?;
    let all = all.iter().map(|bytes| read::<Closed>(bytes)).collect::<Result<Vec<_>>>()?;
    let failed =
        all.iter().enumerate().find_map(|(rank, closed)| Some(closed.failed.clone()?.at(format!("rank {rank}"))));
    let not_closed = |code: c_int| {
        Error::new(ErrorKind::Write, format!("the program's library does not close its header: code {code}"))
    };
    let code = all.iter().map(|closed| closed.code).find(|&code| code != NOERR);
    Ok(file.ranks.note(HandedOver {
        session: file.session,
        closed_ms: if file.session > 0 { now_ms() } else { None },
        filled: mine.filled.clone(),
        records: all.iter().map(|closed| closed.records).max(),
        bytes: all.iter().map(|closed| closed.bytes).sum(),
        logged: Some(all.iter().map(|closed| closed.logged).sum()),
        blocked_s: all.iter().map(|closed| closed.blocked_s).fold(0.0, f64::max),
        failure: failed.or_else(|| code.map(not_closed)),
        ..begun
    }))
}

/// If the rule has closing wait for the file, waits until it is in its place. Collective.
///
/// # Errors
/// `Write` if it was not delivered: its values are kept.
pub(crate) fn await_place(comm: &dyn Comm, (target, rule, directory): (&Path, &FileRule, &Path)) -> Result<()> {
    if rule.compress.wait != Some(Wait::Close) {
        return Ok(());
    }
    await_delivery(target);
    agree(comm, if comm.rank() == 0 { not_left(directory) } else { Ok(()) })
}

/// Notes that a file is handed over. Before, its name is: who looks for the file from now on waits for it. If other nodes cannot
/// be told, the program waits here until the file is there.
///
/// # Errors
/// `Write`.
pub(crate) fn save(handed: &HandedOver, directory: &Path) -> Result<()> {
    // A session is for other components: the launcher says when a file is to be made of it.
    let names = here().filter(|_| handed.session == 0);
    let told = names.map_or(Ok(()), |names| handed.enter(names, directory, true));
    handed.save(directory).inspect_err(|_| {
        if let Some((names, place)) = names.zip(place_of(directory)) {
            names.withdraw(place);
        }
    })?;
    let Err(error) = told else { return Ok(()) };
    let text = format!("other nodes are not told of it, so the program waits until it is there: {error}");
    tell(Event::Note { path: handed.target.clone(), text });
    tell(Event::HandedOver { directory: directory.to_owned() });
    await_delivery(&handed.target);
    not_left(directory)
}

/// # Errors
/// `Write` if a file was not delivered: the launcher takes the directory away when it is in its place. `Read` or `Corrupt` if that
/// is not known.
fn not_left(directory: &Path) -> Result<()> {
    let what = "it was not delivered; its values are kept";
    HandedOver::left_in(directory)?.map_or(Ok(()), |_| Err(Error::new(ErrorKind::Write, what)))
}

pub(crate) fn tell(event: Event) {
    if let Some(run) = run() {
        run.tell(event);
    }
}
