//! Directories on the way to a file that is restored.

use std::path::Path;

use knarr_array::error::{Error, ErrorKind, Result};

/// Makes the directory of `path`, which has to lie below `target` after links are followed.
///
/// # Errors
/// `Write` if a directory cannot be made, or a link leads out of `target`.
pub fn make_parent(target: &Path, path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let write_error = |error: std::io::Error| Error::write(parent, &error);
    // Directories are made one by one: a link on the way must not lead outside before it is looked at.
    let root = target.canonicalize().map_err(write_error)?;
    let mut at = target.to_owned();
    for part in parent.strip_prefix(target).unwrap_or(Path::new("")).components() {
        at.push(part);
        match std::fs::create_dir(&at) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(write_error(error)),
            _ => {}
        }
        if !at.canonicalize().map_err(write_error)?.starts_with(&root) {
            return Err(Error::new(ErrorKind::Write, "a link on the way leads out of the target directory")
                .hint("restore into an empty directory")
                .at(at.display().to_string()));
        }
    }
    Ok(())
}
