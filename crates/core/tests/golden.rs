//! Frames written by earlier builds still decode to the same bits.
//!
//! `tests/golden/v1` holds, for every codec at its default options, frames of two small arrays, and what they
//! decode to. Missing files are written with `KNARR_WRITE_GOLDEN=1 cargo test -p knarr-core --features testing
//! --test golden`; files that exist are never rewritten: a format that changes gets a new wire id.

#![allow(clippy::unwrap_used, reason = "tests report by panicking")]

use knarr_core::array::{ArraySpec, DType};
use knarr_core::chain::{Chain, ChainSpec, Scratch};
use knarr_core::codec::CodecList;
use knarr_core::frame;
use knarr_core::testing::data::{Pattern, sample};
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/v1")
}

/// The two arrays of a codec: floats with fill values, and integers where it takes them.
fn arrays(codecs: &CodecList, name: &str) -> [(DType, &'static [usize], Pattern); 2] {
    let integers = codecs.named(name).is_ok_and(|codec| codec.supports(DType::I16));
    let second = if integers { DType::I16 } else { DType::F64 };
    // `fixedscale` only differs from `lorenzo` on numbers that have a step.
    let first = if name == "fixedscale" { Pattern::Decimal } else { Pattern::Masked };
    [(DType::F32, &[4, 9, 11], first), (second, &[13, 17], Pattern::Decimal)]
}

/// The codec alone, with a value where it needs one.
fn chain(name: &str) -> String {
    match name {
        "bitround" => "bitround:9".to_owned(),
        "granular" => "granular:3".to_owned(),
        "quantize" | "quantize-rel" => format!("{name}:0.01"),
        "round" => "round:abs=0.01".to_owned(),
        _ => name.to_owned(),
    }
}

/// Frame and decoded bytes, as they are written now.
fn generate(codecs: &CodecList, name: &str, dtype: DType, shape: &[usize], pattern: Pattern) -> [Vec<u8>; 2] {
    let array = sample(dtype, shape, pattern, 11);
    let spec: ChainSpec = chain(name).parse().unwrap();
    let chain = Chain::prepare(codecs, &spec, &array.spec).unwrap();
    let (mut scratch, mut payload, mut framed, mut decoded) = (Scratch::default(), Vec::new(), Vec::new(), Vec::new());
    chain.encode(&array.bytes, &mut scratch, &mut payload).unwrap();
    frame::write(&chain, &payload, &mut framed).unwrap();
    chain.decode(&payload, &mut scratch, &mut decoded).unwrap();
    [framed, decoded]
}

#[test]
fn golden_frames_decode_to_the_same_bits() {
    let codecs = CodecList::pure();
    let write = std::env::var_os("KNARR_WRITE_GOLDEN").is_some_and(|value| value == "1");
    for codec in codecs.iter() {
        for (dtype, shape, pattern) in arrays(&codecs, codec.name()) {
            let path = folder().join(format!("{}.{dtype}.frame", codec.name()));
            if write && !path.exists() {
                let [framed, decoded] = generate(&codecs, codec.name(), dtype, shape, pattern);
                assert!(framed.len() < 4096, "{} is too large", path.display());
                fs::create_dir_all(folder()).unwrap();
                fs::write(&path, framed).unwrap();
                fs::write(path.with_extension("decoded"), decoded).unwrap();
            }
            assert!(path.exists(), "{} is missing: write it as this file's head says", path.display());
        }
    }
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "frame") {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let mut out = Vec::new();
        frame::read(&bytes).unwrap().decode(&codecs, &mut Scratch::default(), &mut out).unwrap();
        assert!(out == fs::read(path.with_extension("decoded")).unwrap(), "{}", path.display());
    }
}

/// Payloads that neither a library nor a search decides are the same in every build and on every machine.
#[test]
fn our_own_formats_are_written_as_before() {
    let codecs = CodecList::pure();
    for codec in codecs.iter().filter(|codec| !matches!(codec.name(), "brotli" | "grid" | "pcodec" | "snappy")) {
        for (dtype, shape, pattern) in arrays(&codecs, codec.name()) {
            let [framed, _] = generate(&codecs, codec.name(), dtype, shape, pattern);
            let golden = fs::read(folder().join(format!("{}.{dtype}.frame", codec.name()))).unwrap();
            assert!(framed == golden, "{} {dtype} is written otherwise", codec.name());
        }
    }
}

/// A frame byte by byte, so that its layout is pinned.
#[test]
fn the_layout_of_a_frame_is_pinned() {
    let mut array = ArraySpec::new(DType::I16, [2, 200]);
    array.fills.push(0x8000);
    let chain = Chain::prepare(&CodecList::pure(), &"shuffle".parse().unwrap(), &array).unwrap();
    let mut framed = Vec::new();
    frame::write(&chain, b"payload", &mut framed).unwrap();
    let header = b"KNRF\x01\x02\x00\x02\x02\xC8\x01\x01\x00\x80\0\0\0\0\0\0\x01\x01\x06size=0\x07";
    assert_eq!(framed.strip_prefix(header).map(<[u8]>::len), Some(4 + 7 + 4));
    assert!(framed[header.len() + 4..].starts_with(b"payload"));
    assert_eq!(framed[framed.len() - 4..], 0xF4E3_6970_u32.to_le_bytes());
}
