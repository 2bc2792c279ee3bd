//! Chunk by chunk as the HDF5 filter encodes: what goes in comes out, bounds hold, equal sequences give equal bytes.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use knarr_array::array::{ArraySpec, DType, Endian, swap_bytes};
use knarr_array::error::ErrorKind;
use knarr_array::quality::Quality;
use knarr_codec::chain::Scratch;
use knarr_codec::client_data::{Chunks, ClientData, FilterOptions};
use knarr_codec::codec::CodecList;
use knarr_codec::frame;
use knarr_flow::engine::Engine;
use knarr_flow::online::Online;
use knarr_testing::data::{DTYPES, Pattern, sample};

fn online() -> Online {
    Online::new(Engine { jobs: 1, ..Engine::new(CodecList::pure()) })
}

fn words(quality: Quality, spec: &ArraySpec) -> Vec<u32> {
    let options = FilterOptions { quality, ..FilterOptions::default() };
    ClientData { options, chunks: Some(Chunks::Array(spec.clone())) }.words().unwrap()
}

fn decoded(encoded: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::read(encoded).unwrap().decode(&CodecList::pure(), &mut Scratch::default(), &mut out).unwrap();
    out
}

const PATTERNS: [Pattern; 4] = [Pattern::Smooth, Pattern::Noise, Pattern::Masked, Pattern::Special];

/// Chunks of one dataset, of kinds that alternate, the first one constant.
fn chunks(dtype: DType, shape: &[usize]) -> (ArraySpec, Vec<Vec<u8>>) {
    let samples: Vec<_> =
        (0..24u64).map(|seed| sample(dtype, shape, PATTERNS[usize::try_from(seed / 2 % 4).unwrap()], seed)).collect();
    let spec = samples[4].spec.clone();
    let mut chunks: Vec<Vec<u8>> = samples.into_iter().map(|sample| sample.bytes).collect();
    chunks[0].fill(7);
    (spec, chunks)
}

#[test]
fn every_type_comes_back_and_nothing_grows_by_more_than_a_header() {
    for dtype in DTYPES {
        let (spec, chunks) = chunks(dtype, &[13, 40, 11]);
        let (online, words) = (online(), words(Quality::LOSSLESS, &spec));
        for (number, raw) in chunks.iter().enumerate() {
            let mut out = Vec::new();
            let outcome = online.encode(&words, raw, &mut out).unwrap();
            assert!(!outcome.fell_back && !outcome.refuted);
            assert_eq!(&decoded(&out), raw, "{dtype} chunk {number}");
            assert!(out.len() <= raw.len() + 128, "{dtype} chunk {number}: {} of {}", out.len(), raw.len());
        }
    }
}

#[test]
fn bounds_hold_for_every_kind_of_chunk_in_both_byte_orders() {
    let qualities = [
        Quality { max_abs_error: Some(0.05), ..Quality::LOSSLESS },
        Quality { max_range_error: Some(1e-3), ..Quality::LOSSLESS },
        Quality { max_rel_error: Some(1e-4), finest_abs_error: Some(1e-6), ..Quality::LOSSLESS },
        Quality { significant_digits: Some(3), ..Quality::LOSSLESS },
        Quality { max_abs_error: Some(1e-300), ..Quality::LOSSLESS },
    ];
    for (quality, dtype, endian) in qualities.iter().flat_map(|quality| {
        [DType::F32, DType::F64]
            .into_iter()
            .flat_map(move |dtype| [Endian::Little, Endian::Big].map(|endian| (*quality, dtype, endian)))
    }) {
        let (mut spec, chunks) = chunks(dtype, &[9, 30, 33]);
        spec.endian = endian;
        let (online, words) = (online(), words(quality, &spec));
        for mut raw in chunks {
            if endian == Endian::Big {
                swap_bytes(&mut raw, dtype.size());
            }
            let mut out = Vec::new();
            online.encode(&words, &raw, &mut out).unwrap();
            quality.bound_of(&spec, &raw).unwrap().check(&spec, &raw, &decoded(&out)).unwrap();
        }
    }
}

#[test]
fn zeros_beyond_the_edge_do_not_widen_a_range() {
    let quality = Quality { max_range_error: Some(0.01), ..Quality::LOSSLESS };
    for endian in [Endian::Little, Endian::Big] {
        let spec = ArraySpec { endian, ..ArraySpec::new(DType::F32, [1000]) };
        let part = ArraySpec { shape: vec![300], ..spec.clone() };
        let (online, words) = (online(), words(quality, &spec));
        // Values from 290 to 310 in less than a third of the chunk.
        let values = (0..1000u16).map(|i| if i < 300 { 300.0 + 10.0 * (f32::from(i) * 0.03).sin() } else { 0.0 });
        let mut raw: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        if endian == Endian::Big {
            swap_bytes(&mut raw, 4);
        }
        let mut out = Vec::new();
        online.encode(&words, &raw, &mut out).unwrap();
        let back = decoded(&out);
        assert_ne!(back, raw);
        quality.bound_of(&part, &raw[..1200]).unwrap().check(&part, &raw[..1200], &back[..1200]).unwrap();
    }
}

