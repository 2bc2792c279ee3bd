//! NumPy's files: those that NumPy wrote, and bytes that nobody should trust.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "test code")]

use std::path::Path;

use crate::common::{Folder, below, compare, writers};
use knarr_array::ErrorKind;
use knarr_array::array::{DType, Endian};
use knarr_array::model::StorageLayout;
use knarr_array::npy;
use knarr_array::region::Region;
use knarr_testing::data::Random;
use knarr_testing::suites;

#[test]
fn reads_what_numpy_wrote() {
    let scratch = Folder::new();
    writers(&["npy", scratch.path().to_str().unwrap()]);
    assert!(compare(scratch.path()) > 60);
    let mut checked = 0;
    for name in scratch.names().iter().filter(|name| name.ends_with(".npy")) {
        checked += suites::source::check(&*crate::common::open(&scratch.file(name)).unwrap());
    }
    assert!(checked > 60);
    for (name, layout) in [
        ("long.npy", StorageLayout::Chunked(vec![90, 70, 33])),
        ("shape_5_F.npy", StorageLayout::Contiguous),
        ("f4_little.npy", StorageLayout::Contiguous),
    ] {
        assert_eq!(crate::common::open(&scratch.file(name)).unwrap().model().variables[0].layout, layout, "{name}");
    }
    what_holds_no_numbers_is_refused(&scratch.file("refused"));
}

/// Files are called by words of the message.
fn what_holds_no_numbers_is_refused(folder: &Path) {
    let mut refused = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let error = crate::common::open(&path).err().unwrap();
        let text = error.to_string();
        let words = path.file_stem().unwrap().to_str().unwrap().replace("_long", "").replace('_', " ");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
        assert!(error.message().contains(&words) && error.advice().is_some(), "{text}");
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        refused += 1;
    }
    assert_eq!(refused, 8);
}

/// A small file with a header as NumPy writes it.
fn sample(shape: &[u64], is_fortran: bool) -> Vec<u8> {
    let mut bytes = npy::header(DType::F32, Endian::Big, shape).unwrap();
    if is_fortran {
        let at = bytes.windows(5).position(|word| word == b"False").unwrap();
        bytes[at..at + 5].copy_from_slice(b"True ");
    }
    bytes.extend((0..4 * shape.iter().product::<u64>()).map(|at| at as u8));
    bytes
}

#[test]
fn files_that_end_early_say_how_much_is_missing() {
    let folder = Folder::new();
    let path = folder.file("cut.npy");
    let good = sample(&[3, 4], false);
    for len in 0..good.len() {
        std::fs::write(&path, &good[..len]).unwrap();
        let error = crate::common::open(&path).err().unwrap();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{len}: {text}");
        assert!(text.contains("cut.npy"), "{len}: {text}");
        if len >= 128 {
            assert!(text.contains(&format!("{} bytes are missing", good.len() - len)), "{text}");
        } else if len >= 6 {
            assert!(text.contains("truncated"), "{len}: {text}");
        }
    }
    for shape in [&[1 << 40][..], &[1 << 61, 8], &[u64::MAX, 0], &[1 << 32, 1 << 32, 1 << 32]] {
        let mut bytes = npy::header(DType::F64, Endian::Little, shape).unwrap();
        bytes.extend([0; 100]);
        std::fs::write(&path, bytes).unwrap();
        let error = crate::common::open(&path).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{shape:?}: {error}");
        assert!(error.message().contains("missing") || error.message().contains("larger than any file"), "{error}");
    }
    let mut long = good;
    long.push(0);
    std::fs::write(&path, long).unwrap();
    let error = crate::common::open(&path).err().unwrap();
    assert!(error.message().contains("1 bytes follow the array") && error.advice().is_some(), "{error}");
}

#[test]
fn changed_bytes_are_refused_without_panic() {
    let folder = Folder::new();
    let path = folder.file("hostile.npy");
    let mut random = Random::new(1);
    let mut opened = 0;
    for round in 0..3000 {
        let mut bad = sample(&[5, 3, 2], round % 2 == 0);
        for _ in 0..=below(&mut random, 3) {
            let at = below(&mut random, bad.len() as u64) as usize;
            bad[at] = match below(&mut random, 4) {
                0 => 0xFF,
                1 => b'0' + below(&mut random, 10) as u8,
                2 => bad[at] ^ (1 << below(&mut random, 8)),
                _ => random.bits() as u8,
            };
        }
        std::fs::write(&path, &bad).unwrap();
        match crate::common::open(&path) {
            Ok(source) => {
                opened += 1;
                let variable = &source.model().variables[0];
                let mut out = Vec::new();
                source.read_region(0, &Region::whole(&variable.shape), &mut out).unwrap();
                assert_eq!(out.len() as u64, variable.raw_bytes());
                assert!(out.capacity() <= 4096, "allocated more than the file holds");
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{error}");
                assert!(error.to_string().contains("hostile.npy"), "{error}");
            }
        }
    }
    assert!(opened > 100, "{opened} were read: many changes are of values alone");
}
