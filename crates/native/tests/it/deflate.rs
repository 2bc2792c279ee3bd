//! Streams of `deflate` and `gzip` on inputs that suit each kind of block, and on the edges between them: zlib reads
//! them, as libdeflate does.
#![expect(clippy::unwrap_used, reason = "a test")]

use knarr_array::array::{ArraySpec, DType};
use knarr_codec::codec::{Options, Stage};
use knarr_testing::data::{Random, mixed};

const LEVELS: [i64; 6] = [1, 2, 3, 5, 9, 12];

/// What zlib makes of a zlib stream of `length` bytes.
fn by_zlib(stream: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; length + 1];
    let mut written = bytes.len().try_into().unwrap();
    let stream_length = stream.len().try_into().unwrap();
    // SAFETY: zlib writes at most `written` bytes, which `bytes` has room for, and reads those of `stream` alone.
    let status = unsafe { libz_sys::uncompress(bytes.as_mut_ptr(), &raw mut written, stream.as_ptr(), stream_length) };
    assert_eq!(status, libz_sys::Z_OK);
    bytes.truncate(written.try_into().unwrap());
    bytes
}

/// Encodes `bytes`, in elements of each size, and checks what comes back.
fn check(what: &str, bytes: &[u8], levels: &[i64]) {
    let codecs = knarr_native::codecs().unwrap();
    for (name, dtype) in
        [("deflate", DType::U8), ("deflate", DType::F32), ("deflate", DType::F64), ("gzip", DType::U16)]
    {
        let stage = Stage { spec: ArraySpec::new(dtype, vec![bytes.len() / dtype.size()]), is_array: false };
        for &level in levels {
            let step =
                codecs.named(name).unwrap().prepare(&Options::default().with_int("level", level), &stage).unwrap();
            let (mut stream, mut back) = (Vec::new(), Vec::new());
            step.encode(bytes, &mut stream).unwrap();
            assert!(stream.len() <= step.max_encoded_len(bytes.len()), "{what}: {name}:{level} is too long");
            step.decode(&stream, bytes.len(), &mut back).unwrap();
            assert!(back == bytes, "{what}: {name}:{level}");
            if name == "deflate" {
                assert!(by_zlib(&stream, bytes.len()) == bytes, "{what}: {name}:{level} by zlib");
            }
        }
    }
}

/// A byte whose bits are each 1 with the same chance.
fn noise(random: &mut Random) -> u8 {
    random.bits().to_le_bytes()[4]
}

#[test]
fn edges_of_blocks_and_regions_come_back() {
    let mut random = Random::new(11);
    for edge in [0usize, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10] {
        for length in edge.saturating_sub(1)..=edge + 1 {
            let noise: Vec<u8> = (0..length).map(|_| noise(&mut random)).collect();
            check("noise", &noise, &[1, 5]);
            check("one value", &vec![0x60; length], &[1, 5]);
            let two: Vec<u8> = noise.iter().map(|byte| byte & 1).collect();
            check("two values", &two, &[1, 5]);
        }
    }
}

#[test]
fn kinds_of_bytes_come_back_at_each_level() {
    let mut random = Random::new(12);
    let mut every =
        |kind: &dyn Fn(&mut Random, usize) -> u8| -> Vec<u8> { (0..150_001).map(|at| kind(&mut random, at)).collect() };
    // Noise of 7.92 bits: the quick levels store it, the others do not.
    let nearly_noise = every(&|random, _| noise(random) % 242);
    let counted = every(&|_, at| at.to_le_bytes()[0]);
    let rare = every(&|random, at| if at % 40_000 == 77 { noise(random) } else { 3 });
    let fibonacci = every(&|random, _| random.bits().trailing_zeros().to_le_bytes()[0]);
    for (what, bytes) in [
        ("nearly noise", nearly_noise),
        ("all values in turn", counted),
        ("runs of any length", rare),
        ("codes of every length", fibonacci),
    ] {
        check(what, &bytes, &LEVELS);
    }
}

#[test]
fn runs_of_every_length_come_back() {
    let mut random = Random::new(13);
    let mut bytes = Vec::new();
    for length in (1..540).chain([5000, 70_000, 300_000]) {
        bytes.extend(std::iter::repeat_n(noise(&mut random), length));
        bytes.push(noise(&mut random));
    }
    check("runs", &bytes, &LEVELS);
}

#[test]
fn parts_of_different_kinds_come_back() {
    let mut random = Random::new(14);
    for parts in 0..12 {
        let bytes = mixed(&mut random, parts);
        check("mixed", &bytes, &[LEVELS[parts % 6]]);
    }
}
