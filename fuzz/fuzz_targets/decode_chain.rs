//! Every decoder of the list against hostile streams.
#![no_main]

mod codecs;
mod head;

use codecs::codecs;
use knarr_codec::chain::Scratch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let codecs = codecs();
    let Some((chain, stream)) = head::choose(codecs, data) else { return };
    let mut out = Vec::new();
    if chain.decode(stream, &mut Scratch::default(), &mut out).is_ok() {
        assert_eq!(out.len(), chain.input().byte_len());
    }
});
