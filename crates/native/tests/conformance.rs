//! Every codec of this crate through the conformance suite.

mod common;

use common::chains::chains_of;
use knarr_codec::codec::CodecList;
use knarr_codec::testing::codec_suite;

#[test]
fn every_codec_passes_the_suite() {
    let codecs = knarr_native::codecs_with_plugins(&[]).unwrap();
    let pure: Vec<_> = CodecList::pure().iter().map(|codec| codec.name()).collect();
    for codec in codecs.iter().filter(|codec| !pure.contains(&codec.name())) {
        let name = codec.name();
        codec_suite::check(&codecs, name, chains_of(name));
    }
}
