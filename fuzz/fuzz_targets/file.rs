//! The readers of files that are one piece, netCDF-3, NumPy and Zarr in a ZIP file above all, against hostile bytes. libhdf5
//! reads what is no chunk of HDF5 files; its own faults would show here as well, so such files are left out.
#![no_main]

mod codecs;
mod reader;

use std::fs;

use codecs::codecs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if data.windows(4).any(|bytes| bytes == b"\x89HDF") {
        return;
    }
    let path = std::env::temp_dir().join(format!("knarr-fuzz-{}.nc", std::process::id()));
    fs::write(&path, data).unwrap();
    reader::read(&path, codecs());
});
