//! Every chain of one codec on hostile values.
#![no_main]

mod codecs;
mod head;

use codecs::codecs;
use knarr_array::ErrorKind;
use knarr_codec::chain::Scratch;
use knarr_codec::codec::Loss;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let codecs = codecs();
    let Some((chain, bytes)) = head::choose(codecs, data) else { return };
    // The chunk is as long as its shape says: its bytes repeat.
    let len = chain.input().byte_len();
    if bytes.is_empty() || len > 1 << 20 {
        return;
    }
    let bytes: Vec<u8> = bytes.iter().copied().cycle().take(len).collect();
    let (mut scratch, mut encoded, mut decoded) = (Scratch::default(), Vec::new(), Vec::new());
    match chain.encode(&bytes, &mut scratch, &mut encoded) {
        // Some cannot bound the error of NaN and infinities, or lack bits, say so, and the engine takes another chain.
        Err(error) if error.kind() == ErrorKind::Unsupported => return,
        done => done.unwrap(),
    }
    assert!(encoded.len() <= chain.max_encoded_len());
    chain.decode(&encoded, &mut scratch, &mut decoded).unwrap();
    assert!(chain.loss() == Loss::Lossy || decoded == bytes, "{} on {:?}", chain.spec(), chain.input());
});
