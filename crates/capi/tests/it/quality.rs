//! What is promised holds for every element, where others broke it: NaN, fill values, protected ranges, forced chains.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by panicking")]

use crate::common::{Context, bits, field};
use knarr::types::knarr_status;

/// Bounds of every kind, each with the test that it holds for a value and what became of it.
type Holds = fn(f64, f64) -> bool;
const BOUNDS: [(&str, Holds); 6] = [
    ("max_abs_error=0.01", |x, y| (x - y).abs() <= 0.01),
    ("max_range_error=0.001", |x, y| (x - y).abs() <= 0.0402),
    ("max_rel_error=1e-4", |x, y| (x - y).abs() <= 1e-4 * x.abs()),
    ("max_rel_error=1e-4 finest_abs_error=0.5", |x, y| (x - y).abs() <= (1e-4 * x.abs()).max(0.5)),
    ("significant_digits=4", |x, y| (x - y).abs() <= 0.05),
    ("significant_bits=8", |x, y| (x - y).abs() <= x.abs() / 512.0),
];

#[test]
fn every_bound_holds_for_every_element_and_makes_frames_smaller() {
    let values = field(60_000);
    let exact = Context::new("goal=ratio").round_trip(&values, &[100, 600]);
    assert_eq!(bits(&exact.1), bits(&values));
    for (text, holds) in BOUNDS {
        let (frame, back) = Context::new(&format!("{text} goal=ratio")).round_trip(&values, &[100, 600]);
        assert!(frame.len() < exact.0.len(), "{text}: {} bytes", frame.len());
        for (x, y) in values.iter().zip(&back) {
            assert!(holds(f64::from(*x), f64::from(*y)), "{text}: {x} became {y}");
        }
        let doubles: Vec<f64> = values.iter().map(|&x| f64::from(x) + 1e-9).collect();
        let (_, back) = Context::new(text).round_trip(&doubles, &[100, 600]);
        assert!(doubles.iter().zip(&back).all(|(x, y)| holds(*x, *y)), "{text} for doubles");
    }
}

#[test]
fn values_that_are_not_finite_and_the_fill_of_the_type_come_back_exactly() {
    let mut values = field(10_000);
    let nan = f32::from_bits(0x7FC1_2345);
    for (at, special) in [(0, f32::INFINITY), (17, f32::NEG_INFINITY), (500, nan), (9_999, -0.0)] {
        values[at] = special;
    }
    // 1e20 is no f32: the values hold the nearest one.
    (1_000..4_000).step_by(3).for_each(|at| values[at] = 1e20);
    for (text, _) in BOUNDS {
        let (_, back) = Context::new(&format!("{text} fill_value=1e20")).round_trip(&values, &[10_000]);
        for (x, y) in values.iter().zip(&back) {
            let special = !x.is_finite() || *x == 1e20;
            assert!(!special || x.to_bits() == y.to_bits(), "{text}: {x} became {y}");
        }
        // Were the fill a value like others, the range would be that of the fill.
        let (_, lone) = Context::new(text).round_trip(&values[..900], &[900]);
        assert!(lone.iter().zip(&values).all(|(y, x)| x.is_finite() || x.to_bits() == y.to_bits()), "{text}");
    }
}

#[test]
fn one_infinity_spoils_nothing_else() {
    let mut values = field(10_000);
    values[5_000] = f32::INFINITY;
    let context = Context::new("max_range_error=1e-3");
    let (frame, back) = context.round_trip(&values, &[100, 100]);
    assert!(frame.len() < 20_000, "{} bytes", frame.len());
    let far = values.iter().zip(&back).filter(|(x, y)| x.is_finite() && (**x - **y).abs() > 0.0402).count();
    assert_eq!(far, 0);
}

#[test]
fn protected_ranges_are_exact_in_every_chain() {
    let values = field(20_000);
    let protects = |x: f32| x <= 270.1 || x >= 290.1;
    assert!(values.iter().filter(|x| protects(**x)).count() > 5_000);
    for (text, _) in BOUNDS {
        let context = Context::new(&format!("{text} exact_up_to=270.1 exact_from=290.1 goal=ratio"));
        let (_, back) = context.round_trip(&values, &[200, 100]);
        for (x, y) in values.iter().zip(&back) {
            assert!(!(protects(*x) || protects(*y)) || x.to_bits() == y.to_bits(), "{text}: {x} became {y}");
        }
        assert!(bits(&values) != bits(&back), "{text}: nothing between the ranges changed");
    }
    // Chains of the user either know the ranges or are refused; none breaks them.
    let chains = [
        "round:abs=0.01,up_to=270.1,from=290.1 | zstd",
        "round:abs=0.01 | zstd",
        "quantize:0.01 | shuffle | zstd:1",
        "quantize-rel:1e-5 | zstd",
        "bitround:12 | lz4",
        "granular:4 | zstd",
        "zfp:accuracy,value=0.01",
        "zfp:precision,value=14",
        "lorenzo | shuffle | zstd",
    ];
    let mut refused = 0;
    for chain in chains {
        let text = format!("max_abs_error=0.01 exact_up_to=270.1 exact_from=290.1 chain='{chain}'");
        match Context::new(&text).compress(&values, &[200, 100]) {
            Ok(_) => drop(Context::new(&text).round_trip(&values, &[200, 100])),
            Err((status, why)) => {
                assert_eq!(status, knarr_status::KNARR_QUALITY, "{why}");
                assert!(why.contains("must stay exact") || why.contains("exceeds"), "{why}");
                refused += 1;
            }
        }
    }
    assert!((1..chains.len() - 1).contains(&refused), "{refused} refused");
}

