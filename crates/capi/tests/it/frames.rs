//! Arrays of every type and shape come back; damage, wrong calls and many threads do no harm.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "numbers that wrap are values as good as others")]
#![allow(clippy::host_endian_bytes, reason = "memory as a program has it")]

use crate::common::{Context, Element, field, hints, info, last_error, nothing};
use knarr::abi::*;
use knarr::knarr_context;
use knarr::types::{knarr_hints, knarr_status, knarr_validation};
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

const USAGE: knarr_status = knarr_status::KNARR_USAGE;
const OK: knarr_status = knarr_status::KNARR_OK;

fn every_shape<T: Element>(make: impl Fn(usize) -> T) {
    let context = Context::new("");
    for shape in [&[][..], &[0], &[4, 0, 3], &[1], &[70_000], &[3, 70_001], &[2, 3, 4, 5, 6], &[2; 12], &[1; 32]] {
        let values: Vec<T> = (0..shape.iter().product()).map(&make).collect();
        let (frame, back) = context.round_trip(&values, shape);
        assert!(values == back, "{shape:?}");
        let info = context.inspect(&frame).unwrap();
        assert_eq!((info.dtype, info.rank as usize, &info.shape[..shape.len()]), (T::DTYPE, shape.len(), shape));
        assert_eq!((info.raw_size, info.frame_size, info.lossy), (size_of_val(&values[..]), frame.len(), 0));
    }
}

#[test]
fn every_type_and_shape_comes_back() {
    every_shape(|i| i as i8);
    every_shape(|i| (i * i) as i16);
    every_shape(|i| i as i32 - 500);
    every_shape(|i| i64::MIN + i as i64);
    every_shape(|i| (i * 7) as u8);
    every_shape(|i| u16::MAX - i as u16);
    every_shape(|i| u32::MAX - i as u32);
    every_shape(|i| u64::MAX - (i as u64) * 12_345);
    every_shape(|i| (i as f32).sin());
    every_shape(|i| 1e300 * (i as f64).cos());
}

#[test]
fn noise_takes_no_more_than_the_bound() {
    let mut state = 7u64;
    let noise: Vec<u64> = (0..5_000)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
        .collect();
    let (frame, back) = Context::new("").round_trip(&noise, &[50, 100]);
    assert!(back == noise && frame.len() < 40_000 + 100, "{} bytes", frame.len());
}

#[test]
fn equal_arrays_give_equal_frames_in_any_thread() {
    let context = Context::new("max_abs_error=0.01");
    let values = field(40_000);
    let alone = context.compress(&values, &[200, 200]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (context, values, alone) = (&context, &values, &alone);
            scope.spawn(move || {
                for _ in 0..5 {
                    let (frame, back) = context.round_trip(values, &[200, 200]);
                    assert!(frame == *alone);
                    assert_eq!(back.len(), values.len());
                    // Errors belong to the thread that made them.
                    let (_, why) = context.decompress::<f32>(&frame, thread).unwrap_err();
                    assert!(why.contains(&format!("the destination has {} bytes", thread * 4)), "{why}");
                }
            });
        }
    });
}

#[test]
fn a_flipped_byte_is_an_error_or_harmless() {
    let values = field(900);
    for text in ["", "max_abs_error=0.1", "goal=speed", "chain=raw"] {
        let context = Context::new(text);
        let (frame, back) = context.round_trip(&values, &[30, 30]);
        for at in 0..frame.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut damaged = frame.clone();
                damaged[at] ^= flip;
                match context.decompress::<f32>(&damaged, values.len()) {
                    Ok(values) => assert!(values == back, "byte {at} of '{text}'"),
                    Err((status, why)) => assert!(
                        matches!(status, knarr_status::KNARR_CORRUPT | knarr_status::KNARR_UNSUPPORTED),
                        "byte {at} of '{text}': {why}"
                    ),
                }
                assert!(context.inspect(&damaged).is_err(), "byte {at} of '{text}'");
            }
        }
        for length in 0..frame.len() {
            assert_eq!(context.inspect(&frame[..length]).map(drop).unwrap_err().0, knarr_status::KNARR_CORRUPT);
        }
        assert_eq!(context.inspect(&[&frame[..], &[0]].concat()).map(drop).unwrap_err().0, knarr_status::KNARR_CORRUPT);
    }
}

