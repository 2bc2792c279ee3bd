//! Generated variables: every pattern in every type and odd shape, by the conformance suite of sources; the same bytes
//! for the same seed, whatever is read first; values where they were promised; statistics.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use knarr_array::ErrorKind;
use knarr_array::array::DType;
use knarr_array::region::Region;
use knarr_flow::generate::{FieldSpec, Generated, PATTERNS, Values};
use knarr_flow::store::Source;
use knarr_testing::suites;
use proptest::prelude::*;

fn field(text: &str, shape: &[u64]) -> FieldSpec {
    FieldSpec { shape: Some(shape.to_vec()), seed: 7, ..FieldSpec::parse(text).unwrap() }
}

fn generated(spec: FieldSpec) -> Generated {
    Generated::new(&[spec]).unwrap()
}

fn whole(source: &Generated) -> Vec<u8> {
    let mut bytes = Vec::new();
    source.read_region(0, &Region::whole(&source.model().variables[0].shape), &mut bytes).unwrap();
    bytes
}

/// Values of a variable of doubles.
fn doubles(spec: FieldSpec) -> Vec<f64> {
    let bytes = whole(&generated(FieldSpec { dtype: Some(DType::F64), ..spec }));
    bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

const SHAPES: [&[u64]; 13] = [
    &[],
    &[0],
    &[1],
    &[7],
    &[5003],
    &[3, 0, 5],
    &[1, 1, 1],
    &[6, 5],
    &[61, 67],
    &[5, 17, 6],
    &[2, 3, 19, 4],
    &[2, 3, 2, 3, 5],
    &[2, 1, 2, 3, 2, 5, 3],
];

#[test]
fn every_pattern_is_a_source_in_every_shape() {
    for pattern in PATTERNS {
        for shape in SHAPES {
            let mut spec = field(pattern.name(), shape);
            if pattern.name() == "particles" && shape.len() > 1 {
                *spec.shape.as_mut().unwrap().last_mut().unwrap() = 6;
            }
            spec.noise = Some("0.1".parse().unwrap());
            spec.fill = Some("region:0.3".parse().unwrap());
            assert_eq!(suites::source::check(&generated(spec)), 1, "{} {shape:?}", pattern.name());
        }
    }
}

#[test]
fn every_pattern_has_values_where_it_says_in_every_type() {
    for pattern in PATTERNS {
        for dtype in DType::NUMBERS {
            let shape = if pattern.name() == "particles" { &[300, 6][..] } else { &[11, 23] };
            let mut spec = field(pattern.name(), shape);
            spec.fill = Some("0".parse().unwrap());
            spec.dtype = Some(dtype);
            let bytes = whole(&generated(spec.clone()));
            assert_eq!(bytes.len() as u64, shape.iter().product::<u64>() * dtype.size() as u64);
            let (first, rest) = bytes.split_at(dtype.size());
            let varies = rest.chunks_exact(dtype.size()).any(|element| element != first);
            assert_eq!(varies, pattern.name() != "constant", "{} {dtype}", pattern.name());
        }
        if !matches!(pattern.values(), Values::Scaled(_)) {
            continue;
        }
        for shape in SHAPES {
            let mut spec = field(pattern.name(), shape);
            spec.range = Some("-3.5:12".parse().unwrap());
            spec.fill = Some("0".parse().unwrap());
            let values = doubles(spec);
            assert!(values.iter().all(|value| (-3.5..=12.0).contains(value)), "{} {shape:?}", pattern.name());
            if values.len() > 3000 && shape.len() == 2 {
                let (mean, deviation) = mean_and_deviation(&values);
                assert!((0.0..9.0).contains(&mean) && deviation > 0.5, "{}: {mean} ± {deviation}", pattern.name());
            }
        }
    }
}

#[test]
fn the_seed_alone_decides() {
    for pattern in PATTERNS {
        let spec = field(pattern.name(), &[40, 6]);
        let bytes = whole(&generated(spec.clone()));
        assert_eq!(bytes, whole(&generated(spec.clone())), "{}", pattern.name());
        let other = whole(&generated(FieldSpec { seed: 8, fill: Some("0".parse().unwrap()), ..spec }));
        let is_seeded = !matches!(pattern.name(), "constant" | "steps");
        assert_eq!(bytes != other, is_seeded, "{}", pattern.name());
    }
}

/// The bytes of a seed are part of the interface: data that was generated once can be generated again.
#[test]
fn bytes_are_the_same_on_every_machine() {
    let mut found = String::new();
    for pattern in PATTERNS {
        let mut spec = field(pattern.name(), &[3, 50, 6]);
        spec.noise = Some("relative:0.01".parse().unwrap());
        spec.fill = Some("region:0.25".parse().unwrap());
        let hash = blake3::hash(&whole(&generated(spec)));
        found.push_str(&format!("{} {}\n", pattern.name(), &hash.to_hex()[..16]));
    }
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/v1/generate.txt");
    if std::env::var_os("KNARR_WRITE_GOLDEN").is_some() {
        std::fs::write(golden, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(golden).unwrap());
}

#[test]
fn noise_has_its_level() {
    let flat = |noise: &str| {
        let spec = FieldSpec { noise: Some(noise.parse().unwrap()), ..field("constant:10", &[100, 1000]) };
        mean_and_deviation(&doubles(spec))
    };
    for (noise, deviation) in [("0.5", 0.5), ("normal:2", 2.0), ("uniform:3", 3.0 / 3f64.sqrt()), ("relative:0.1", 1.0)]
    {
        let (mean, found) = flat(noise);
        assert!((mean - 10.0).abs() < 0.03 && (found / deviation - 1.0).abs() < 0.01, "{noise}: {mean} ± {found}");
    }
}

#[test]
fn missing_values_have_the_fill_value_and_say_so() {
    for (fill, off) in [("0.2", 0.004), ("region:0.2", 0.001)] {
        let spec = FieldSpec {
            dtype: Some(DType::I16),
            fill: Some(fill.parse().unwrap()),
            fill_value: Some(-999.0),
            ..field("T=simplex", &[4, 100, 150])
        };
        let source = generated(spec);
        let variable = &source.model().variables[0];
        assert_eq!((variable.fills.as_slice(), variable.padding), (&[0xFC19][..], 0xFC19));
        assert!(variable.attribute("_FillValue").is_some());
        let bytes = whole(&source);
        let missing = bytes.as_chunks::<2>().0.iter().filter(|bytes| i16::from_le_bytes(**bytes) == -999).count();
        let share = missing as f64 / 60_000.0;
        assert!((share - 0.2).abs() < off, "{fill}: {share}");
        // A region is the same in each step of the other axes.
        let land = |step: usize| -> Vec<bool> {
            bytes[step * 30_000..][..30_000].as_chunks::<2>().0.iter().map(|b| *b == (-999i16).to_le_bytes()).collect()
        };
        assert_eq!(land(0) == land(3), fill.starts_with("region"), "{fill}");
    }
}

#[test]
fn detector_frames_are_poisson_with_hot_pixels() {
    let values = doubles(field("detector:background=12,rings=0,peaks=0,hot=0.01", &[20, 100, 100]));
    let hot = values.iter().filter(|value| **value == 65_535.0).count() as f64 / values.len() as f64;
    assert!((hot - 0.01).abs() < 0.003, "{hot}");
    // The same pixel in all frames: variance is the mean where it is Poisson.
    let (mut ratio, mut pixels) = (0.0, 0.0);
    for pixel in 0..10_000 {
        let of: Vec<f64> = (0..20).map(|frame| values[frame * 10_000 + pixel]).collect();
        let is_hot = of.contains(&65_535.0);
        assert!(!is_hot || of.iter().all(|value| *value == 65_535.0), "hot pixels stay where they are");
        if !is_hot {
            let (mean, deviation) = mean_and_deviation(&of);
            ratio += deviation * deviation / mean * 20.0 / 19.0;
            pixels += 1.0;
        }
    }
    assert!((ratio / pixels - 1.0).abs() < 0.02, "{}", ratio / pixels);
    let peaks = doubles(field("detector:background=12,rings=0,hot=0", &[1, 200, 200]));
    assert!(peaks.iter().any(|value| *value > 300.0), "peaks stand out");
}

#[test]
fn particles_lie_in_their_box_and_columns_belong_together() {
    let table = doubles(field("particles:box=50", &[20_000, 6]));
    for row in table.as_chunks::<6>().0 {
        assert!(row[..3].iter().all(|x| (0.0..50.0).contains(x)), "{row:?}");
    }
    for (column, name) in ["x", "y", "z", "px", "py", "pz"].iter().enumerate() {
        let alone = doubles(field(&format!("particles:box=50,column={name}"), &[20_000]));
        assert!(alone.iter().enumerate().all(|(row, value)| *value == table[row * 6 + column]), "{name}");
    }
    // Clustered: far more pairs of neighbours are close than in a uniform cloud (about 4 in a million).
    let close = table
        .as_chunks::<6>()
        .0
        .windows(2)
        .filter(|pair| (0..3).map(|axis| (pair[0][axis] - pair[1][axis]).powi(2)).sum::<f64>() < 0.5f64.powi(2));
    assert!(close.count() > 1000);
}

#[test]
fn patches_are_blocks_and_refined_somewhere() {
    let values = doubles(field("patches:levels=3", &[64, 64]));
    let values = &values;
    let uniform = |size: usize| {
        (0..64 / size * (64 / size)).filter(move |block| {
            let (y, x) = (block / (64 / size) * size, block % (64 / size) * size);
            (0..size * size).all(|i| values[(y + i / size) * 64 + x + i % size] == values[y * 64 + x])
        })
    };
    let (coarse, fine) = (uniform(8).count(), uniform(2).count());
    assert!((8..60).contains(&coarse) && fine < 1024, "{coarse} coarse blocks, {fine} of 1024 pairs");
}

#[test]
fn mistakes_are_named_with_their_mend() {
    let refused = |spec: FieldSpec, words: &[&str]| {
        let error = Generated::new(&[spec]).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        for word in words {
            assert!(error.to_string().contains(word), "{error}: no '{word}'");
        }
    };
    refused(field("T=simplx", &[4]), &["variable 'T'", "'simplx'", "simplex", "--list"]);
    refused(field("T=simplex:size=3", &[4]), &["pattern 'simplex'", "'size'", "scale"]);
    refused(field("T=fractal:99", &[4]), &["octaves", "1 to 10"]);
    refused(FieldSpec { range: Some("0:1".parse().unwrap()), ..field("constant", &[4]) }, &["no range", "constant:42"]);
    refused(FieldSpec { dimensions: Some(vec!["x".into()]), ..field("steps", &[4, 5]) }, &["1 names for 2", "--dims"]);
    refused(FieldSpec { dtype: Some(DType::Opaque(3)), ..field("steps", &[4]) }, &["opaque[3]", "f32"]);
    let bytes = |spec: FieldSpec| FieldSpec { dtype: Some(DType::U8), ..spec };
    refused(
        bytes(FieldSpec { fill_value: Some(-1.0), ..field("steps", &[4]) }),
        &["fill value -1 is no u8", "0 to 255"],
    );
    refused(bytes(FieldSpec { range: Some("0:256".parse().unwrap()), ..field("steps", &[4]) }), &["256 is no u8"]);
    refused(field("steps", &[u64::MAX, 2]), &["larger than any file"]);
    refused(FieldSpec::parse("T=steps").unwrap(), &["variable 'T'", "no shape", "--shape"]);
    refused(field("particles", &[10, 7]), &["6 columns", "100000x6"]);
    let both =
        |a: &str, b: &str| Generated::new(&[field(a, &[4]), field(b, &[4])]).map(|_| ()).unwrap_err().to_string();
    assert!(both("T=steps", "T=sines").contains("two variables"));
    assert!(both("g=steps", "g/T=sines").contains("a group has the same name"));
    let named = |name: &str, len| FieldSpec { dimensions: Some(vec!["x".into()]), ..field(name, &[len]) };
    let error = Generated::new(&[named("a=steps", 4), named("b=steps", 5)]).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("variable 'b'") && error.contains("length 5 here and 4"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Any region of any shape is part of the whole, in all patterns.
    #[test]
    fn shapes_of_all_kinds(
        shape in prop::collection::vec(prop_oneof![Just(1u64), Just(0), 2u64..9, Just(13)], 0..7),
        which in 0..PATTERNS.len(),
        seed: u64,
    ) {
        let mut spec = field(PATTERNS[which].name(), &shape);
        if PATTERNS[which].name() == "particles" && shape.len() > 1 {
            *spec.shape.as_mut().unwrap().last_mut().unwrap() = 5;
        }
        spec.seed = seed;
        spec.fill = Some("0.1".parse().unwrap());
        prop_assert_eq!(suites::source::check(&generated(spec)), 1);
    }
}
