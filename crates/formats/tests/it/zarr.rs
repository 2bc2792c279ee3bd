//! Zarr stores of zarr-python and xarray.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "test code")]

use crate::common::{Folder, compare, writers};
use knarr_array::ErrorKind;
use knarr_array::model::{AttributeValue, StorageLayout};
use knarr_array::region::Region;
use knarr_codec::codec::CodecList;
use knarr_flow::store::Source;
use knarr_formats::zarr::ZarrSource;
use knarr_testing::data::Random;

#[test]
fn reads_what_others_wrote() {
    let scratch = Folder::new();
    writers(&["zarr", scratch.path().to_str().unwrap()]);
    assert!(compare(scratch.path()) > 70);
    let open = |name: &str| ZarrSource::open(&scratch.path().join(name), &CodecList::pure()).unwrap();
    let find = |source: &ZarrSource, name: &str| {
        source.model().variables.iter().position(|variable| variable.name() == name).unwrap()
    };

    let source = open("v3_types.zarr");
    let root = &source.model().groups[0];
    let nan = root.attributes.iter().find(|attribute| attribute.name == "nan").unwrap();
    assert!(matches!(&nan.value, AttributeValue::Numbers { bytes, scalar: true, .. }
        if f64::from_le_bytes(bytes.as_slice().try_into().unwrap()).is_nan()));
    assert_eq!(root.dimensions.iter().map(|d| (d.name.as_str(), d.len)).collect::<Vec<_>>(), [("y", 7), ("x", 9)]);
    let sparse = find(&source, "sparse");
    assert!(
        source.is_written(sparse, &Region::new([0, 0], [4, 4]))
            && !source.is_written(sparse, &Region::new([4, 0], [4, 8]))
    );
    assert_eq!(source.model().variables[sparse].padding, u64::from(1e20f32.to_bits()));
    let truth = &source.model().variables[find(&source, "bool")];
    assert_eq!(truth.attribute("dtype"), Some(&AttributeValue::Text("bool".to_owned())));

    let source = open("v3_codecs.zarr");
    let variable = |name: &str| &source.model().variables[find(&source, name)];
    assert_eq!(variable("gzip").chain, "gzip:5");
    assert_eq!(variable("none").chain, "raw");
    assert_eq!(variable("big").chain, "bytes:big");
    assert_eq!(variable("sharded").chain, "sharding(zstd:1)");
    assert_eq!(variable("sharded").layout, StorageLayout::Chunked(vec![10, 25]));
    assert!(variable("none").stored_bytes == Some(40 * 50 * 4));

    for name in ["xarray_v2.zarr", "xarray_v3.zarr"] {
        let source = open(name);
        let fill = |variable: &str| source.model().variables[find(&source, variable)].attribute("_FillValue").cloned();
        let Some(AttributeValue::Numbers { bytes, .. }) = fill("T") else { panic!("{name}") };
        assert_eq!(bytes, 1e20f32.to_le_bytes(), "{name}");
        let Some(AttributeValue::Numbers { bytes, .. }) = fill("count") else { panic!("{name}") };
        assert_eq!(bytes, (-999i16).to_le_bytes(), "{name}");
    }

    for name in ["missing.zarr", "missing_v2.zarr"] {
        let source = open(name);
        let error = source.read_region(find(&source, "lzma"), &Region::new([0], [4]), &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingFilter, "{error}");
        assert!(error.to_string().contains("lzma"), "{error}");
        let text = &source.model().variables[find(&source, "text")];
        assert!(text.copied_because.is_some());
    }
    hostile_metadata_is_refused_without_panic(&scratch);
    damage_is_reported(&scratch);
}

fn hostile_metadata_is_refused_without_panic(scratch: &Folder) {
    let mut random = Random::new(3);
    let documents = [
        ("v3_codecs.zarr", "sharded/zarr.json"),
        ("v3_codecs.zarr", "blosc_lz4_shuffle/zarr.json"),
        ("v3_codecs.zarr", "numcodecs_pcodec/zarr.json"),
        ("v2.zarr", "c_shuffle/.zarray"),
        ("v2.zarr", "fortran/.zarray"),
    ];
    for (store, document) in documents {
        let lone = scratch.path().join("lone.zarr");
        let (from, name) = document.split_once('/').unwrap();
        let _ = std::fs::remove_dir_all(&lone);
        copy_tree(&scratch.path().join(store).join(from), &lone);
        let good = std::fs::read(lone.join(name)).unwrap();
        let digits: Vec<usize> = (0..good.len()).filter(|&at| good[at].is_ascii_digit()).collect();
        for round in 0..200 {
            let mut bad = good.clone();
            let at = if round % 2 == 0 {
                digits[crate::common::below(&mut random, digits.len() as u64) as usize]
            } else {
                crate::common::below(&mut random, good.len() as u64) as usize
            };
            match crate::common::below(&mut random, 4) {
                0 => bad[at] = b"0919-\"{}[],"[crate::common::below(&mut random, 11) as usize],
                1 => bad.splice(at..at, *b"9999999999").for_each(drop),
                2 => bad.splice(at..at + 1, *b"0").for_each(drop),
                _ => bad[at] ^= 1 << crate::common::below(&mut random, 8),
            }
            std::fs::write(lone.join(name), &bad).unwrap();
            let Ok(source) = ZarrSource::open(&lone, &CodecList::pure()) else { continue };
            let variable = &source.model().variables[0];
            let count: Vec<u64> = variable.shape.iter().map(|&n| n.min(40)).collect();
            let region = Region::whole(&count);
            source.is_written(0, &region);
            let _ = source.read_region(0, &region, &mut Vec::new());
        }
    }
}

fn copy_tree(from: &std::path::Path, to: &std::path::Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy_tree(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::copy(from, to).unwrap();
    }
}

fn damage_is_reported(scratch: &Folder) {
    let store = scratch.path().join("v3_codecs.zarr");
    let chunk = store.join("crc32c/c/0/0");
    let good = std::fs::read(&chunk).unwrap();
    let source = ZarrSource::open(&store, &CodecList::pure()).unwrap();
    let index = source.model().variables.iter().position(|variable| variable.name() == "crc32c").unwrap();
    for cut in [0, 1, 3, 5, good.len() / 2, good.len() - 1] {
        std::fs::write(&chunk, &good[..cut]).unwrap();
        let error = source.read_region(index, &Region::new([0, 0], [10, 25]), &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("variable 'crc32c'"), "{error}");
    }
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        std::fs::write(&chunk, &bad).unwrap();
        assert!(source.read_region(index, &Region::new([0, 0], [10, 25]), &mut Vec::new()).is_err(), "byte {at}");
    }
    for document in ["", "{", "[]", "{\"node_type\": \"array\"}", "{\"node_type\": \"array\", \"shape\": [4, -1]}"] {
        std::fs::write(store.join("gzip/zarr.json"), document).unwrap();
        let error = ZarrSource::open(&store, &CodecList::pure()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{document}: {error}");
        assert!(error.to_string().contains("gzip"), "{error}");
    }
}