#[test]
fn buffers_need_not_be_aligned() {
    let values = field(3_000);
    let context = Context::new("max_abs_error=0.01");
    let expected = context.round_trip(&values, &[3_000]);
    for offset in 1..8 {
        let mut source = vec![0u8; offset];
        source.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        let (mut frame, mut back) = (vec![0u8; 20_000], vec![0u8; 12_000 + offset]);
        let mut length = 0;
        let shape = [0u8; 1].into_iter().chain(3_000usize.to_ne_bytes()).collect::<Vec<u8>>();
        // SAFETY: all buffers are as long as is said.
        unsafe {
            let (source, shape) = (source[offset..].as_ptr().cast(), shape[1..].as_ptr().cast());
            let target = frame[offset..].as_mut_ptr().cast();
            assert_eq!(knarr_compress(context.0, source, 10, 1, shape, target, 19_000, &raw mut length), OK);
            let target = back[offset..].as_mut_ptr().cast();
            let frame = frame[offset..].as_ptr().cast();
            assert_eq!(knarr_decompress(context.0, frame, length, target, 12_000, null_mut()), OK);
        }
        assert!(frame[offset..offset + length] == expected.0);
        assert!(back[offset..] == expected.1.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>());
    }
}

#[test]
fn buffers_that_are_too_small_are_refused_and_not_touched() {
    let values = field(1_000);
    let context = Context::new("");
    let frame = context.compress(&values, &[1_000]).unwrap();
    let (_, why) = context.decompress::<f32>(&frame, 999).unwrap_err();
    assert!(why.contains("needs 4000") && why.contains("knarr_inspect"), "{why}");
    let (mut small, mut length) = (vec![9u8; frame.len() - 1], 0);
    // SAFETY: all buffers are as long as is said.
    let status = unsafe {
        let target = small.as_mut_ptr().cast();
        knarr_compress(context.0, values.as_ptr().cast(), 10, 1, &1_000, target, small.len(), &raw mut length)
    };
    assert_eq!((status, length), (USAGE, frame.len()));
    assert!(small.iter().all(|&byte| byte == 9));
    let mut larger = vec![0f32; 2_000];
    // SAFETY: as above.
    let status = unsafe {
        let target = larger.as_mut_ptr().cast();
        knarr_decompress(context.0, frame.as_ptr().cast(), frame.len(), target, 8_000, &raw mut length)
    };
    assert_eq!((status, length), (OK, 4_000));
    assert!(larger[..1_000] == values && larger[1_000..].iter().all(|&value| value == 0.0));
}

#[test]
fn null_pointers_and_numbers_out_of_range_are_named() {
    let context = Context::new("");
    let frame = context.compress(&[1.0f32], &[1]).unwrap();
    let (source, shape, mut size, mut room) = ([1.0f32], [1usize], 0, [0u8; 100]);
    let mut found = info();
    let none = nothing::<knarr_context>();
    let (data, target, to) = (source.as_ptr().cast(), room.as_mut_ptr().cast(), frame.as_ptr().cast());
    // SAFETY: every pointer is null or as the interface wants it.
    unsafe {
        let compress = |context, data, dtype, rank, shape, target, room, size| {
            (knarr_compress(context, data, dtype, rank, shape, target, room, size), last_error())
        };
        let refused = |(status, why): (knarr_status, String), name: &str| {
            assert!(status == USAGE && why.contains(name) && why.contains("; "), "{status:?}: {why}");
        };
        let shape = shape.as_ptr();
        refused(compress(none, data, 10, 1, shape, target, 100, &raw mut size), "'context' is a null pointer");
        refused(compress(context.0, nothing(), 10, 1, shape, target, 100, &raw mut size), "'source'");
        refused(compress(context.0, data, 10, 1, nothing(), target, 100, &raw mut size), "'shape'");
        refused(compress(context.0, data, 10, 1, shape, null_mut(), 100, &raw mut size), "'frame'");
        refused(compress(context.0, data, 10, 1, shape, target, 100, null_mut()), "'frame_size'");
        for dtype in [0, 12, -1, i32::MAX] {
            refused(compress(context.0, data, dtype, 1, shape, target, 100, &raw mut size), "'dtype' is");
        }
        for rank in [-1, 33, i32::MIN] {
            refused(compress(context.0, data, 10, rank, shape, target, 100, &raw mut size), "'rank' is");
        }
        let huge = [usize::MAX, 2, 0];
        assert_eq!(
            compress(context.0, data, 10, 3, huge.as_ptr(), target, 100, &raw mut size).0,
            knarr_status::KNARR_UNSUPPORTED
        );
        assert_eq!(knarr_compress_bound(10, 1, shape, null_mut()), USAGE);
        let large = isize::MAX as usize - 1;
        assert_eq!(knarr_compress_bound(5, 1, &large, &raw mut size), OK);
        assert!(size > large);
        assert_eq!(knarr_inspect(context.0, nothing(), 10, &raw mut found), USAGE);
        assert_eq!(knarr_inspect(context.0, to, usize::MAX, &raw mut found), USAGE);
        assert_eq!(knarr_inspect(context.0, to, frame.len(), null_mut()), USAGE);
        found.size = 8;
        refused((knarr_inspect(context.0, to, frame.len(), &raw mut found), last_error()), "'info.size' is 8");
        assert_eq!(knarr_decompress(context.0, to, frame.len(), null_mut(), 4, null_mut()), USAGE);
        let no_result = null_mut::<knarr_validation>();
        assert_eq!(knarr_validate(context.0, to, frame.len(), data, 10, 1, shape, null_mut(), no_result), USAGE);
        assert_eq!(knarr_hints_init(null_mut(), size_of::<knarr_hints>()), USAGE);
        let mut wrong = hints("");
        assert_eq!(knarr_hints_init(&raw mut wrong, 16), USAGE);
        assert_eq!(knarr_hints_set(&raw mut wrong, nothing()), USAGE);
        assert_eq!(knarr_hints_set(&raw mut wrong, c"\xFF".as_ptr()), USAGE);
        assert_eq!(knarr_hints_print(nothing(), null_mut(), 0, null_mut()), USAGE);
        assert_eq!(knarr_context_create(nothing(), null_mut()), USAGE);
        wrong.size = 0;
        let mut made = std::ptr::dangling_mut();
        refused((knarr_context_create(&wrong, &raw mut made), last_error()), "'hints.size' is 0");
        assert!(made.is_null());
        knarr_context_free(made);
    }
}

