//! Names the file that an error is about.

use std::path::Path;

use knarr_array::error::{Error, ErrorKind};

/// An error of a step that reads `input` and writes: what is not about writing is the input's.
pub(super) fn blamed(error: Error, input: &Path) -> Error {
    match error.kind() {
        ErrorKind::Write | ErrorKind::Exists => error,
        _ => in_file(error, input),
    }
}

/// `error`, about the file at `path` unless it says so.
pub(super) fn in_file(error: Error, path: &Path) -> Error {
    let place = path.display().to_string();
    if error.to_string().starts_with(&place) { error } else { error.at(place) }
}
