//! Inputs: files and patterns.

use std::path::PathBuf;

use knarr_core::error::{Error, ErrorKind, Result};

/// Expands patterns that the shell did not, and checks that everything named exists.
pub(crate) fn expand(names: &[String]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for name in names {
        let path = PathBuf::from(name);
        if path.exists() {
            paths.push(path);
            continue;
        }
        if !name.contains(['*', '?', '[']) {
            return Err(Error::new(ErrorKind::NotFound, "no such file or directory")
                .mend("check the name")
                .at(name.clone()));
        }
        let found = glob::glob(name).map_err(|error| Error::usage(format!("pattern '{name}': {error}")))?;
        let before = paths.len();
        paths.extend(found.flatten());
        if paths.len() == before {
            return Err(Error::new(ErrorKind::NotFound, "no file matches the pattern")
                .mend("check it")
                .at(name.clone()));
        }
    }
    Ok(paths)
}
