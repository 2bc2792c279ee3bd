//! Where HDF5 filter plugins are looked for.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories that HDF5 itself and its packages use, beside those of the environment. `*` stands for any name.
const STANDARD: &[&str] = &[
    "/usr/local/hdf5/lib/plugin",
    "/usr/local/lib/hdf5/plugin",
    "/usr/lib/hdf5/plugins",
    "/usr/lib/*/hdf5/plugins",
    "/usr/lib/*/hdf5/serial/plugins",
    "/usr/lib64/hdf5/plugin",
];

/// HDF5 takes this value to mean that no plugin is to be loaded.
const NO_PLUGINS: &str = "::";

/// The directories that exist, in the order in which they are searched: `HDF5_PLUGIN_PATH`, HDF5's standard places,
/// then the `hdf5plugin` package of the Python environments that `VIRTUAL_ENV`, `CONDA_PREFIX` and `PATH` lead to.
/// Empty if `HDF5_PLUGIN_PATH` is `::`.
pub fn directories() -> Vec<PathBuf> {
    let path = env::var_os("HDF5_PLUGIN_PATH");
    if path.as_deref() == Some(OsStr::new(NO_PLUGINS)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let asked = path.iter().flat_map(env::split_paths).filter(|directory| !directory.as_os_str().is_empty());
    let standard = STANDARD.iter().flat_map(|pattern| expand(pattern));
    for directory in asked.chain(standard).chain(python_prefixes().iter().flat_map(|prefix| in_prefix(prefix))) {
        // Most are not there, which is told sooner than where they would lie.
        if !directory.is_dir() {
            continue;
        }
        // Prefixes reach the same place by different names.
        let Ok(directory) = directory.canonicalize() else { continue };
        if !found.contains(&directory) {
            found.push(directory);
        }
    }
    found
}

/// The plugin directories of an installation prefix: those of its `hdf5plugin` packages and, for conda, of HDF5.
fn in_prefix(prefix: &Path) -> Vec<PathBuf> {
    let pattern = |tail: &str| format!("{}/{tail}", prefix.display());
    [
        "lib/python3*/site-packages/hdf5plugin/plugins",
        "lib64/python3*/site-packages/hdf5plugin/plugins",
        "lib/python3*/dist-packages/hdf5plugin/plugins",
        "lib/python3/dist-packages/hdf5plugin/plugins",
        "lib/hdf5/plugin",
    ]
    .iter()
    .flat_map(|tail| expand(&pattern(tail)))
    .collect()
}

/// Prefixes of Python environments: active ones first, then `DIR/..` for each directory of `PATH` that has a
/// `python3`, then the user's own packages.
fn python_prefixes() -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(env::var_os).map(PathBuf::from).collect();
    let path = env::var_os("PATH").unwrap_or_default();
    prefixes.extend(
        env::split_paths(&path)
            .filter(|directory| directory.join("python3").exists())
            .filter_map(|directory| directory.parent().map(Path::to_path_buf)),
    );
    prefixes.extend(env::var_os("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes
}

/// Paths that match a pattern in which `*` may stand in any component, sorted by name within a directory.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from("/")];
    for component in pattern.split('/').filter(|component| !component.is_empty()) {
        paths = match component.split_once('*') {
            None => paths.into_iter().map(|path| path.join(component)).collect(),
            Some((start, end)) => paths.iter().flat_map(|path| matching(path, start, end)).collect(),
        };
    }
    paths
}

fn matching(directory: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(start) && name.ends_with(end)))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_name() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = expand(&format!("{}/s*/plug*/directories.rs", root.display()));
        assert_eq!(found, [root.join("src/plugin/directories.rs")]);
        assert!(expand("/no-such-place-*/x").is_empty());
    }
}
