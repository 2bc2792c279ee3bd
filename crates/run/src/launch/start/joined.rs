//! A program that reads files of a run that goes on, before they are in their places. It hands nothing over: it shares no more with
//! that run than the names of files that are not there yet.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knarr_array::error::{Error, Result};
use knarr_capture::{NAMES, SOCKET, Snapshot};
use knarr_config::Config;

use crate::launch::spools::run_directory::{RunDirectory, library, preload};
use crate::launch::spools::spool::{SHARED_MEMORY, is_abandoned, launcher_of, spools};
use crate::launch::start::program::{CANNOT_BEGIN, NotStarted, Signals, exit_code};

/// Runs a program that sees the files of the run whose launcher is process `launcher`. Returns its exit code.
///
/// # Errors
/// `Usage` if there is no such run on this node; `Write` if there is no place for what the program needs. A program that cannot be
/// started is a result.
pub fn join(launcher: u32, program: &[OsString]) -> Result<Result<u8, NotStarted>> {
    let all = spools(Path::new(SHARED_MEMORY)).into_iter().filter(|spool| !is_abandoned(spool));
    let unknown = || {
        Error::usage(format!("no run of yours on this node has process {launcher}"))
            .hint("'knarr tiers' shows the runs with files in tiers")
    };
    let mut names = all.filter(|spool| launcher_of(spool) == Some(launcher)).map(|spool| spool.join(NAMES));
    let names = names.find(|names| names.exists()).ok_or_else(unknown)?;
    let run = RunDirectory::new(&Snapshot::new(Config::default()))?;
    let link = run.directory.join(NAMES);
    std::os::unix::fs::symlink(&names, &link).map_err(|error| Error::write(&link, &error))?;
    // Nobody listens.
    fs::remove_file(run.directory.join(SOCKET)).map_err(|error| Error::write(&run.directory, &error))?;
    let preload = preload(&library()?)?;
    let signals = Signals::listen(Arc::new(AtomicBool::new(false)))?;
    let started = signals.start(program, &run.directory, &preload);
    Ok(started.map(|mut child| signals.wait(&mut child).map_or(CANNOT_BEGIN, exit_code)))
}
