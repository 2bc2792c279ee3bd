//! Files that are shown to the program in another form than they have: the launcher writes them into the spool.

use std::path::PathBuf;

use knarr_array::comm::share;
use knarr_array::error::{Error, Result};
use knarr_capture::{Form, HandedOver, Request, Shown};
use serde::{Deserialize, Serialize};

use crate::asking::answer;
use crate::begin::make_directory;
use crate::parts::Homes;
use crate::ranks::Ranks;
use crate::wanted::Wanted;

/// Where something is shown.
#[derive(Serialize, Deserialize)]
pub struct Place {
    /// What goes when the program has closed it: in the spool of the first rank.
    pub directory: PathBuf,
    /// The file, where all ranks reach it.
    pub file: PathBuf,
}

/// Has the launcher show what is at `source`, which the first rank knows, and waits for it. Collective.
///
/// # Errors
/// That of the launcher; `Internal` if it is gone.
pub fn show(wanted: &Wanted, ranks: &Ranks, source: PathBuf, form: Form) -> Result<Place> {
    let homes = Homes::meet(ranks.comm(), wanted.spool)?;
    let asked = match ranks.comm().rank() {
        0 => ask(wanted, source, form, homes.are_apart()),
        _ => Err(Error::internal("the first rank asks")),
    };
    share(ranks.comm(), &asked)?
}

/// Asks for it. If the ranks are on several nodes, the file lies on the disk that they share.
fn ask(wanted: &Wanted, source: PathBuf, form: Form, are_apart: bool) -> Result<Place> {
    let name = make_directory(&wanted.spool.directory)?;
    let directory = wanted.spool.directory.join(&name);
    let mut file = directory.join(Shown::file(form));
    if are_apart {
        let there = wanted.spool.disk.join(format!("shown-{}-{name}.nc", wanted.spool.token));
        // It goes with the directory.
        std::os::unix::fs::symlink(&there, &file).map_err(|error| Error::write(&file, &error))?;
        file = there;
    }
    let shown = Shown { source, rule: wanted.rule.clone(), form };
    let outcome = answer(wanted.run, &Request::Show(Box::new(shown)), &directory);
    if outcome.is_err() {
        HandedOver::discard(&directory);
    }
    outcome.map(|()| Place { directory, file })
}
