//! The reader of Zarr stores against hostile metadata and chunks. The first byte says the version of Zarr, the next two
//! the length of the metadata; what follows it is the first chunk.
#![no_main]

mod codecs;
mod reader;

use std::fs;

use codecs::codecs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(([version, high, low], rest)) = data.split_first_chunk() else { return };
    let (metadata, chunk) = rest.split_at(rest.len().min(usize::from(u16::from_be_bytes([*high, *low]))));
    let store = std::env::temp_dir().join(format!("knarr-fuzz-{}.zarr", std::process::id()));
    let _ = fs::remove_dir_all(&store);
    let (name, chunks): (_, &[&str]) =
        if version & 1 == 0 { (".zarray", &["0", "0.0", "0.0.0"]) } else { ("zarr.json", &["c", "c/0", "c/0/0"]) };
    fs::create_dir(&store).unwrap();
    fs::write(store.join(name), metadata).unwrap();
    // The first chunk of one shape of grid: a name cannot be a file and a folder.
    let key = chunks[usize::from(version >> 1) % chunks.len()];
    fs::create_dir_all(store.join(key).parent().unwrap()).unwrap();
    fs::write(store.join(key), chunk).unwrap();
    reader::read(&store, codecs());
    let _ = fs::remove_dir_all(&store);
});
