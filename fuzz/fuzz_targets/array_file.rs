//! The index of a rank's array file, behind its checksum.
#![no_main]

use knarr_checkpoint::library::layout_of;
use knarr_handover::Index;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((end, index)) = data.split_first_chunk() else { return };
    for end in [u64::from_le_bytes(*end), u64::MAX] {
        let Ok(index) = Index::parse(index, end) else { continue };
        assert!(Index::parse(&index.write(end).1, end).expect("what was written can be read") == index);
        // Laying out must not fail; whether arrays make sense together is checked there.
        let _ = layout_of(&index, end).check();
    }
});
