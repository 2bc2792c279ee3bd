//! The Python whose packages the tests compare with.
#![allow(clippy::expect_used, clippy::panic, reason = "a test reports by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that `KNARR_PYTHON` names, or `.venv/bin/python` of the repository.
pub(crate) fn python() -> PathBuf {
    let path = std::env::var_os("KNARR_PYTHON")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python"), PathBuf::from);
    assert!(
        path.is_file(),
        "{} is missing: set KNARR_PYTHON to a Python that has the packages of bench/requirements.txt",
        path.display()
    );
    path
}

/// The plugins of that Python's `hdf5plugin` package.
pub(crate) fn plugin_directory() -> PathBuf {
    let output = Command::new(python())
        .args(["-c", "import hdf5plugin; print(hdf5plugin.PLUGIN_PATH)"])
        .output()
        .expect("Python starts");
    assert!(output.status.success(), "hdf5plugin: {}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}
