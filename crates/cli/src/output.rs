//! Small outputs of the program itself: pages, profiles and models. Written beside their place, synced, then renamed.

use std::io::Write;
use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_flow::output::Temporary;

/// Puts a file with these contents at `path`, in place of what is there. A kill at any moment leaves the old file or
/// the new one.
///
/// # Errors
/// `Write` with the path, `Usage` if it has no file name.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> Result<()> {
    let temporary = Temporary::create(path, true)?;
    temporary.file().write_all(contents).map_err(|error| Error::write(path, &error))?;
    temporary.publish().map(|_| ())
}

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

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn replaces_whole_files_and_leaves_nothing_beside() {
        let directory = std::env::temp_dir().join(format!("knarr-output-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("page.html");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        assert!(replace(&directory.join("none").join("page.html"), b"x").is_err());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
