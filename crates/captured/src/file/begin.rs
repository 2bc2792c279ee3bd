//! How a captured file begins: the ranks agree on a directory in the spool of each node, where each begins its log.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use knarr_array::comm::{Comm, agree, share};
use knarr_array::error::{Error, Result};
use knarr_capture::meeting::begin_session;
use knarr_capture::{HandedOver, SpoolPlace, TierIn, Writers, accounts_of, memory_of};
use knarr_codec::codec::FilterSet;
use knarr_handover::{PutLog, Room};
use knarr_tier::SharedMemory;
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use super::{CapturedFile, Values, parent};
use crate::parts::{Headers, MultiNodeFile, RankSpools};
use crate::pending::{await_delivery, await_elsewhere};
use crate::ranks::Ranks;
use crate::waiting::await_launcher;
use crate::wanted::Wanted;
use crate::whole;

/// What the first rank found before the file is created.
#[derive(Serialize, Deserialize)]
enum FileStart {
    /// Its name in the spool, and what is to become of it.
    In(String, Box<HandedOver>),
    /// It is left to the library, and why, if anybody should know.
    Passed(Option<String>),
}

/// How a program begins a file.
#[derive(Debug, Clone, Copy)]
pub struct Begins {
    /// A file of that name must not exist.
    pub is_new: bool,
    /// Where the ranks have its header.
    pub headers: Headers,
    /// Filters that the program's HDF5 has, if it may want to read the file with that.
    pub filters: Option<FilterSet>,
}

/// A file that the library writes itself.
pub struct Unplaced {
    /// Why, if anybody should know.
    pub why: Option<String>,
    /// Its ranks are on several nodes.
    pub span_nodes: bool,
}

