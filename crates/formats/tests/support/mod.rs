//! What the tests of formats share: Python for fixtures and comparisons, a folder that cleans up.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed when the test ends.
pub(crate) struct Folder(PathBuf);

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Folder {
    pub(crate) fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("knarr-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Names of the files in it, to see that no debris stays.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The interpreter with h5py, hdf5plugin and netCDF4: `KNARR_PYTHON`, or the one of the repository's `.venv`.
fn python() -> PathBuf {
    let python = std::env::var_os("KNARR_PYTHON")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python"), PathBuf::from);
    assert!(python.exists(), "{} is missing: set KNARR_PYTHON or run 'make test'", python.display());
    python
}

/// Runs a script of `tests/` and returns what it printed, and whether it succeeded.
pub(crate) fn try_script(name: &str, arguments: &[&str]) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let output = Command::new(python()).arg(script).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

/// Runs a script of `tests/`, which must succeed.
pub(crate) fn script(name: &str, arguments: &[&str]) -> String {
    let (succeeded, text) = try_script(name, arguments);
    assert!(succeeded, "{name} {arguments:?}:\n{text}");
    text
}

/// Runs a program if it is installed; `None` if it is not.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let output = Command::new(name).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), text))
}
