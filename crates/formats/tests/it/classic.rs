//! Classic netCDF: files of netCDF4-python, real files, and bytes that nobody should trust.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "test code"
)]

use crate::common::{Folder, compare, writers};
use knarr_array::ErrorKind;
use knarr_array::array::DType;
use knarr_array::model::AttributeValue;
use knarr_array::region::Region;
use knarr_flow::store::Source;
use knarr_formats::classic::{ClassicSource, parse_header};
use knarr_testing::data::Random;

#[test]
fn reads_what_others_wrote() {
    let scratch = Folder::new();
    writers(&["classic", scratch.path().to_str().unwrap()]);
    assert!(compare(scratch.path()) > 80);

    let source = ClassicSource::open(&scratch.path().join("all_NETCDF3_64BIT_DATA.nc")).unwrap();
    let variable = |name: &str| source.model().variables.iter().find(|variable| variable.name() == name).unwrap();
    assert_eq!(variable("fixed_u2").padding, 7);
    assert_eq!(variable("fixed_f4").fills, [u64::from(7f32.to_bits())]);
    assert_eq!(variable("record_u8").padding, 18_446_744_073_709_551_614);
    assert_eq!(variable("record_i8").padding, (-9_223_372_036_854_775_806i64) as u64);
    assert_eq!(variable("record_f8").padding, 9.969_209_968_386_869e36f64.to_bits());
    assert!(variable("record_i1").fills.is_empty());
    assert_eq!(variable("fixed_S1").dtype, DType::Opaque(1));
    assert_eq!(source.model().groups[0].attributes[0].value, AttributeValue::Text("all types, odd lengths".to_owned()));

    // Many threads read the same file.
    let source = ClassicSource::open(&scratch.path().join("records.nc")).unwrap();
    let whole = crate::common::region(&source, 1, &Region::new([0; 4], [6, 4, 33, 45]));
    std::thread::scope(|scope| {
        for time in 0..6 {
            let (source, whole) = (&source, &whole);
            scope.spawn(move || {
                let slab = whole.len() / 6;
                let read = crate::common::region(source, 1, &Region::new([time, 0, 0, 0], [1, 4, 33, 45]));
                assert!(read == whole[time as usize * slab..][..slab]);
            });
        }
    });
    assert_eq!(
        source.read_region(1, &Region::new([6, 0, 0, 0], [1, 1, 1, 1]), &mut Vec::new()).unwrap_err().kind(),
        ErrorKind::Usage
    );

    truncation_names_variable_and_bytes(&scratch);
    streaming_counts_records(&scratch);
}

fn truncation_names_variable_and_bytes(scratch: &Folder) {
    let bytes = std::fs::read(scratch.path().join("records.nc")).unwrap();
    let path = scratch.path().join("cut.nc");
    std::fs::write(&path, &bytes[..bytes.len() - 1000]).unwrap();
    let source = ClassicSource::open(&path).unwrap();
    let error = source.read_region(0, &Region::new([0; 4], [6, 4, 33, 45]), &mut Vec::new()).map(|()| "read");
    let error = error
        .err()
        .or_else(|| source.read_region(1, &Region::new([0; 4], [6, 4, 33, 45]), &mut Vec::new()).err())
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    assert!(text.contains("cut.nc: variable 'b'") && text.contains("bytes are missing"), "{text}");
    // Whole records before the cut are still there.
    assert!(source.read_region(1, &Region::new([0; 4], [5, 4, 33, 45]), &mut Vec::new()).is_ok());

    // What is missing of the last record nobody may have written. A record that is missing is lost.
    knarr_formats::classic::complete(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), [&bytes[..bytes.len() - 1000], &[0; 1000]].concat());
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    knarr_formats::classic::complete(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), &bytes[..bytes.len() / 2]);

    std::fs::write(&path, &bytes[..100]).unwrap();
    let error = ClassicSource::open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("truncated"), "{error}");
}

fn streaming_counts_records(scratch: &Folder) {
    for (name, numrecs) in
        [("records.nc", 4), ("single_i2_NETCDF3_CLASSIC.nc", 4), ("single_S1_NETCDF3_64BIT_DATA.nc", 8)]
    {
        let mut bytes = std::fs::read(scratch.path().join(name)).unwrap();
        let expected = ClassicSource::open(&scratch.path().join(name)).unwrap();
        bytes[4..4 + numrecs].fill(0xFF);
        let path = scratch.path().join("streaming.nc");
        std::fs::write(&path, &bytes).unwrap();
        let source = ClassicSource::open(&path).unwrap();
        assert_eq!(source.model(), expected.model(), "{name}");
    }
}

