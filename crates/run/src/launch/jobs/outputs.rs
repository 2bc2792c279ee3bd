//! Which file has become which output: two of one output would replace each other.

use std::collections::BTreeMap;
use std::path::PathBuf;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::HandedOver;

/// Files by their outputs.
#[derive(Default)]
pub(in crate::launch) struct Outputs(BTreeMap<PathBuf, PathBuf>);

impl Outputs {
    /// Takes the output of a file.
    ///
    /// # Errors
    /// `Exists` if another file has it.
    pub(in crate::launch) fn take(&mut self, handed: &HandedOver) -> Result<()> {
        let output = handed.rule.made_of(&handed.target);
        let Some(first) = self.0.get(&output) else {
            self.0.insert(output, handed.target.clone());
            return Ok(());
        };
        if *first == handed.target {
            return Ok(());
        }
        let what = format!("{} has become that in this run, and would be replaced", first.display());
        let hint = "move what was made elsewhere, and have this one made by 'knarr run --recover'; give the files other names in \
                    the next run";
        Err(Error::new(ErrorKind::Exists, what).hint(hint).at(output.display().to_string()))
    }
}
