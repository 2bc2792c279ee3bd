//! Names of the files of a component's launchers, in the directory of the component.

use std::fs;
use std::path::Path;

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

/// The numbers of the launchers that have a file of this name, in order.
pub(super) fn numbers(directory: &Path, what: &str) -> Vec<u64> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix(what)?.strip_prefix('.')?.parse().ok();
    let mut found: Vec<u64> = entries.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    found.sort_unstable();
    found
}
