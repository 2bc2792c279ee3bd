//! `include/knarr.h` is what the sources say. `KNARR_WRITE_DOCS=1 cargo one -p knarr-capi header` writes it anew.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests report by panicking")]

use std::path::Path;

#[test]
fn the_header_is_what_the_sources_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is read");
    let bindings = cbindgen::generate_with_config(root, config).expect("the sources are read");
    let mut made = Vec::new();
    bindings.write(&mut made);
    // What Rust calls safety is to C what its pointers must be.
    let made = String::from_utf8(made).unwrap().replace("\n # Safety\n", "\n Pointers:\n");
    let path = root.join("include/knarr.h");
    if std::env::var_os("KNARR_WRITE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == made, "include/knarr.h is out of date: run KNARR_WRITE_DOCS=1 cargo one -p knarr-capi header");
}
