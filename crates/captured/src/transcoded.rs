//! Has the launcher write a copy of a file in another format into the spool, for the program to open.

use std::path::PathBuf;

use knarr_array::comm::share;
use knarr_array::error::{Error, Result};
use knarr_capture::{Form, HandedOver, Request, Transcoded};
use serde::{Deserialize, Serialize};

use crate::asking::answer;
use crate::file::begin::make_directory;
use crate::parts::RankSpools;
use crate::ranks::Ranks;
use crate::wanted::Wanted;

/// Where something is shown.
#[derive(Serialize, Deserialize)]
pub struct TranscodedFile {
    /// What goes when the program has closed it: in the spool of the first rank.
    pub directory: PathBuf,
    /// The file, where all ranks reach it.
    pub file: PathBuf,
}

/// Has the launcher show what is at `source`, which the first rank knows, and waits for it. Collective.
///
/// # Errors
/// That of the launcher; `Internal` if it is gone.
pub fn transcode(wanted: &Wanted, ranks: &Ranks, source: PathBuf, form: Form) -> Result<TranscodedFile> {
    let spools = RankSpools::exchange(ranks.comm(), wanted.spool)?;
    let asked = match ranks.comm().rank() {
        0 => ask(wanted, source, form, spools.span_nodes()),
        _ => Err(Error::internal("the first rank asks")),
    };
    share(ranks.comm(), &asked)?
}

/// Asks for it. If the ranks are on several nodes, the file lies on the disk that they share.
fn ask(wanted: &Wanted, source: PathBuf, form: Form, span_nodes: bool) -> Result<TranscodedFile> {
    let name = make_directory(&wanted.spool.directory)?;
    let directory = wanted.spool.directory.join(&name);
    let mut file = directory.join(Transcoded::file(form));
    if span_nodes {
        let there = wanted.spool.disk.join(format!("shown-{}-{name}.nc", wanted.spool.token));
        // It goes with the directory.
        std::os::unix::fs::symlink(&there, &file).map_err(|error| Error::write(&file, &error))?;
        file = there;
    }
    let shown = Transcoded { source, rule: wanted.rule.clone(), form };
    let outcome = answer(wanted.run, &Request::Transcode(Box::new(shown)), &directory);
    if outcome.is_err() {
        HandedOver::discard(&directory);
    }
    outcome.map(|()| TranscodedFile { directory, file })
}
