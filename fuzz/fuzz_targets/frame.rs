//! The frame reader against hostile bytes. Checksums are whole first, or nothing behind them would be reached.
#![no_main]

mod codecs;

use codecs::codecs;
use knarr_codec::chain::Scratch;
use knarr_codec::frame;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    check(data);
    if let Some(whole) = frame::with_checksums(data) {
        check(&whole);
    }
});

fn check(bytes: &[u8]) {
    let Ok(read) = frame::read(bytes) else { return };
    // A frame may describe a large chunk; what is decoded here stays small.
    if read.array.byte_len() <= 1 << 20 {
        let mut out = Vec::new();
        let _ = read.decode(codecs(), &mut Scratch::default(), &mut out);
    }
}
