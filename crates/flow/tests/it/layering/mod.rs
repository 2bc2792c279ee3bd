//! The rooms of the design: arrows point down only, between crates and between files. Any other fails here.
#![allow(clippy::unwrap_used, reason = "test code")]

mod imports;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use imports::{arrows, circle};

/// Crates that each crate may use, as in `docs/architecture.md`.
const ALLOWED: &[(&str, &str)] = &[
    ("array", ""),
    ("mpi", "array"),
    ("ucx", ""),
    ("link", "array ucx"),
    ("caller", ""),
    ("names", ""),
    ("dtf", ""),
    ("grid", "array"),
    ("codec", "array grid"),
    ("choose", "array codec"),
    ("flow", "array codec choose"),
    ("tier", ""),
    ("handover", "array codec flow link tier"),
    ("checkpoint", "array codec choose flow tier link handover"),
    ("native", "array codec"),
    ("zip", "array flow"),
    ("input", "array codec flow checkpoint"),
    ("hdf5", "array codec flow checkpoint handover input"),
    ("formats", "array codec choose flow checkpoint handover zip input hdf5"),
    ("config", "array codec choose flow checkpoint"),
    ("capture", "array codec flow config handover tier link names"),
    ("captured", "array codec handover tier link capture config mpi names"),
    ("pnetcdf", "array caller handover capture captured config mpi names"),
    ("hdf5-hooks", "array codec flow handover capture captured config caller names"),
    ("name-hooks", "caller capture captured names"),
    ("preload", "capture captured hdf5-hooks name-hooks pnetcdf"),
    ("routes", "array codec choose flow handover formats"),
    ("s3", "array flow"),
    ("h5filter", "array codec flow native caller"),
    ("capi", "array codec choose flow handover checkpoint native formats routes mpi"),
    ("capi-static", "array codec choose flow handover checkpoint native mpi"),
    ("python", "array codec choose flow checkpoint config native formats routes s3"),
    ("worker", "array choose flow config capture native s3"),
    ("decisions", "array codec choose flow capture"),
    ("watch", "array codec flow checkpoint config capture native formats worker"),
    (
        "run",
        "array codec choose flow handover tier link checkpoint config capture native formats routes names worker decisions watch",
    ),
    ("testing", "array codec flow link tier"),
    ("cli", "array codec choose flow checkpoint config native formats routes s3 mpi link tier worker watch run"),
];

/// Crates without unsafe code. They link no C library.
const SAFE: &[&str] = &[
    "array",
    "grid",
    "codec",
    "choose",
    "flow",
    "handover",
    "checkpoint",
    "config",
    "capture",
    "decisions",
    "zip",
    "link",
    "input",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder of a crate.
fn folder_of(name: &str) -> PathBuf {
    crates().join(match name {
        "pnetcdf" => "hooks/pnetcdf",
        "hdf5-hooks" => "hooks/hdf5",
        "name-hooks" => "hooks/names",
        name => name,
    })
}

#[test]
fn arrows_between_crates_point_down_only() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let allowed: BTreeMap<&str, &str> = ALLOWED.iter().copied().collect();
    // Fuzz targets are no room: they may use all.
    let packages = metadata["packages"].as_array().unwrap();
    let packages: Vec<_> = packages.iter().filter(|package| package["name"] != "knarr-fuzz").collect();
    assert_eq!(packages.len(), ALLOWED.len(), "the list and the workspace differ");
    for package in packages {
        let name = package["name"].as_str().unwrap().trim_start_matches("knarr-");
        let may =
            allowed.get(name).unwrap_or_else(|| panic!("crate {name} has no room: add it to the list and the page"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let Some(to) = dependency["name"].as_str().unwrap().strip_prefix("knarr-") else { continue };
            // Tests may use what a crate itself may not.
            if to != name && dependency["kind"].is_null() {
                assert!(may.split(' ').any(|allowed| allowed == to), "{name} must not depend on {to}");
            }
        }
    }
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let (mut circles, mut files) = (Vec::new(), 0);
    for (name, _) in ALLOWED {
        let source = folder_of(name).join("src");
        // The other form of a crate has the sources of that one.
        if *name == "capi-static" {
            continue;
        }
        let arrows = arrows(&source);
        files += arrows.len();
        circles.extend(circle(&arrows).map(|circle| format!("{name}: {}", circle.join(" -> "))));
    }
    assert!(files > 300, "only {files} files were read");
    assert!(circles.is_empty(), "cut one of these arrows:\n{}", circles.join("\n"));
}

#[test]
fn crates_beneath_the_formats_have_no_unsafe_code_and_link_no_c_library() {
    for name in SAFE {
        let lib = std::fs::read_to_string(crates().join(name).join("src/lib.rs")).unwrap();
        assert!(lib.contains("#![forbid(unsafe_code)]"), "{name} may have unsafe code");
    }
    // What is linked, not what crates are called: `links` is how a package says that it brings a library.
    let tree = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&tree.stdout).unwrap();
    let links: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package["links"].as_str()?)))
        .collect();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let needs: BTreeMap<&str, Vec<&str>> =
        nodes.iter().map(|node| (node["id"].as_str().unwrap(), needed(node))).collect();
    assert!(links.values().any(|library| library.contains("hdf5")), "libraries were not found: {links:?}");
    for name in SAFE {
        let path = format!("crates/{name}#");
        let mut open: Vec<&str> = needs.keys().copied().filter(|id| id.contains(&path)).collect();
        assert_eq!(open.len(), 1, "{name} was not found");
        let mut seen = open.clone();
        while let Some(id) = open.pop() {
            // Crates that are Rust throughout name a library so that only one of their versions is linked.
            let brings = links.get(id).filter(|library| !RUST_ONLY.contains(library));
            assert_eq!(brings, None, "{name} links a library by {id}");
            for next in needs.get(id).into_iter().flatten().filter(|next| !seen.contains(next)).collect::<Vec<_>>() {
                seen.push(next);
                open.push(next);
            }
        }
    }
}

/// Values of `links` of crates without C.
const RUST_ONLY: &[&str] = &["rayon-core", "prettyplease02", "wasm_bindgen"];

/// Packages that a node of the graph needs to run: not to be built or tested.
fn needed(node: &serde_json::Value) -> Vec<&str> {
    let is_normal = |kinds: &serde_json::Value| kinds.as_array().unwrap().iter().any(|kind| kind["kind"].is_null());
    let needs = node["deps"].as_array().unwrap().iter().filter(|need| is_normal(&need["dep_kinds"]));
    needs.filter_map(|need| need["pkg"].as_str()).collect()
}
