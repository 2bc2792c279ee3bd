//! The index of a rank's array file, behind its checksum.
#![no_main]

use knarr_checkpoint::library::testing::comes_back;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((end, index)) = data.split_first_chunk() else { return };
    for end in [u64::from_le_bytes(*end), u64::MAX] {
        assert_ne!(comes_back(index, end), Some(false));
    }
});
