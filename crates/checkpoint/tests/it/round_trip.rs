//! Restored files are equal, byte for byte.

use std::sync::Arc;

use knarr_array::array::{DType, Endian};
use knarr_checkpoint::layout::{Extent, FileLayout, StoredVariable};
use knarr_checkpoint::{PackOptions, Scheme, Set};
use knarr_testing::data::Random;

use crate::common::{Dir, Files, bytes, engine, program, quick, random_file};

const SCHEMES: [Scheme; 6] =
    [Scheme::Agnostic, Scheme::AgnosticBlock, Scheme::Aware, Scheme::AwareBlock, Scheme::Separate, Scheme::Auto];

#[test]
fn every_scheme_brings_every_file_back() {
    for (seed, ranks, group_size, block_size) in [(1, 7, 32, 8), (2, 5, 2, 100), (3, 1, 1, 4096), (4, 9, 4, 512)] {
        let dir = Dir::new();
        let files = program(&dir, ranks, seed);
        for scheme in SCHEMES {
            let options = PackOptions { scheme, group_size, block_size, ..quick() };
            let set = dir.join(&scheme.to_string());
            files.pack(&engine(2), &set, &options).unwrap();
            files.check(&engine(2), &set, &dir);
        }
    }
}

#[test]
fn files_of_any_structure_come_back() {
    for seed in 0..20 {
        let dir = Dir::new();
        let mut random = Random::new(seed);
        let mut files = Files::default();
        for rank in 0..1 + random.below(6) {
            let (bytes, layout) = random_file(&mut random, &["a", "b/c", "b/d", "b/e1", "b/e2"], 40_000);
            files.add(&dir, &format!("sub dir/ränk {rank}\n%2F.bin"), &bytes, layout);
        }
        let scheme = SCHEMES[random.below(SCHEMES.len())];
        let options = PackOptions { scheme, group_size: 1 + random.below(4), ..quick() };
        files.pack(&engine(2), &dir.join("set"), &options).unwrap();
        files.check(&engine(3), &dir.join("set"), &dir);
    }
}

#[test]
fn files_of_unknown_format_and_empty_ones_come_back() {
    let dir = Dir::new();
    let mut files = Files::default();
    let noise: Vec<u8> = (0..700_000u64).map(|i| Random::new(i).bits().to_le_bytes()[3]).collect();
    for (rank, bytes) in [&b""[..], b"x", &noise, &noise, &[7; 300_000]].into_iter().enumerate() {
        files.add(&dir, &rank.to_string(), bytes, FileLayout::opaque(bytes.len() as u64));
    }
    for scheme in SCHEMES {
        let set = dir.join(&scheme.to_string());
        let packed = files.pack(&engine(2), &set, &PackOptions { scheme, ..PackOptions::default() }).unwrap();
        assert!(packed.packed_bytes < 900_000, "{scheme}: what is equal is stored once");
        files.check(&engine(1), &set, &dir);
    }
}

#[test]
fn threads_do_not_change_the_bytes() {
    let dir = Dir::new();
    let files = program(&dir, 6, 11);
    let mut first: Option<Vec<(String, Vec<u8>)>> = None;
    for jobs in [1, 2, 5] {
        let set = dir.join(&format!("set{jobs}"));
        files.pack(&engine(jobs), &set, &PackOptions { group_size: 4, ..PackOptions::default() }).unwrap();
        let found = bytes(&dir, &format!("set{jobs}"));
        assert!(*first.get_or_insert_with(|| found.clone()) == found, "{jobs} threads");
    }
}

