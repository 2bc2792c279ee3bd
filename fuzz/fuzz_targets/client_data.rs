//! Client data of the HDF5 filter against hostile words. The checksum is mended first, or nothing behind it would be
//! reached.
#![no_main]

use knarr_codec::client_data::{ClientData, set_checksum};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut words: Vec<u32> = data.as_chunks::<4>().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
    check(&words);
    set_checksum(&mut words);
    check(&words);
});

fn check(words: &[u32]) {
    if let Ok(data) = ClientData::parse(words) {
        // What was read can be written, and says the same.
        let again = ClientData::parse(&data.words().unwrap()).unwrap();
        assert_eq!(again.chunks, data.chunks);
        assert_eq!(again.words().unwrap(), data.words().unwrap());
    }
}
