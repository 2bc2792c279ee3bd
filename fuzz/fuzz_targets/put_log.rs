//! The log of what a rank has put into a file, and one record of it behind its checksum.
#![no_main]

use knarr_handover::parse_puts;
use knarr_handover::puts_testing::put_comes_back;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = parse_puts(data);
    assert_ne!(put_comes_back(data), Some(false));
});
