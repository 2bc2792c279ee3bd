//! How a captured file begins: the ranks agree on a directory in the spool of each node, where each begins its log.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use knarr_array::comm::{Comm, agree, share};
use knarr_array::error::{Error, Result};
use knarr_capture::meeting::begin_session;
use knarr_capture::{HandedOver, SpoolPlace, Writers, account_of};
use knarr_config::Output;
use knarr_handover::{PutLog, Room};
use knarr_mapped::map_file;
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use crate::parent;
use crate::parts::{Apart, Headers, Homes};
use crate::pending::{await_delivery, await_elsewhere};
use crate::ranks::Ranks;
use crate::waiting::await_launcher;
use crate::wanted::Wanted;

/// What the first rank found before the file is created.
#[derive(Serialize, Deserialize)]
enum Begun {
    /// Its name in the spool, and what is to become of it.
    In(String, Box<HandedOver>),
    /// It is left to the library, and why, if anybody should know.
    Passed(Option<String>),
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
    let (mut directory, open) = match begun(wanted, comm, &homes, (is_new, headers)) {
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
fn begun(wanted: &Wanted, comm: &dyn Comm, homes: &Homes, (is_new, headers): (bool, Headers)) -> Result<Begun> {
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
        || !is_transfer
            && !(may(parent, Access::WRITE_OK | Access::EXEC_OK) && (!target.exists() || may(target, Access::WRITE_OK)))
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
        match place(wanted, (is_new, headers), comm.size()) {
            Ok((name, open)) => Begun::In(name, Box::new(open)),
            Err(error) => Begun::Passed(Some(format!("its values have no place in the spool: {error}"))),
        }
    };
    share(comm, &begun)
}

/// Makes a directory in the spool for what `ranks` ranks put into the file. Returns its name, and what is to become of it.
fn place(wanted: &Wanted, (is_new, headers): (bool, Headers), ranks: usize) -> Result<(String, HandedOver)> {
    let Wanted { target, rule, spool, .. } = wanted;
    let session = if wanted.part.is_some() { begin_session(&rule.transfer, target)? } else { 0 };
    let shares_header = headers == Headers::Shared;
    let open = HandedOver { session, is_new, shares_header, ..HandedOver::new(target.clone(), rule.clone(), ranks) };
    begin(&spool.directory, open)
}

/// Makes a directory in the spool for a file that the program begins. Returns its name, and what is to become of the file.
///
/// # Errors
/// `Write`.
pub fn begin(spool: &Path, open: HandedOver) -> Result<(String, HandedOver)> {
    let account = account_of(spool).ok_or_else(|| Error::internal("the account of the spool cannot be opened"))?;
    let name = make_directory(spool)?;
    let directory = spool.join(&name);
    let begun = open.begin_anew(&directory, account.next_generation(0));
    let open = begun.inspect_err(|_| HandedOver::discard(&directory))?;
    Ok((name, open))
}

fn may(path: &Path, do_this: Access) -> bool {
    access(path, do_this).is_ok()
}

/// Makes a directory for a file in the spool. Returns its name.
///
/// # Errors
/// `Write`.
pub fn make_directory(spool: &Path) -> Result<String> {
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
