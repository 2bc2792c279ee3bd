//! Every codec of this crate through the conformance suite.

use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;
use knarr_testing::suites;

#[test]
fn every_codec_passes_the_suite() {
    let codecs = knarr_native::codecs_with_plugins(&[]).unwrap();
    let pure: Vec<_> = CodecList::pure().iter().map(|codec| codec.name()).collect();
    for codec in codecs.iter().filter(|codec| !pure.contains(&codec.name())) {
        suites::codec::check(&codecs, codec.name(), codec.examples());
    }
}

/// A shuffle behind these has no use, and users hear so.
#[test]
fn compressors_leave_no_order() {
    let codecs = knarr_native::codecs_with_plugins(&[]).unwrap();
    let idle = |name: &str, shuffle: &str| {
        let chain: ChainSpec = format!("{name} | {shuffle}").parse().unwrap();
        chain.idle_step(&codecs) == Some((shuffle, name))
    };
    for name in ["deflate", "gzip", "zstd", "lz4", "lzf", "snappy", "brotli", "bzip2", "xz", "blosc", "blosc2", "zlib"]
    {
        assert!(idle(name, "shuffle") && idle(name, "bitshuffle"), "{name}");
    }
    for name in ["fletcher32", "bitshuffle", "delta", "lorenzo", "runs", "trailing"] {
        assert!(!idle(name, "shuffle"), "{name}");
    }
}