#[test]
fn text_is_cut_as_snprintf_does() {
    let hints = hints("max_abs_error=0.5 goal=ratio");
    let whole = "max_abs_error=0.5 goal=\"ratio\"";
    for capacity in [0, 1, 5, 200] {
        let (mut text, mut length) = ([1 as c_char; 200], 0);
        // SAFETY: there is room for `capacity` bytes.
        unsafe {
            assert_eq!(knarr_hints_print(&hints, text.as_mut_ptr(), capacity, &raw mut length), OK);
            assert_eq!(length, whole.len());
            if capacity > 0 {
                let seen = CStr::from_ptr(text.as_ptr()).to_str().unwrap();
                assert_eq!(seen, &whole[..whole.len().min(capacity - 1)]);
            }
        }
        assert!(text[capacity..].iter().all(|&c| c == 1));
    }
}

#[test]
fn a_profile_is_read_and_a_missing_one_named() {
    let (status, why) = Context::try_new("profile=/nowhere/profile.json").map(drop).unwrap_err();
    assert_eq!(status, knarr_status::KNARR_NOT_FOUND);
    assert!(why.contains("/nowhere/profile.json"), "{why}");
    let path = std::env::temp_dir().join(format!("knarr-capi-{}.json", std::process::id()));
    std::fs::write(&path, "{}").unwrap();
    let (status, _) = Context::try_new(&format!("profile='{}'", path.display())).map(drop).unwrap_err();
    assert_eq!(status, knarr_status::KNARR_CONFIG);
    std::fs::write(&path, include_str!("../../../choose/src/profile/built-in.json")).unwrap();
    let context = Context::new(&format!("profile='{}'", path.display()));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(context.compress(&field(100), &[100]).unwrap(), Context::new("").compress(&field(100), &[100]).unwrap());
}

#[test]
fn the_words_of_the_filter_say_the_hints() {
    let (mut words, mut count) = ([0u32; 20], 0);
    let hints = hints("max_abs_error=0.01 exact_from=300 fill_value=1e20 goal=ratio");
    // SAFETY: there is room for 20 words.
    unsafe {
        assert_eq!(knarr_filter_words(&hints, words.as_mut_ptr(), 20, &raw mut count), OK);
        assert_eq!(knarr_filter_words(&hints, words.as_mut_ptr(), 2, &raw mut count), USAGE);
    }
    let read = knarr_codec::client_data::ClientData::parse(&words[..count]).unwrap().options;
    assert_eq!(
        (read.quality.max_abs_error, read.quality.exact_from, read.missing),
        (Some(0.01), Some(300.0), Some(1e20))
    );
    assert_eq!(read.goal.to_string(), "ratio");
    let chain = crate::common::hints("chain=raw");
    // SAFETY: as above.
    let status = unsafe { knarr_filter_words(&chain, words.as_mut_ptr(), 20, &raw mut count) };
    assert_eq!(status, knarr_status::KNARR_UNSUPPORTED);
}
