//! A program opens a file that another component writes: the next session that it has not read, on all ranks.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_array::comm::{Comm, agree, share};
use knarr_array::error::{Error, Result};
use knarr_capture::meeting::{Component, Made, SessionLock};
use knarr_capture::{Datasets, Event, HandedOver};
use serde::{Deserialize, Serialize};

use super::as_file::{Await, await_file};
use super::awaiting::{Next, await_any, await_next, await_same, note_closed};
use super::read_session::{OpenSession, ReadSession, SessionStart};
use crate::file::begin::make_directory;
use crate::parts::RankSpools;
use crate::ranks::Ranks;
use crate::wanted::Wanted;

/// What the first rank found.
#[derive(Serialize, Deserialize)]
enum Found {
    /// A session, and what is known of it.
    Session {
        session: u64,
        directory: PathBuf,
        begun: SessionStart,
        /// How all nodes know the session.
        origin: (String, String),
        /// Of a component with launchers on several nodes.
        is_spread: bool,
    },
    /// There is a file; if that is known, what of.
    File(Option<Made>),
    /// Neither comes.
    Nothing,
}

/// What comes of a file that another component writes.
pub enum SessionOrFile {
    /// The next session that was not read yet.
    Session(Box<OpenSession>),
    /// There is a file instead.
    File,
    /// Neither; the launcher was told why.
    Nothing,
}

/// Waits for the next session of a file. All ranks wait here, and not for each other in MPI, which takes a core for that. What
/// the first one finds counts; ranks on other nodes wait until they see it, too. Collective.
pub fn open_session(wanted: &Wanted, ranks: &Ranks) -> SessionOrFile {
    let reader = wanted.run.rules().component.as_deref().unwrap_or_default();
    let (comm, begin) = (ranks.comm(), Instant::now());
    let is_root = comm.rank() == 0;
    let missed = |error: &Error| {
        wanted.run.notify(Event::Missed { path: wanted.target.clone(), why: error.message().to_owned() });
    };
    if wanted.rule.transfer().is_write_only() {
        let is_there =
            if is_root { await_file(wanted, Await::Open).map_err(|error| missed(&error)).is_ok() } else { false };
        let is_there = share(comm, &is_there).unwrap_or(false);
        return if is_there { SessionOrFile::File } else { SessionOrFile::Nothing };
    }
    let (found, session_lock) = if is_root {
        begin_next(wanted, reader).unwrap_or_else(|error| {
            missed(&error);
            (Found::Nothing, None)
        })
    } else {
        await_any(wanted, reader);
        (Found::Nothing, None)
    };
    match share(comm, &found) {
        Ok(Found::Session { session, directory, begun, origin: (token, _), is_spread: false }) => {
            let (is_first, is_spread, waited) = (is_root, false, begin.elapsed());
            let opened = OpenSession { session, token, directory, session_lock, is_first, is_spread, waited, begun };
            SessionOrFile::Session(Box::new(opened))
        }
        Ok(Found::Session { session, origin, .. }) => {
            match begin_on_all(wanted, comm, reader, (session, &origin), session_lock) {
                Ok(opened) => SessionOrFile::Session(Box::new(OpenSession { waited: begin.elapsed(), ..opened })),
                Err(error) => {
                    if is_root {
                        missed(&error);
                    }
                    SessionOrFile::Nothing
                }
            }
        }
        Ok(Found::File(made)) => {
            made.into_iter().for_each(|made| note_closed(&wanted.target, &made.token, made.session));
            SessionOrFile::File
        }
        Ok(Found::Nothing) | Err(_) => SessionOrFile::Nothing,
    }
}

/// Each rank looks for the session that the first one has found where the launcher of its node shows it. Collective.
///
/// # Errors
/// On all ranks that of one of them: see [`await_same`].
fn begin_on_all(
    wanted: &Wanted,
    comm: &dyn Comm,
    reader: &str,
    (session, origin): (u64, &(String, String)),
    session_lock: Option<SessionLock>,
) -> Result<OpenSession> {
    let is_first = RankSpools::exchange(comm, wanted.spool)?.is_first();
    let seen = await_same(wanted, reader, (session, origin)).and_then(|(directory, handed)| {
        if is_first {
            HandedOver::note_begun(&directory, reader, &wanted.spool.token)?;
        }
        let (token, is_spread, waited, begun) = (origin.0.clone(), true, Duration::ZERO, handed.into());
        Ok(OpenSession { session, token, directory, session_lock, is_first, is_spread, waited, begun })
    });
    agree(comm, seen)
}

/// True if HDF5 has written the session in this directory: it leaves a list of datasets there.
pub fn is_hdf5(directory: &Path) -> bool {
    matches!(Datasets::read(directory), Ok(Some(_)))
}

/// The header, where all ranks reach it by one name, as MPI-IO asks for. If they may be on several nodes that is on the disk that
/// these share. Several ranks have a copy: the writer may remove the session when it takes this component for ended, and Open MPI
/// has the others wait for ever for a rank that finds no file. `None` if there is none; the launcher was told why. Collective.
pub fn header_of(wanted: &Wanted, ranks: &Ranks, incoming: &mut ReadSession) -> Option<PathBuf> {
    let header = incoming.directory().join(HandedOver::PUBLISHED);
    if ranks.is_alone() || ranks.comm().size() == 1 {
        return Some(header);
    }
    let comm = ranks.comm();
    let copied = if comm.rank() == 0 { copy_header(wanted, &header, incoming.is_spread()).map(Some) } else { Ok(None) };
    let shared = agree(comm, copied).and_then(|copied| {
        let there = copied.as_ref().map(|(there, _)| there.clone());
        if let Some((_, directory)) = copied {
            incoming.keep(directory);
        }
        share(comm, &there)
    });
    shared.unwrap_or_else(|error| {
        if comm.rank() == 0 {
            incoming.notify(&format!("its header cannot be copied to where all ranks reach it: {error}"));
        }
        None
    })
}

/// Copies a header into the spool, or to the disk that all nodes share. Returns its path there, and the directory in the spool
/// that it goes with.
fn copy_header(wanted: &Wanted, header: &Path, is_spread: bool) -> Result<(PathBuf, PathBuf)> {
    let name = make_directory(&wanted.spool.directory)?;
    let directory = wanted.spool.directory.join(&name);
    let here = directory.join(HandedOver::HEADER);
    let there = match is_spread {
        true => wanted.spool.disk.join(format!("arrived-{}-{name}.nc", wanted.spool.token)),
        false => here.clone(),
    };
    let linked = if is_spread { std::os::unix::fs::symlink(&there, here) } else { Ok(()) };
    match linked.and_then(|()| std::fs::copy(header, &there)) {
        Ok(_) => Ok((there, directory)),
        Err(error) => {
            HandedOver::discard(&directory);
            Err(Error::write(&there, &error))
        }
    }
}

/// Waits for what comes next, on the first rank.
fn begin_next(wanted: &Wanted, reader: &str) -> Result<(Found, Option<SessionLock>)> {
    let is_spread = Component::launchers(wanted.rule.transfer().rendezvous(), reader) > 1;
    Ok(match await_next(wanted, reader, is_spread)? {
        Next::Session { session, directory, handed, session_lock } => {
            let origin = handed.origin(&directory)?;
            (Found::Session { session, directory, begun: (*handed).into(), origin, is_spread }, Some(session_lock))
        }
        Next::File(made) => (Found::File(made), None),
    })
}
