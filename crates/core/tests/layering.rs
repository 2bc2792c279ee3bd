//! The rooms of the design: arrows point down only. Any other edge between crates fails here.

use std::collections::BTreeMap;
use std::process::Command;

/// Crates that each crate may use, as in `docs/architecture.md`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("knarr-core", &[]),
    ("knarr-native", &["knarr-core"]),
    ("knarr-formats", &["knarr-core"]),
    ("knarr-routes", &["knarr-core", "knarr-formats"]),
    ("knarr-mpi", &["knarr-core"]),
    ("knarr-h5filter", &["knarr-core", "knarr-native"]),
    ("knarr-capi", &["knarr-core", "knarr-native", "knarr-formats", "knarr-mpi"]),
    ("knarr-cli", &["knarr-core", "knarr-native", "knarr-formats", "knarr-routes", "knarr-mpi"]),
    ("knarr-preload", &["knarr-core"]),
    ("knarr-python", &["knarr-core", "knarr-native", "knarr-formats", "knarr-routes"]),
];

#[test]
fn arrows_point_down_only() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() >= 4, "the workspace was not found");
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let may =
            allowed.get(name).unwrap_or_else(|| panic!("crate {name} has no room: add it to the list and the page"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let to = dependency["name"].as_str().unwrap();
            // Tests may use what a crate itself may not.
            if to.starts_with("knarr-") && to != name && dependency["kind"].is_null() {
                assert!(may.contains(&to), "{name} must not depend on {to}");
            }
        }
    }
}

#[test]
fn core_has_no_unsafe_code_and_no_foreign_library() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let lib = std::fs::read_to_string(root.join("src/lib.rs")).unwrap();
    assert!(lib.contains("#![forbid(unsafe_code)]"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(!manifest.contains("-sys"), "core links no foreign library");
}
