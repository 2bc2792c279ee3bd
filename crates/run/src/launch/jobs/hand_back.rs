//! Hands a packed file back: it is stored as the program has made it, without the filters that packing gave it, before its ranks
//! write it. It is packed again when the program has ended.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::engine::{Engine, Progress, Silent};
use knarr_formats::hdf5::AsMade;
use knarr_routes::compress::unpack;
use serde::{Deserialize, Serialize};

use crate::launch::jobs::exchange::{Exchanged, copy_properties, exchange, shut};
use crate::launch::jobs::packed::PackedFiles;
use crate::launch::jobs::replacement::Replacement;
use knarr_capture::processes::{Identity, name_of, writer};
use knarr_worker::{Pool, Share, Task};

/// Writes what a packed file holds to another one, as the program has made it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Unpack {
    #[serde(with = "knarr_array::path_bytes")]
    input: PathBuf,
    #[serde(with = "knarr_array::path_bytes")]
    output: PathBuf,
    as_made: AsMade,
}

impl Task for Unpack {
    const NAME: &'static str = "unpack";
    /// False if there was nothing to change.
    type Answer = bool;

    fn run(self, engine: &Engine, _: &dyn Progress) -> Result<bool> {
        unpack(engine, &self.input, &self.output, &self.as_made)
    }
}

/// A file to hand back.
pub(in crate::launch) struct HandBack {
    pub(in crate::launch) path: PathBuf,
    pub(in crate::launch) packed: Arc<PackedFiles>,
    pub(in crate::launch) workers: Arc<Pool>,
    pub(in crate::launch) share: Share,
    pub(in crate::launch) cancel: Arc<AtomicBool>,
    pub(in crate::launch) gate: PathBuf,
    /// Where files are made, if that is on the file system of this one.
    pub(in crate::launch) scratch: PathBuf,
}

impl HandBack {
    /// Does it. False for a file that is as the program has made it.
    ///
    /// # Errors
    /// Why it cannot be: the file is what it was.
    pub(in crate::launch) fn run(&self) -> Result<bool> {
        let read_error = |error: std::io::Error| Error::new(ErrorKind::Read, error.to_string());
        let original = File::open(&self.path).map_err(read_error)?;
        let before = original.metadata().map_err(read_error)?;
        let Some(as_made) = self.packed.of(&before) else {
            // A mark that could not be removed.
            self.packed.forget(&before);
            return Ok(false);
        };
        let busy = |what: &str| Error::new(ErrorKind::Write, format!("it cannot be unpacked for writing: {what}"));
        if before.nlink() > 1 {
            return Err(busy("it has other names (hard links)"));
        }
        if let Some(process) = writer(Identity::of(&before)) {
            return Err(busy(&format!("it is open for writing in process {process}")));
        }
        let mut plain = Replacement::new(&self.path, &before, &self.scratch);
        let task = Unpack { input: self.path.clone(), output: plain.path().to_owned(), as_made };
        let is_changed = self.workers.ask(&task, &self.share, &self.cancel, &Silent).map_err(Error::from);
        if !is_changed? {
            self.packed.forget(&before);
            return Ok(false);
        }
        let write_error = |error: std::io::Error| Error::new(ErrorKind::Write, error.to_string());
        copy_properties(&original, &before, plain.path()).map_err(write_error)?;
        let Some(_gate) = shut(&self.gate)? else { return Err(busy("the program keeps opening files")) };
        let Some(path) = name_of(&original) else { return Err(busy("the program has removed or replaced it")) };
        match exchange((&original, &before), &mut plain, &path)? {
            Exchanged::Yes => {
                self.packed.forget(&before);
                Ok(true)
            }
            Exchanged::Changed => Err(busy("it was written meanwhile")),
            Exchanged::Removed => Err(busy("the program has removed it")),
            Exchanged::Displaced(error) => Err(error),
        }
    }
}