#[test]
fn what_an_earlier_set_holds_is_not_stored_again() {
    let dir = Dir::new();
    let mut files = program(&dir, 6, 5);
    let first = files.pack(&engine(2), &dir.join("one"), &PackOptions::default()).unwrap();
    let base = Some(dir.join("one"));
    let options = PackOptions { base, ..PackOptions::default() };
    let again = files.pack(&engine(2), &dir.join("two"), &options).unwrap();
    assert!(again.reused_bytes > first.raw_bytes / 4, "{} of {}", again.reused_bytes, first.raw_bytes);
    assert!(again.packed_bytes < first.packed_bytes * 3 / 4, "{} of {}", again.packed_bytes, first.packed_bytes);
    // The earlier set may go, and the later one still has all it needs.
    std::fs::remove_dir_all(dir.join("one")).unwrap();
    files.check(&engine(2), &dir.join("two"), &dir);
    // A third set on top of the second, with a file that changed.
    let input = files.inputs[3].clone();
    let mut bytes = std::fs::read(&input.path).unwrap();
    bytes.iter_mut().step_by(1000).for_each(|byte| *byte ^= 1);
    std::fs::write(&input.path, &bytes).unwrap();
    files.layouts.insert(input.path, FileLayout::opaque(bytes.len() as u64));
    let options = PackOptions { base: Some(dir.join("two")), ..PackOptions::default() };
    files.pack(&engine(2), &dir.join("three"), &options).unwrap();
    std::fs::remove_dir_all(dir.join("two")).unwrap();
    files.check(&engine(2), &dir.join("three"), &dir);
}

/// Four ranks of smooth numbers that are other ones at each step; `noise` more random bits make them pack worse.
fn step(dir: &Dir, step: u64, noise: u32) -> Files {
    let mut files = Files::default();
    let mut random = Random::new(step);
    for rank in 0..4u64 {
        let value = |i: u64| (i / 40 + rank + 31 * step) << 8 | random.bits() & ((1 << noise) - 1);
        let bytes: Vec<u8> = (0..20_000).map(value).flat_map(|value| value.to_le_bytes()).collect();
        let extent = Extent { offset: 0, length: 160_000, shape: [20_000].into(), filters: Arc::default() };
        let variable = StoredVariable {
            path: "/n".to_owned(),
            dtype: DType::I64,
            endian: Endian::Little,
            shape: vec![20_000],
            extents: vec![extent],
        };
        let layout = FileLayout { format: "test".to_owned(), length: 160_000, variables: vec![variable] };
        files.add(dir, &format!("r{rank}"), &bytes, layout);
    }
    files
}

#[test]
fn decisions_are_used_again_for_the_same_wishes_as_long_as_they_serve() {
    let dir = Dir::new();
    let pack = |number: u64, noise: u32, goal: &str| {
        let base = number.checked_sub(1).map(|before| dir.join(&before.to_string()));
        let options = PackOptions { base, goal: goal.parse().unwrap(), ..PackOptions::default() };
        let packed = step(&dir, number, noise).pack(&engine(2), &dir.join(&number.to_string()), &options).unwrap();
        let decisions = packed.manifest.summary.decisions;
        decisions.iter().any(|decision| decision.reason.starts_with("as in the earlier set"))
    };
    assert!(!pack(0, 1, "speed"));
    assert!(pack(1, 1, "speed"));
    assert!(!pack(2, 1, "ratio"), "another goal asks for another decision");
    assert!(pack(3, 1, "ratio"));
    // Each step is little worse than the one before, the last one far worse than the first.
    let kept: Vec<bool> = (4..12).map(|number| pack(number, u32::try_from(number).unwrap() - 2, "ratio")).collect();
    assert!(kept.contains(&false), "{kept:?}");
}

#[test]
fn the_manifest_says_what_was_packed() {
    let dir = Dir::new();
    let files = program(&dir, 5, 3);
    let options = PackOptions { group_size: 2, scheme: Scheme::Aware, ..PackOptions::default() };
    let packed = files.pack(&engine(2), &dir.join("set"), &options).unwrap();
    let set = Set::open(&dir.join("set"), &engine(1).codecs).unwrap();
    assert_eq!(*set.manifest(), packed.manifest);
    assert_eq!(set.stored_bytes(), packed.packed_bytes);
    let raw: u64 = files.inputs.iter().map(|input| input.path.metadata().unwrap().len()).sum();
    assert_eq!((packed.raw_bytes, set.manifest().raw_bytes()), (raw, raw));
    assert_eq!(set.manifest().ranks.iter().map(|rank| rank.group).collect::<Vec<_>>(), [0, 0, 1, 1, 2]);
    let decided: u64 = set.manifest().summary.decisions.iter().map(|decision| decision.packed_bytes).sum();
    let stores: u64 = set.manifest().stores.iter().map(|store| store.length - 24).sum();
    assert_eq!(decided, stores);
}
