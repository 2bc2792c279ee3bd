//! Small outputs of the program itself: profiles and models.

use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_flow::output::replace;

/// Puts `value` as JSON at `path`, as [`replace`] does; makes the directory if asked to.
///
/// # Errors
/// As for [`replace`].
pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize, make_directory: bool) -> Result<()> {
    if let Some(directory) = path.parent().filter(|_| make_directory) {
        std::fs::create_dir_all(directory).map_err(|error| Error::write(directory, &error))?;
    }
    let mut text = serde_json::to_string_pretty(value).map_err(|error| Error::internal(error.to_string()))?;
    text.push('\n');
    replace(path, text.as_bytes())
}
