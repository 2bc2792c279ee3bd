//! What the launcher is asked to do, while the program waits.

use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_capture::program::Run;
use knarr_capture::{Event, HandedOver, Request};

use crate::file::begin::make_directory;
use crate::waiting::LOOK_EVERY;
use crate::wanted::Wanted;

/// Asks the launcher in a directory of the spool, and waits for its answer.
///
/// # Errors
/// That of the launcher; `Internal` if it is gone.
pub(crate) fn answer(run: &Run, request: &Request, directory: &Path) -> Result<()> {
    request.ask(directory)?;
    run.notify(Event::Asked { directory: directory.to_owned() });
    loop {
        match Request::outcome(directory)? {
            Some(outcome) => return outcome,
            None if !directory.is_dir() => return Err(Error::internal("the launcher finds no room for its answer")),
            None if run.is_alive() => std::thread::sleep(LOOK_EVERY),
            None => return Err(Error::internal("the launcher is gone")),
        }
    }
}

/// Has the launcher store a file that it has packed as the program has made it.
///
/// # Errors
/// As for [`answer`]: the file is what it was.
pub fn hand_back(wanted: &Wanted) -> Result<()> {
    let spool = &wanted.spool.directory;
    let directory = spool.join(make_directory(spool)?);
    let outcome = answer(wanted.run, &Request::HandBack { path: wanted.target.clone() }, &directory);
    HandedOver::discard(&directory);
    outcome
}
