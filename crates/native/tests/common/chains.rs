//! Chains to try of every codec of this crate.

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
    ("zlib", &["zlib", "zlib:0", "zlib:1", "zlib:9"]),
    ("szip", &["szip", "szip:8,coding=ec", "szip:32"]),
    ("frame", &["frame"]),
];

/// The chains of a codec.
pub(crate) fn chains_of(name: &str) -> &'static [&'static str] {
    let found = CHAINS.iter().find(|(known, _)| *known == name);
    found.map(|(_, chains)| *chains).unwrap_or_else(|| panic!("{name} has no chains to test"))
}