/// A header with every construct, made by hand: dimensions, attributes of all types, record and fixed variables.
fn sample_header(version: u8) -> Vec<u8> {
    let wide = version == 5;
    let mut bytes = b"CDF".to_vec();
    bytes.push(version);
    let count = |bytes: &mut Vec<u8>, n: u32| {
        if wide {
            bytes.extend([0; 4]);
        }
        bytes.extend(n.to_be_bytes());
    };
    let name = |bytes: &mut Vec<u8>, text: &str| {
        count(bytes, text.len() as u32);
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    };
    count(&mut bytes, 2);
    bytes.extend(10u32.to_be_bytes());
    count(&mut bytes, 2);
    for (dim, len) in [("time", 0), ("x", 3)] {
        name(&mut bytes, dim);
        count(&mut bytes, len);
    }
    let attributes = |bytes: &mut Vec<u8>| {
        bytes.extend(12u32.to_be_bytes());
        count(bytes, 3);
        for (title, kind, data) in
            [("title", 2u32, &b"hello"[..]), ("range", 3, &[0, 1, 0, 2, 0, 3]), ("f", 5, &[0x3F, 0x80, 0, 0])]
        {
            name(bytes, title);
            bytes.extend(kind.to_be_bytes());
            count(bytes, (data.len() / [1, 2, 4][[2, 3, 5].iter().position(|k| *k == kind).unwrap()]) as u32);
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
    };
    attributes(&mut bytes);
    bytes.extend(11u32.to_be_bytes());
    count(&mut bytes, 2);
    for (variable, dims) in [("fixed", &[1u32][..]), ("record", &[0, 1])] {
        name(&mut bytes, variable);
        count(&mut bytes, dims.len() as u32);
        dims.iter().for_each(|dim| count(&mut bytes, *dim));
        attributes(&mut bytes);
        bytes.extend(5u32.to_be_bytes());
        count(&mut bytes, 12);
        if version > 1 {
            bytes.extend([0; 4]);
        }
        bytes.extend(2000u32.to_be_bytes());
    }
    bytes
}

#[test]
fn hostile_headers_are_refused_without_panic() {
    let scratch = Folder::new();
    let path = scratch.path().join("hostile.nc");
    let mut random = Random::new(1);
    for version in [1, 2, 5] {
        let good = sample_header(version);
        let header = parse_header(&good).unwrap();
        assert_eq!((header.dims.len(), header.attributes.len(), header.vars.len()), (2, 3, 2));
        for len in 0..good.len() {
            assert_eq!(parse_header(&good[..len]).unwrap_err().kind(), ErrorKind::Corrupt, "{len}");
        }
        for round in 0..20_000 {
            let mut bad = good.clone();
            for _ in 0..=crate::common::below(&mut random, 4) {
                let at = crate::common::below(&mut random, bad.len() as u64) as usize;
                bad[at] = match crate::common::below(&mut random, 4) {
                    0 => 0xFF,
                    1 => 0,
                    2 => bad[at] ^ (1 << crate::common::below(&mut random, 8)),
                    _ => random.bits() as u8,
                };
            }
            bad.truncate(crate::common::below(&mut random, 2 * bad.len() as u64 + 1) as usize);
            let parsed = parse_header(&bad);
            // Some go the whole way: layout, model, and reading.
            if parsed.is_ok() && round % 8 == 0 {
                bad.resize(4000, 0);
                std::fs::write(&path, &bad).unwrap();
                if let Ok(source) = ClassicSource::open(&path) {
                    for (index, variable) in source.model().variables.iter().enumerate() {
                        let mut out = Vec::new();
                        let _ = source.read_region(index, &Region::whole(&variable.shape), &mut out);
                        assert!(out.capacity() <= 8192, "allocated more than the file holds");
                    }
                }
            }
        }
    }
}

#[test]
fn special_headers() {
    // Counts of billions in a short file are refused before anything is allocated.
    for version in [1, 2, 5] {
        let mut bytes = sample_header(version);
        let at = if version == 5 { 16 } else { 12 };
        bytes[at..at + 4].copy_from_slice(&[0x7F; 4]);
        assert!(parse_header(&bytes).is_err());
    }
    let latin1 = sample_header(1).iter().map(|&byte| if byte == b'h' { 0xB0 } else { byte }).collect::<Vec<_>>();
    let header = parse_header(&latin1).unwrap();
    assert!(matches!(&header.attributes[0].value,
        AttributeValue::Numbers { dtype: DType::Opaque(1), bytes, .. } if bytes == b"\xB0ello"));
}

#[test]
fn unknown_content_is_described() {
    let scratch = Folder::new();
    let path = scratch.path().join("x.nc");
    std::fs::write(&path, b"\x1f\x8b\x08\x00rest of it").unwrap();
    let error = crate::common::open(&path).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("gzip") && error.to_string().contains("netCDF-3"), "{error}");
    std::fs::write(&path, b"").unwrap();
    assert!(crate::common::open(&path).err().unwrap().to_string().contains("empty"));
    assert!(crate::common::open(scratch.path()).err().unwrap().to_string().contains("directory"));
    assert_eq!(crate::common::open(&scratch.path().join("none")).err().unwrap().kind(), ErrorKind::NotFound);
}