#[test]
fn chains_that_cannot_keep_the_bound_are_refused() {
    let values = field(5_000);
    for (text, names) in [
        ("max_abs_error=1e-4 chain='bitround:3 | zstd'", "exceeds"),
        ("max_abs_error=1e-4 chain='zfp:precision,value=8'", "exceeds"),
        ("chain='quantize:0.1 | zstd'", "the quality is lossless"),
    ] {
        let (status, why) = Context::new(text).compress(&values, &[50, 100]).unwrap_err();
        assert_eq!(status, knarr_status::KNARR_QUALITY, "{text}: {why}");
        assert!(why.contains(names), "{text}: {why}");
    }
    // One element among many, which no sample sees.
    let mut values = field(400_000);
    values[399_999] = 3.3e7 + 7.0;
    let (status, why) =
        Context::new("max_abs_error=0.1 chain='bitround:12 | zstd'").compress(&values, &[400_000]).unwrap_err();
    assert!(status == knarr_status::KNARR_QUALITY && why.contains("breaks the bound"), "{why}");
    let (frame, back) = Context::new("max_abs_error=0.1").round_trip(&values, &[400_000]);
    assert!(frame.len() < 800_000 && (back[399_999] - values[399_999]).abs() <= 0.1);
    let (status, why) = Context::try_new("chain='quantise:0.1'").map(drop).unwrap_err();
    assert_eq!(status, knarr_status::KNARR_USAGE);
    assert!(why.contains("there is no codec 'quantise'"), "{why}");
    // A bound for whole numbers is refused, not ignored.
    let (context, whole) = (Context::new("max_abs_error=1"), [1i32, 2, 3]);
    let (status, why) = context.compress(&whole, &[3]).unwrap_err();
    assert_eq!(status, knarr_status::KNARR_QUALITY, "{why}");
    let frame = Context::new("").compress(&whole, &[3]).unwrap();
    assert_eq!(context.validate(&frame, &whole, &[3]).unwrap_err().0, knarr_status::KNARR_QUALITY);
}

#[test]
fn observed_accuracy_is_in_the_words_of_the_hints() {
    let values = field(30_000);
    let context = Context::new("max_abs_error=0.05 goal=ratio");
    let frame = context.compress(&values, &[300, 100]).unwrap();
    let back: Vec<f32> = context.decompress(&frame, values.len()).unwrap();
    let (seen, found) = context.validate(&frame, &values, &[300, 100]).unwrap();
    let error = |at: usize| f64::from((values[at] - back[at]).abs());
    let worst = (0..values.len()).max_by(|&a, &b| error(a).total_cmp(&error(b))).unwrap();
    assert_eq!(error(usize::try_from(found.worst_abs).unwrap()), error(worst));
    assert_eq!(seen.max_abs_error, error(worst));
    assert!(seen.max_abs_error > 0.0 && seen.max_abs_error <= 0.05);
    assert!(seen.max_rel_error > 0.0 && seen.max_rel_error < 0.05 / 259.0);
    assert!((3..=5).contains(&seen.significant_digits) && (9..=23).contains(&seen.significant_bits));
    assert!(seen.finest_abs_error.is_nan() && seen.fill_value.is_nan());
    let changed = values.iter().zip(&back).filter(|(x, y)| x != y).count();
    assert_eq!((found.elements, found.changed), (30_000, i64::try_from(changed).unwrap()));
    // The same frame judged by a closer bound does not hold, which is no error.
    let (_, found) = Context::new("max_abs_error=1e-6").validate(&frame, &values, &[300, 100]).unwrap();
    assert!(found.holds == 0 && found.first_miss >= 0 && found.miss[0] != 0);
    let at = usize::try_from(found.first_miss).unwrap();
    assert!((0..at).all(|before| error(before) <= 1e-6) && error(at) > 1e-6);
    // Nor by lossless, and not against another array.
    let (_, found) = Context::new("").validate(&frame, &values, &[300, 100]).unwrap();
    assert_eq!(found.holds, 0);
    assert_eq!(context.validate(&frame, &values, &[100, 300]).unwrap_err().0, knarr_status::KNARR_USAGE);
    let whole = vec![1i32; values.len()];
    assert_eq!(context.validate(&frame, &whole, &[300, 100]).unwrap_err().0, knarr_status::KNARR_USAGE);
}

#[test]
fn speeds_become_limits_that_change_the_choice() {
    let values = field(200_000);
    let slow = Context::new("goal=ratio");
    let fast = Context::new("goal=ratio encode_speed=0.5*storage storage_speed=4000MB/s");
    assert!(fast.explain(&values, &[200_000]).contains("for goal 'ratio,encode>=2000MB/s'"));
    let (small, quick) = (slow.compress(&values, &[200_000]).unwrap(), fast.compress(&values, &[200_000]).unwrap());
    assert!(small.len() < quick.len(), "{} and {} bytes", small.len(), quick.len());
    assert_ne!(slow.chain(&small), fast.chain(&quick));
}

#[test]
fn explain_names_the_chain_that_compress_uses() {
    let values = field(50_000);
    let context = Context::new("max_abs_error=0.01");
    let why = context.explain(&values, &[500, 100]);
    let chain = why.split(" for goal").next().unwrap();
    assert!(why.contains("candidate") && why.contains("quality  max_abs_error=0.01"), "{why}");
    let forced = Context::new(&format!("max_abs_error=0.01 chain='{chain}'"));
    assert_eq!(forced.compress(&values, &[500, 100]).unwrap(), context.compress(&values, &[500, 100]).unwrap());
}
