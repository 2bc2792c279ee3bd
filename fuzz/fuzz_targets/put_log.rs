//! The log of what a rank has put into a file, and one record of it behind its checksum.
#![no_main]

use knarr_handover::{Put, parse_puts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = parse_puts(data);
    if let Ok(put) = Put::parse(data) {
        let mut payload = Vec::new();
        put.payloads(|bytes| payload.extend_from_slice(bytes));
        assert!(Put::parse(&payload).expect("what was written can be read") == put);
    }
});
