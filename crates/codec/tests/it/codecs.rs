//! Every codec of the list runs the conformance suite.

use std::sync::Arc;

use knarr_codec::codec::CodecList;
use knarr_codec::frame::Framed;
use knarr_testing::suites;

#[test]
fn every_codec_keeps_the_contract() {
    let codecs = CodecList::pure();
    for codec in codecs.iter() {
        suites::codec::check(&codecs, codec.name(), codec.examples());
    }
}

#[test]
fn names_and_wire_ids_are_unique() {
    let mut seen = CodecList::default();
    // Not in the list, for it needs one.
    seen.push(Arc::new(Framed::new(CodecList::pure()))).unwrap();
    for codec in CodecList::pure().iter() {
        assert!(codec.wire_id() < 100, "{}: numbers from 100 on are those of C libraries and plugins", codec.name());
        seen.push(codec.clone()).unwrap();
    }
}