#[test]
fn equal_sequences_give_equal_bytes_and_other_datasets_do_not_matter() {
    let (spec, chunks) = chunks(DType::F32, &[20, 50, 21]);
    let lossless = words(Quality::LOSSLESS, &spec);
    let lossy = words(Quality { max_abs_error: Some(0.01), ..Quality::LOSSLESS }, &spec);
    let run = |beside: bool| -> Vec<Vec<u8>> {
        let online = online();
        let encode = |words: &[u32], raw: &[u8]| {
            let mut out = Vec::new();
            online.encode(words, raw, &mut out).unwrap();
            out
        };
        chunks
            .iter()
            .map(|raw| {
                if beside {
                    encode(&lossy, raw);
                }
                encode(&lossless, raw)
            })
            .collect()
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn threads_may_share_a_dataset() {
    let (spec, chunks) = chunks(DType::F64, &[20, 50, 21]);
    let (online, words) = (online(), words(Quality::LOSSLESS, &spec));
    std::thread::scope(|scope| {
        for shift in 0..4 {
            let (online, words, chunks) = (&online, &words, &chunks);
            scope.spawn(move || {
                for number in 0..chunks.len() {
                    let raw = &chunks[(number + shift) % chunks.len()];
                    let mut out = Vec::new();
                    online.encode(words, raw, &mut out).unwrap();
                    assert_eq!(&decoded(&out), raw);
                }
            });
        }
    });
}

#[test]
fn more_datasets_than_are_remembered_are_served() {
    let online = online();
    for _ in 0..2 {
        for extent in 100..200usize {
            let raw = vec![1; extent];
            let mut out = Vec::new();
            online.encode(&words(Quality::LOSSLESS, &ArraySpec::new(DType::U8, [extent])), &raw, &mut out).unwrap();
            assert_eq!(decoded(&out), raw);
        }
    }
}

#[test]
fn bytes_of_another_filter_may_have_any_length() {
    let online = online();
    let words = ClientData { chunks: Some(Chunks::Bytes), ..ClientData::default() }.words().unwrap();
    for length in [1usize, 7, 1000, 77_777, 1000] {
        let raw: Vec<u8> = (0..length).map(|i| u8::try_from(i * i % 251).unwrap()).collect();
        let mut out = Vec::new();
        online.encode(&words, &raw, &mut out).unwrap();
        assert_eq!(decoded(&out), raw);
    }
}

#[test]
fn what_is_no_chunk_is_refused() {
    let online = online();
    let spec = ArraySpec::new(DType::I32, [10]);
    let kind = |words: &[u32], raw: &[u8]| online.encode(words, raw, &mut Vec::new()).unwrap_err().kind();
    assert_eq!(kind(&words(Quality::LOSSLESS, &spec), &[0; 39]), ErrorKind::Usage);
    assert_eq!(kind(&[1], &[0; 40]), ErrorKind::Usage);
    assert_eq!(kind(&[9], &[0; 40]), ErrorKind::Unsupported);
    let lossy = Quality { max_abs_error: Some(0.1), ..Quality::LOSSLESS };
    assert_eq!(kind(&words(lossy, &spec), &[0; 40]), ErrorKind::Quality);
}

/// Words for lossless chunks at the least energy.
fn energy(spec: &ArraySpec) -> Vec<u32> {
    let options = FilterOptions { goal: "energy".parse().unwrap(), ..FilterOptions::default() };
    ClientData { options, chunks: Some(Chunks::Array(spec.clone())) }.words().unwrap()
}

#[test]
fn at_the_least_energy_a_mask_is_said_once_and_values_are_left_alone() {
    let spec = ArraySpec::new(DType::F64, [20, 82, 88]);
    let chunk = |seed: u64| -> Vec<u8> {
        // Values of which every bit counts.
        let noise = |i: u64| (i * 64 + seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        let is_value = |i: u64| (i / 44).is_multiple_of(4);
        let bits = |i: u64| if is_value(i) { noise(i).wrapping_mul(noise(i) | 1) } else { (-9.99e30f64).to_bits() };
        (0..20 * 82 * 88).flat_map(|i| bits(i).to_le_bytes()).collect()
    };
    let (online, words, codecs) = (online(), energy(&spec), CodecList::pure());
    for seed in 0..3 {
        let (raw, mut out) = (chunk(seed), Vec::new());
        online.encode(&words, &raw, &mut out).unwrap();
        assert_eq!(decoded(&out), raw);
        assert_eq!(frame::read(&out).unwrap().chain(&codecs).unwrap().to_string(), "runs");
        assert!(out.len() * 39 < raw.len() * 10, "{} of {}", out.len(), raw.len());
    }
}

#[test]
fn at_the_least_energy_datasets_of_any_shape_may_follow_each_other() {
    let encode = |online: &Online, shape: &[usize], pattern: Pattern| {
        let sample = sample(DType::F32, shape, pattern, 3);
        let mut out = Vec::new();
        online.encode(&energy(&sample.spec), &sample.bytes, &mut out).unwrap();
        assert_eq!(decoded(&out), sample.bytes, "{shape:?} {pattern:?}");
    };
    let shapes: [&[usize]; 5] = [&[12, 90, 181], &[12, 90, 180], &[90 * 181], &[1, 3, 1, 90, 181], &[700, 30]];
    for pattern in PATTERNS {
        for first in shapes {
            let online = online();
            encode(&online, first, pattern);
            // Whatever came before, another pattern or a chain that does not serve the shape: nothing is lost.
            for (shape, pattern) in shapes.iter().flat_map(|shape| PATTERNS.map(|other| (shape, other))) {
                encode(&online, shape, pattern);
            }
        }
    }
}
