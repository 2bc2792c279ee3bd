//! Frames of the codecs that wrap C libraries, written by earlier builds, still decode to the same bits.
//!
//! `tests/golden/v1/native` holds frames of two small arrays for every example of a codec.
//! `KNARR_WRITE_GOLDEN=1 cargo one -p knarr-native golden` writes what is missing.

use knarr_array::array::DType;
use knarr_codec::codec::{Codec, CodecList};
use knarr_testing::data::Pattern;
use knarr_testing::golden::{Golden, decode_all};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/v1/native")
}

fn each(codecs: &CodecList, f: impl Fn(&dyn Codec, &Golden<'_>)) {
    let (folder, pure) = (folder(), CodecList::pure());
    for codec in codecs.iter().filter(|codec| pure.named(codec.name()).is_err()) {
        let second = if codec.supports(DType::I16) { DType::I16 } else { DType::F64 };
        for &chain in codec.examples() {
            // Names of files: `blosc2.zstd.level-1.filter-no`, `shuffle+lz4`.
            let stem = chain.replace(" | ", "+").replace([':', ','], ".").replace('=', "-");
            for array in [(DType::F32, &[4, 9, 11][..], Pattern::Decimal), (second, &[13, 17][..], Pattern::Decimal)] {
                f(codec.as_ref(), &Golden { folder: &folder, stem: &stem, chain, array });
            }
        }
    }
}

#[test]
fn golden_frames_decode_to_the_same_bits() {
    let codecs = knarr_native::codecs_with_plugins(&[]).unwrap();
    each(&codecs, |_, golden| golden.require(&codecs));
    assert!(decode_all(&codecs, &folder()) >= 60);
}

/// Formats that leave their encoder no choice, or whose encoder is this crate's own; and zlib, whose bytes are made again
/// when checkpoints are restored.
#[test]
fn formats_without_a_search_are_written_as_before() {
    let codecs = knarr_native::codecs_with_plugins(&[]).unwrap();
    each(&codecs, |codec, golden| {
        if codec.has_fixed_output() {
            golden.require_same_bytes(&codecs);
        }
    });
}
