//! The same work on each of several files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::arguments::inputs::Found;

/// The inputs in their order, and the errors of those that are not there. Some are.
///
/// # Errors
/// The first error where nothing is there.
pub(crate) fn there(found: Found) -> Result<(Vec<PathBuf>, HashMap<PathBuf, Error>)> {
    if let Some((_, Some(error))) = found.first()
        && found.iter().all(|(_, missing)| missing.is_some())
    {
        return Err(error.clone());
    }
    let paths = found.iter().map(|(path, _)| path.clone()).collect();
    Ok((paths, found.into_iter().filter_map(|(path, missing)| Some((path, missing?))).collect()))
}

/// An input that was not repacked.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failed {
    /// As named.
    pub(crate) input: PathBuf,
    /// As named.
    pub(crate) output: PathBuf,
    /// What was told.
    pub(crate) error: String,
    /// What the command returns if this is the first.
    pub(crate) exit_code: u8,
}

/// Does `one` for each job and tells its error at once. Others go on, except after an interrupt.
pub(crate) fn each<T>(
    jobs: &[(PathBuf, PathBuf)],
    mut one: impl FnMut(&Path, &Path) -> Result<T>,
) -> (Vec<T>, Vec<Failed>) {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (input, output) in jobs {
        match one(input, output) {
            Ok(result) => done.push(result),
            Err(error) => {
                let exit_code = crate::report_error(&error);
                let (input, output) = (input.clone(), output.clone());
                failed.push(Failed { input, output, error: error.to_string(), exit_code });
                if error.kind() == ErrorKind::Interrupted {
                    break;
                }
            }
        }
    }
    (done, failed)
}

/// As [`each`], for a command that writes no outputs.
pub(crate) fn each_alone<T>(inputs: &[PathBuf], mut one: impl FnMut(&Path) -> Result<T>) -> (Vec<T>, Vec<Failed>) {
    let jobs: Vec<_> = inputs.iter().map(|input| (input.clone(), PathBuf::new())).collect();
    each(&jobs, |input, _| one(input))
}

/// The exit code of the first failure; several inputs are counted.
pub(crate) fn code_of(failed: &[Failed], inputs: usize) -> u8 {
    if inputs > 1 && !failed.is_empty() {
        errln!("knarr: {} of {inputs} inputs failed", failed.len());
    }
    failed.first().map_or(0, |first| first.exit_code)
}
