//! The reader of tables of numbers as text against hostile text. The first byte says what the name ends with, which says
//! what may be a separator.
#![no_main]

mod codecs;
mod reader;

use std::fs;

use codecs::codecs;
use libfuzzer_sys::fuzz_target;

const ENDINGS: [&str; 3] = ["csv", "tsv", "txt"];

fuzz_target!(|data: &[u8]| {
    let Some((ending, text)) = data.split_first() else { return };
    let ending = ENDINGS[usize::from(*ending) % ENDINGS.len()];
    let path = std::env::temp_dir().join(format!("knarr-fuzz-{}.{ending}", std::process::id()));
    fs::write(&path, text).unwrap();
    reader::read(&path, codecs());
});
