//! The plan of an output, saved beside it for `knarr explain`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use knarr_core::error::{Error, Result};
use knarr_core::output::Temporary;
use knarr_core::plan::Plan;

/// Where the plan of an output is saved: beside it, `NAME.knarr.json`.
pub fn plan_path(output: &Path) -> PathBuf {
    let mut name = output.file_name().map(std::ffi::OsStr::to_os_string).unwrap_or_default();
    name.push(".knarr.json");
    output.with_file_name(name)
}

/// Saves the plan beside the output, in place of an older one.
///
/// # Errors
/// `Write` if it cannot be written.
pub fn save_plan(plan: &Plan, output: &Path) -> Result<()> {
    PlanFile::start(plan, output)?.publish()
}

/// A plan on its way to its place. Its own thread writes and syncs it, so that who makes the output meanwhile does not
/// wait for the disk. Dropped, it leaves nothing.
pub(crate) struct PlanFile {
    temporary: Temporary,
    written: JoinHandle<std::io::Result<()>>,
    path: PathBuf,
}

impl PlanFile {
    /// # Errors
    /// `Write` if there cannot be a file.
    pub(crate) fn start(plan: &Plan, output: &Path) -> Result<Self> {
        let path = plan_path(output);
        let text = serde_json::to_vec_pretty(plan).map_err(|error| Error::internal(error.to_string()))?;
        let temporary = Temporary::create(&path, true)?;
        let write = |error: std::io::Error| Error::write(&path, &error);
        let mut file = File::create(temporary.path()).map_err(write)?;
        let written = std::thread::Builder::new()
            .name("knarr-plan".to_owned())
            .spawn(move || file.write_all(&text).and_then(|()| file.sync_all()))
            .map_err(write)?;
        Ok(Self { temporary, written, path })
    }

    /// Puts the plan in its place, for an output that is in its own.
    ///
    /// # Errors
    /// `Write` if it could not be written, or cannot be put there.
    pub(crate) fn publish(self) -> Result<()> {
        let written =
            self.written.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that writes stopped")));
        written.map_err(|error| Error::write(&self.path, &error))?;
        self.temporary.publish_synced()
    }
}
