//! Files of MPI-IO that HDF5 itself writes or reads. Ranks open and close such a file together, and no launcher sees more than
//! those of its own node. So the ranks keep the launchers of all nodes from putting another file in its place until all have
//! opened it, and say that it is closed when all have closed it.

use std::ffi::{CStr, c_char};
use std::fs::File;

use knarr_array::comm::agree;
use knarr_array::error::Error;
use knarr_capture::{Writers, is_packed};
use knarr_captured::{Ranks, Wanted, matched, note, writers};

use super::begin_end::{apart_perhaps, is_parallel};
use super::mpi::{is_over, ranks_of};
use crate::host::{CallerHdf5, Hid};

/// What the program does with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opens {
    /// It creates or empties it.
    New,
    /// It opens it to write.
    Again,
    /// It only reads it.
    ToRead,
}

/// Ranks that are about to open a file.
pub(crate) struct Meeting {
    ranks: Ranks,
    /// Who writes the file, or why no launcher can look after it.
    writers: Result<Writers, String>,
    /// Held until all of them have opened the file.
    _gate: Option<File>,
}

/// The file must not be opened: the launcher has packed it, and does not store it as the program has made it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused;

/// How often the ranks ask the launcher for a file at most.
const TRIES: u32 = 3;

/// The ranks meet before they create or open a file of MPI-IO that the launcher may replace, or with which it does something
/// when it is closed. One that it has packed it hands back before they write it: HDF5 would refuse most of what they write, as
/// it writes datasets with filters in collective calls only. `None` if it is no such file, or if they cannot meet; if some of
/// them may be on other nodes then, the launcher leaves what they write as it is. `may_open` is what this rank found: if one of
/// them must not open the file, none does. Collective.
///
/// # Errors
/// The file must not be opened. The launcher tells why.
///
/// # Safety
/// `name` is null or NUL-terminated.
pub(crate) unsafe fn meet(
    host: &CallerHdf5,
    name: *const c_char,
    opens: Opens,
    access: Hid,
    may_open: bool,
) -> Result<Option<Meeting>, Refused> {
    let alone = if may_open { Ok(None) } else { Err(Refused) };
    // SAFETY: the caller's promise.
    let Some((wanted, ranks)) = (unsafe { who_meets(host, name, access) }) else { return alone };
    let concerns = concerns(&wanted, opens);
    let ranks = match ranks {
        Ok(ranks) => ranks,
        Err(error) if concerns && may_open => return Ok(cannot_meet(&wanted, opens, &error)),
        Err(_) => return alone,
    };
    match all_may_open(&ranks, may_open) {
        Ok(true) if concerns => {}
        Ok(true) => return Ok(None),
        Ok(false) => return Err(Refused),
        Err(error) if concerns && may_open => return Ok(cannot_meet(&wanted, opens, &error)),
        Err(_) => return alone,
    }
    let mut asked = 0;
    loop {
        match behind_gate(&wanted, &ranks, opens) {
            Ok((writers, gate, 0)) => return Ok(Some(Meeting { ranks, writers, _gate: gate })),
            // The launcher may put the other file in its place when the gate is open.
            Ok((_, gate, behind_last)) if asked < TRIES => {
                drop(gate);
                asked += 1;
                hand_back(&wanted, &ranks, behind_last)?;
            }
            Ok(_) => return Err(refused(&wanted, &ranks, "the launcher has packed it again and again".to_owned())),
            Err(error) => return Ok(cannot_meet(&wanted, opens, &error)),
        }
    }
}

/// The file, and the ranks that open it, if it is one of MPI-IO that has a rule.
///
/// # Safety
/// As for [`meet`].
unsafe fn who_meets(
    host: &CallerHdf5,
    name: *const c_char,
    access: Hid,
) -> Option<(Wanted, knarr_array::error::Result<Ranks>)> {
    if name.is_null() || !is_parallel(host, access) {
        return None;
    }
    // SAFETY: the caller's promise.
    let wanted = matched(unsafe { CStr::from_ptr(name) }.to_bytes(), None)?;
    let ranks = ranks_of(host, access, &wanted, true)?;
    Some((wanted, ranks))
}

/// True if the launcher may replace the file, or does something with it when it is closed.
fn concerns(wanted: &Wanted, opens: Opens) -> bool {
    let route = wanted.rule.route().traits();
    match opens {
        // A file that was to be handed over has been told of when it was created.
        Opens::New => route.is_done_when_closed && !wanted.rule.hands_over_hdf5(),
        Opens::Again => route.is_done_when_closed,
        Opens::ToRead => route.may_be_replaced,
    }
}

