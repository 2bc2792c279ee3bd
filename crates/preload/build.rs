//! Links the C library without naming the dynamic loader as a library of its own.
//!
//! glibc's `libc.so` names `ld-linux`, which then comes before the program's own libraries wherever a symbol is looked up:
//! 1.3 % of the instructions in which an HDF5 program starts. It is there anyway, as a part of the C library.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        let folder = PathBuf::from(env::var("OUT_DIR")?);
        fs::write(folder.join("libc.so"), "GROUP ( libc.so.6 libc_nonshared.a )\n")?;
        println!("cargo:rustc-link-search=native={}", folder.display());
    }
    Ok(())
}
