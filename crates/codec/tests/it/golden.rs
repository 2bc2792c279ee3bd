//! Frames written by earlier builds still decode to the same bits.
//!
//! `tests/golden/v1` holds, for every codec, frames of two small arrays by the first of its examples, and what they
//! decode to. `KNARR_WRITE_GOLDEN=1 cargo one -p knarr-codec golden` writes what is missing.

#![allow(clippy::unwrap_used, reason = "tests report by panicking")]

use knarr_array::array::{ArraySpec, DType};
use knarr_codec::chain::Chain;
use knarr_codec::codec::{Codec, CodecList};
use knarr_codec::frame;
use knarr_testing::data::Pattern;
use knarr_testing::golden::{Array, Golden, decode_all};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/v1")
}

/// The two arrays of a codec: floats with fill values, and integers where it takes them.
fn arrays(codecs: &CodecList, name: &str) -> [Array; 2] {
    let integers = codecs.named(name).is_ok_and(|codec| codec.supports(DType::I16));
    let second = if integers { DType::I16 } else { DType::F64 };
    // `fixedscale` only differs from `lorenzo` on numbers that have a step.
    let first = if name == "fixedscale" { Pattern::Decimal } else { Pattern::Masked };
    [(DType::F32, &[4, 9, 11], first), (second, &[13, 17], Pattern::Decimal)]
}

fn each(codecs: &CodecList, f: impl Fn(&dyn Codec, &Golden<'_>)) {
    let folder = folder();
    for codec in codecs.iter() {
        let chain = codec.examples().first().unwrap();
        for array in arrays(codecs, codec.name()) {
            f(codec.as_ref(), &Golden { folder: &folder, stem: codec.name(), chain, array });
        }
    }
}

#[test]
fn golden_frames_decode_to_the_same_bits() {
    let codecs = CodecList::pure();
    each(&codecs, |_, golden| golden.require(&codecs));
    assert!(decode_all(&codecs, &folder()) >= 2 * codecs.iter().count());
}

/// Payloads that neither a library nor a search decides are the same in every build and on every machine.
#[test]
fn our_own_formats_are_written_as_before() {
    let codecs = CodecList::pure();
    each(&codecs, |codec, golden| {
        if codec.has_fixed_output() {
            golden.require_same_bytes(&codecs);
        }
    });
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