/// False if one of the ranks must not open the file: the others would wait for it. Collective.
///
/// # Errors
/// Those of MPI.
pub(super) fn all_may_open(ranks: &Ranks, may_open: bool) -> knarr_array::error::Result<bool> {
    ranks.largest(u64::from(!may_open)).map(|refused| refused == 0)
}

/// Ranks that do not know each other open the file all the same.
fn cannot_meet(wanted: &Wanted, opens: Opens, error: &Error) -> Option<Meeting> {
    if opens != Opens::ToRead {
        apart_perhaps(wanted, error.to_string());
    }
    if opens == Opens::Again && is_packed(&wanted.spool.directory, &wanted.target) {
        let what = "it was packed, and its ranks cannot agree to have it as they have made it";
        note(&wanted.target, format!("{what}: HDF5 may refuse what they write into filters: {error}"));
    }
    None
}

/// Who writes the file; what keeps launchers from putting another one in its place; and how many ranks there are from the
/// first one on whose node it was packed, 0 if it is as the program has made it. Collective.
fn behind_gate(
    wanted: &Wanted,
    ranks: &Ranks,
    opens: Opens,
) -> knarr_array::error::Result<(Result<Writers, String>, Option<File>, u64)> {
    let writers = writers(wanted, ranks)?;
    // All have come, so nobody keeps a launcher waiting for long.
    let gate = if wanted.rule.route().traits().may_be_replaced { wanted.run.gate() } else { None };
    let (rank, size) = (ranks.comm().rank(), ranks.comm().size());
    let is_packed = opens == Opens::Again && is_packed(&wanted.spool.directory, &wanted.target);
    let behind = ranks.largest(if is_packed { (size - rank) as u64 } else { 0 })?;
    Ok((writers, gate, behind))
}

/// One of the ranks asks its launcher for the file. Collective.
fn hand_back(wanted: &Wanted, ranks: &Ranks, behind: u64) -> Result<(), Refused> {
    let (rank, size) = (ranks.comm().rank() as u64, ranks.comm().size() as u64);
    let mine = if rank + behind == size { knarr_captured::hand_back(wanted) } else { Ok(()) };
    agree(ranks.comm(), mine).map_err(|error| refused(wanted, ranks, error.to_string()))
}

fn refused(wanted: &Wanted, ranks: &Ranks, why: String) -> Refused {
    if ranks.comm().rank() == 0 {
        let what = "the file was packed and cannot be opened to write";
        note(&wanted.target, format!("{what}: {why}\n  hint: give its rule when = \"write\""));
    }
    Refused
}

impl Meeting {
    /// To be called when HDF5 `has_opened` the file, or has not. Returns who writes it. Launchers are kept away until the
    /// meeting is dropped, or ends. Collective.
    ///
    /// # Errors
    /// Why no launcher can look after the file, which ranks on several nodes write.
    pub(crate) fn opened(&self, has_opened: bool) -> Result<Writers, String> {
        let failed = self.ranks.largest(u64::from(!has_opened));
        match self.writers.clone()? {
            Writers::SameNode => Ok(Writers::SameNode),
            writers => match failed {
                Ok(0) => Ok(writers),
                Ok(_) => Err("not all of its ranks, which are on several nodes, could open it".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// Lets the launchers go on. If the ranks are on several nodes, they will close the file together.
    pub(crate) fn ends(self) -> Option<Together> {
        let Self { ranks, writers, .. } = self;
        (writers != Ok(Writers::SameNode)).then(|| Together { ranks, process: std::process::id() })
    }
}

/// Ranks on several nodes that have a file open to write.
pub(crate) struct Together {
    ranks: Ranks,
    /// A forked child is none of the ranks.
    process: u32,
}

/// How far a rank is with closing a file. The worst of all ranks counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// It has closed it.
    Done,
    /// The program has closed it, and HDF5 waits for objects in it.
    Waits,
    /// HDF5 could not close it in order.
    Failed,
}

impl Together {
    /// Waits until all ranks have closed the file. False in a forked child, which has closed it for nobody. Collective.
    ///
    /// # Errors
    /// Why it is not known to be whole.
    pub(crate) fn close(self, mine: Closing) -> Result<bool, String> {
        if self.process != std::process::id() || is_over() {
            // Its communicator is another process's, or has gone with MPI.
            let is_child = self.process != std::process::id();
            std::mem::forget(self.ranks);
            let why = "its ranks, which are on several nodes, closed it after they had ended MPI";
            return if is_child { Ok(false) } else { Err(why.to_owned()) };
        }
        match self.ranks.largest(mine as u64).map_err(|error| error.to_string())? {
            0 => Ok(true),
            1 => Err("objects in it stayed open on some of its ranks, which are on several nodes".to_owned()),
            _ => Err("not all of its ranks, which are on several nodes, could close it".to_owned()),
        }
    }
}
