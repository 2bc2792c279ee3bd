//! Every codec of the list runs the conformance suite.

use std::sync::Arc;

use knarr_codec::codec::CodecList;
use knarr_codec::frame::Framed;
use knarr_codec::testing::codec_suite;

/// Chains that exercise a codec. A codec without a line here fails the test.
fn chains(name: &str) -> &'static [&'static str] {
    match name {
        "bitround" => &["bitround:7", "bitround:0 | shuffle", "bitround:23"],
        "granular" => &["granular:1", "granular:3 | xor", "granular:7"],
        "quantize" => &["quantize:0.01", "quantize:0.5,step=decimal | pcodec:1", "quantize:1e-3,step=full"],
        "quantize-rel" => &["quantize-rel:0.01", "quantize-rel:1e-6 | shuffle"],
        "delta" => &["delta", "delta:raw", "delta:rounded", "delta | delta | shuffle"],
        "lorenzo" => {
            &["lorenzo", "lorenzo:1", "lorenzo:2,order=2", "lorenzo:4,order=2 | lorenzo:4", "lorenzo | pcodec:0"]
        }
        "xor" => &["xor", "xor | bitshuffle | snappy"],
        "shuffle" => &["shuffle", "shuffle:2", "shuffle:3", "shuffle | snappy", "shuffle | shuffle | shuffle:8"],
        "bitshuffle" => &["bitshuffle", "bitshuffle:8", "bitshuffle:-1", "bitshuffle:64,size=3", "snappy | bitshuffle"],
        "fletcher32" => &["fletcher32", "shuffle | fletcher32", "fletcher32 | bitshuffle | fletcher32"],
        "pcodec" => &["pcodec", "pcodec:0", "pcodec:1 | shuffle | fletcher32"],
        "fixedscale" => &[
            "fixedscale",
            "fixedscale:0",
            "fixedscale:1 | shuffle | snappy",
            "quantize:0.1,step=decimal | fixedscale:2",
        ],
        "signs" => &["signs", "signs | shuffle | brotli:3"],
        "trailing" => &["trailing", "bitround:5 | trailing | shuffle | snappy", "lorenzo | trailing"],
        "brotli" => &["brotli", "brotli:0", "brotli:1", "shuffle | brotli:2"],
        "snappy" => &["snappy", "bitshuffle | snappy"],
        "grid" => &["grid", "grid | shuffle:1"],
        "runs" => &["runs", "runs | snappy", "lorenzo | runs | shuffle:2"],
        "round" => &["round:abs=0.01", "round:rel=0.001 | shuffle | snappy", "round:bits=9", "round:digits=3,abs=0.5"],
        _ => &[],
    }
}

#[test]
fn every_codec_keeps_the_contract() {
    let codecs = CodecList::pure();
    for codec in codecs.iter() {
        let name = codec.name();
        assert!(!chains(name).is_empty(), "add a line for codec '{name}' to this file");
        codec_suite::check(&codecs, name, chains(name));
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
