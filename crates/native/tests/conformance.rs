//! Every codec of this crate through the conformance suite.

use knarr_core::codec::CodecList;
use knarr_core::testing::codec_suite;

/// Chains per codec; the test fails for a codec that is not named here.
const CHAINS: &[(&str, &[&str])] = &[
    ("zstd", &["zstd", "zstd:1", "zstd:19"]),
    ("deflate", &["deflate", "deflate:1", "deflate:12"]),
    ("gzip", &["gzip:9"]),
    ("bitshuffle-lz4", &["bitshuffle-lz4", "bitshuffle-lz4:-1"]),
    ("bitshuffle-zstd", &["bitshuffle-zstd", "bitshuffle-zstd:1,block=128"]),
    ("lz4", &["lz4", "lz4:9", "lz4:0,block=512"]),
    ("lz4-sized", &["lz4-sized", "lz4-sized:20"]),
    (
        "blosc",
        &["blosc", "blosc:lz4hc,shuffle=no", "blosc:zlib,level=1,shuffle=bit", "blosc:zstd,level=3,shuffle=byte"],
    ),
    (
        "blosc2",
        &[
            "blosc2",
            "blosc2:zstd,level=1,filter=bytedelta",
            "blosc2:zlib,filter=bitshuffle",
            "blosc2:lz4hc,filter=delta",
            "blosc2:zstd,filter=no",
        ],
    ),
    ("bzip2", &["bzip2", "bzip2:1"]),
    ("xz", &["xz", "xz:0", "xz:9"]),
    ("zfp", &["zfp", "zfp:accuracy,value=0.01", "zfp:precision,value=20"]),
    ("zfpy", &["zfpy", "zfpy:accuracy,value=0.01", "zfpy:precision,value=20"]),
    ("lzf", &["lzf"]),
    ("frame", &["frame"]),
];

#[test]
fn every_codec_passes_the_suite() {
    let codecs = knarr_native::codecs_with_plugins(&[]).unwrap();
    let pure: Vec<_> = CodecList::pure().iter().map(|codec| codec.name()).collect();
    for codec in codecs.iter().filter(|codec| !pure.contains(&codec.name())) {
        let name = codec.name();
        let chains = CHAINS.iter().find(|(known, _)| *known == name).map(|(_, chains)| *chains);
        codec_suite::check(&codecs, name, chains.unwrap_or_else(|| panic!("{name} has no chains to test")));
    }
}
