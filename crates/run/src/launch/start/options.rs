//! What is run, and how.

use std::ffi::OsString;
use std::path::PathBuf;

use knarr_worker::means::Resources;

/// What is asked of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Configuration file.
    pub config: PathBuf,
    /// What packing may take.
    pub resources: Resources,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// The name of the program among those that transfer files to each other.
    pub component: Option<String>,
    /// The restart files of the newest whole set are brought back before the program starts.
    pub restart: bool,
    /// With `restart`: files that differ from those of the set are replaced.
    pub force: bool,
    /// The library with Knarr's HDF5 filter, if there is one.
    pub filter: Option<PathBuf>,
    /// The command as typed: plans and files that are packed say it.
    pub command: String,
    /// Date and time of it, ISO 8601.
    pub when: String,
}