impl CapturedFile {
    /// Begins a file that the program creates under the name `named`: the ranks agree on a directory in each of their spools, and
    /// each begins its log there. Collective.
    ///
    /// # Errors
    /// The file is left to the library.
    pub fn begin(wanted: &Wanted, named: &[u8], ranks: Ranks, begins: Begins) -> std::result::Result<Self, Unplaced> {
        let (comm, headers) = (ranks.comm(), begins.headers);
        // Sessions of a transfer follow each other without waiting.
        if wanted.part.is_none() {
            whole::await_place(&wanted.target);
            await_delivery(&wanted.target);
        }
        await_room(wanted);
        let spools = RankSpools::exchange(comm, wanted.spool)
            .map_err(|error| Unplaced { why: Some(error.to_string()), span_nodes: false })?;
        let unplaced =
            |why: Option<String>| Unplaced { why: why.filter(|_| spools.is_first()), span_nodes: spools.span_nodes() };
        let (mut directory, open) = match begun(wanted, &ranks, &spools, begins) {
            Ok(FileStart::In(name, open)) => (wanted.spool.directory.join(name), *open),
            Ok(FileStart::Passed(why)) => return Err(unplaced(why)),
            Err(error) => return Err(unplaced(Some(error.to_string()))),
        };
        if spools.span_nodes() {
            let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match MultiNodeFile::begin(comm, &spools, (&name, headers), &open, || {
                make_directory(&wanted.spool.directory)
            }) {
                Ok(multi_node) => {
                    directory = multi_node.directory();
                    ranks.set_multi_node(multi_node);
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
        let log = room(wanted, &directory, comm).and_then(|room| PutLog::create(room, &values, &log));
        match agree(comm, log.map(Some)) {
            Ok(Some(log)) => {
                let values = Values::Own(Box::new(log));
                Ok(Self::new(wanted, named, (directory, open.session), ranks, values))
            }
            _ => {
                forget(&directory, &ranks);
                Err(unplaced(Some("its values have no place in the spool".to_owned())))
            }
        }
    }
}

/// How the ranks write a file themselves that they open together, or why no launcher can look after it. Collective.
///
/// # Errors
/// Those of the communicator.
pub fn writers(wanted: &Wanted, ranks: &Ranks) -> Result<std::result::Result<Writers, String>> {
    RankSpools::exchange(ranks.comm(), wanted.spool).map(|spools| spools.writers())
}

/// Room for the values of this rank, within the account of its node.
///
/// # Errors
/// `Write` if the account is gone.
fn room(wanted: &Wanted, directory: &Path, comm: &dyn Comm) -> Result<Room> {
    let SpoolPlace { directory: spool, token, .. } = wanted.spool;
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let more = format!("{}-{token}-{}.{}", name(spool), name(directory), comm.rank());
    let tiers = wanted.spool.tiers();
    let (memory, below) = tiers.ok_or_else(|| Error::internal("the account of the spool cannot be opened"))?;
    let below = below.into_iter().map(|(tier, path)| (tier, path.join(&more))).collect();
    Ok(Room { memory: Arc::new(memory), directory: directory.to_owned(), below })
}

/// Waits until values that are delivered leave half of the memory that values may take, unless a tier below has room: writing there
/// takes less time than a file that is made.
fn await_room(wanted: &Wanted) {
    let SpoolPlace { directory, .. } = wanted.spool;
    if wanted.rule.stage().is_some() && wanted.spool.tiers().is_some_and(|(_, below)| has_room(&below)) {
        return;
    }
    let Some(account) = memory_of(directory) else { return };
    let unused = || SharedMemory::waiting(directory).iter().map(|(bytes, _)| bytes).sum();
    let is_used = || account.taken().bytes.saturating_sub(unused()) > account.limit().bytes / 2;
    await_launcher(wanted.run, || !is_used() || HandedOver::pending(directory).is_empty());
}

/// True if one of the tiers in which files wait holds less than half of what it may. The last one is the slow one.
fn has_room(below: &[TierIn]) -> bool {
    let waiting = below.split_last().map_or(&[][..], |(_, waiting)| waiting);
    waiting.iter().any(|(tier, _)| {
        let account = tier.account();
        account.taken().bytes < account.limit().bytes / 2 && tier.left().bytes > account.taken().bytes
    })
}

/// True if values that could not be delivered take half of the memory that values may take.
fn is_taken_by_others(spool: &SpoolPlace) -> bool {
    // Most files begin when all of them together take less.
    let is_possible = memory_of(&spool.directory).is_none_or(|account| account.taken().bytes > spool.most / 2);
    is_possible && HandedOver::bytes_set_aside(&spool.directory) > spool.most / 2
}

/// Makes a directory for the file, on the first rank. Collective.
fn begun(wanted: &Wanted, ranks: &Ranks, spools: &RankSpools, begins: Begins) -> Result<FileStart> {
    let (comm, is_new) = (ranks.comm(), begins.is_new);
    let target = &wanted.target;
    let is_transfer = wanted.part.is_some();
    if comm.rank() != 0 {
        return share(comm, &FileStart::Passed(None));
    }
    let parent = target.parent().unwrap_or(Path::new("/"));
    if !is_transfer {
        // Of a file that could not be made there, this one takes the place.
        await_elsewhere(target);
    }
    let begun = if let Some(node) = spools.closed().filter(|_| spools.span_nodes()) {
        FileStart::Passed(Some(format!(
            "its ranks are on several nodes, and the 'knarr run' of node '{node}' answers nobody"
        )))
    } else if is_new && (target.exists() || whole::is_there(target))
        || target.is_dir()
        || !is_transfer
            && !(may(parent, Access::WRITE_OK | Access::EXEC_OK) && (!target.exists() || may(target, Access::WRITE_OK)))
    {
        // The library says what is wrong.
        FileStart::Passed(None)
    } else if !wanted.run.is_alive() {
        FileStart::Passed(Some("the launcher is gone: nobody would take its values".to_owned()))
    } else if !is_transfer && is_taken_by_others(wanted.spool) {
        FileStart::Passed(Some("values that could not be delivered take the memory that is for its own".to_owned()))
    } else if wanted.rule.bucket().is_some() && target.as_os_str().as_bytes().iter().any(u8::is_ascii_control) {
        FileStart::Passed(Some("no object in a bucket can have its name".to_owned()))
    } else if is_new && wanted.rule.made_of(target).exists() {
        let made = wanted.rule.made_of(target);
        FileStart::Passed(Some(format!("the program wants no file replaced, and {} is there", made.display())))
    } else {
        match place(wanted, begins, ranks) {
            Ok((name, open)) => {
                whole::make_anew(target);
                FileStart::In(name, Box::new(open))
            }
            Err(error) => FileStart::Passed(Some(format!("its values have no place in the spool: {error}"))),
        }
    };
    share(comm, &begun)
}

/// Makes a directory in the spool for what the ranks put into the file. Returns its name, and what is to become of it.
fn place(wanted: &Wanted, begins: Begins, ranks: &Ranks) -> Result<(String, HandedOver)> {
    let Begins { is_new, headers, filters } = begins;
    let Wanted { target, rule, spool, .. } = wanted;
    let session = if wanted.part.is_some() { begin_session(rule.transfer(), target)? } else { 0 };
    let shares_header = headers == Headers::Shared;
    let begun = HandedOver::new(target.clone(), rule.clone(), ranks.comm().size());
    let open = HandedOver { session, is_new, shares_header, is_serial: ranks.is_alone(), filters, ..begun };
    let spool = &spool.directory;
    let account = accounts_of(spool).ok_or_else(|| Error::internal("the account of the spool cannot be opened"))?;
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
