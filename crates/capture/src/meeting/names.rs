//! Names of the files of a component's launchers, in the directory of the component.

use std::ffi::OsString;
use std::path::Path;
use std::{fs, io};

use crate::settled::settled;

/// What the names of a launcher's files begin with; its number follows.
pub(super) const RUNNING: &str = "running";
pub(super) const ENDED: &str = "ended";
pub(super) const ADDRESS: &str = "address";
/// There the number of the node follows.
pub(super) const NODE: &str = "node";

/// That of a file of a launcher.
pub(super) fn name_of(what: &str, number: u64) -> String {
    format!("{what}.{number}")
}

/// All names in a directory.
///
/// # Errors
/// Those of the file system.
pub(super) fn in_directory(directory: &Path) -> io::Result<Vec<OsString>> {
    settled(|| fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect())
}

/// The numbers of the launchers that have a file of this name, in order.
pub(super) fn numbers(directory: &Path, what: &str) -> Vec<u64> {
    let names = in_directory(directory).unwrap_or_default();
    let number = |name: &str| name.strip_prefix(what)?.strip_prefix('.')?.parse().ok();
    let mut found: Vec<u64> = names.iter().filter_map(|name| number(name.to_str()?)).collect();
    found.sort_unstable();
    found
}
