//! Stores that Knarr writes, read by zarr-python, zarrs and xarray.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "test code")]

use crate::common::{Folder, region, writers};
use knarr_array::array::{DType, Endian};
use knarr_array::model::{Attribute, AttributeValue, Dimension, Group, Model, StorageLayout, Variable};
use knarr_array::region::{Region, chunk_region};
use knarr_array::{ErrorKind, Result};
use knarr_codec::codec::CodecList;
use knarr_flow::output::Replaces;
use knarr_flow::store::{EncodedChunk, Encoding, Sink, Source, Storage};
use knarr_formats::classic::ClassicSource;
use knarr_formats::zarr::{Sharding, ZarrOptions, ZarrSink, ZarrSource};
use knarr_testing::data::Random;
use knarr_testing::memory::MemorySource;
use serde_json::{Value, json};
use std::path::Path;

fn variable(path: &str, dtype: DType, shape: &[u64], dimensions: &[&str], padding: u64) -> Variable {
    Variable {
        dimensions: dimensions.iter().map(|name| Some((*name).to_owned())).collect(),
        padding,
        ..Variable::plain(path, dtype, shape.to_vec())
    }
}

fn bits(dtype: DType, bits: u64) -> AttributeValue {
    AttributeValue::Numbers { dtype, bytes: bits.to_le_bytes()[..dtype.size()].to_vec(), scalar: true }
}

fn attribute(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}

fn codecs(size: usize, endian: Endian) -> Encoding {
    let endian = if endian == Endian::Big { "big" } else { "little" };
    let bytes = if size == 1 {
        json!({"name": "bytes"})
    } else {
        json!({"name": "bytes", "configuration": {"endian": endian}})
    };
    Encoding::Zarr(vec![bytes])
}

/// Writes every chunk of every stored variable, padded to full size, in a scrambled order.
fn fill(sink: &mut ZarrSink, source: &dyn Source, storages: &[Storage]) {
    for storage in storages {
        let info = &source.model().variables[storage.variable];
        let grid: Vec<u64> = info.shape.iter().zip(&storage.chunk).map(|(n, chunk)| n.div_ceil(*chunk)).collect();
        let total: u64 = grid.iter().product();
        for step in 0..total {
            let mut index = (total - 1 - step) ^ u64::from(total.is_power_of_two() && total > 1);
            let mut position = vec![0; grid.len()];
            for axis in (0..grid.len()).rev() {
                position[axis] = index % grid[axis];
                index /= grid[axis];
            }
            let inside = chunk_region(&info.shape, &storage.chunk, &position);
            let mut part = Vec::new();
            source.read_region(storage.variable, &inside, &mut part).unwrap();
            let count = &inside.count;
            let size = info.dtype.size();
            let mut bytes = vec![0; storage.chunk.iter().product::<u64>() as usize * size];
            for (at, element) in part.chunks_exact(size).enumerate() {
                let (mut rest, mut offset, mut stride) = (at as u64, 0, 1);
                for axis in (0..count.len()).rev() {
                    offset += rest % count[axis] * stride;
                    rest /= count[axis];
                    stride *= storage.chunk[axis];
                }
                bytes[offset as usize * size..][..size].copy_from_slice(element);
            }
            sink.put(EncodedChunk { variable: storage.variable, position: &position, bytes: &bytes, filter_mask: 0 })
                .unwrap();
        }
    }
}

fn store_all(source: &dyn Source, chunk: u64) -> Vec<Storage> {
    // Scalars are left to the sink.
    let stored = |variable: &Variable| variable.copied_because.is_none() && !variable.shape.is_empty();
    let variables = source.model().variables.iter().enumerate().filter(|(_, variable)| stored(variable));
    variables
        .map(|(index, info)| Storage {
            variable: index,
            chunk: info.shape.iter().map(|&n| chunk.min(n.max(1))).collect(),
            encoding: codecs(info.dtype.size(), info.endian),
        })
        .collect()
}

/// An output with all of `source` but the values of `storages`.
fn copy(path: &Path, source: &dyn Source, storages: &[Storage], options: ZarrOptions) -> Result<ZarrSink> {
    let mut sink = ZarrSink::create(path, source.model(), storages, options)?;
    sink.copy_from(source)?;
    Ok(sink)
}

fn convert(source: &dyn Source, path: &Path, chunk: u64, options: ZarrOptions) -> u64 {
    let storages = store_all(source, chunk);
    let mut sink = copy(path, source, &storages, options).unwrap();
    fill(&mut sink, source, &storages);
    sink.annotate(None, &[attribute("history", AttributeValue::Text("written by a test".to_owned()))]).unwrap();
    Box::new(sink).commit().unwrap()
}

fn read(path: &Path) -> Value {
    let found: Value = serde_json::from_str(&writers(&["read", path.to_str().unwrap()])).unwrap();
    assert_eq!(found["zarr"], found["zarrs"], "zarr-python and zarrs differ");
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_type_and_fill_value_is_read_back_bit_by_bit() {
    let scratch = Folder::new();
    let mut model = Model::default();
    let dims = [("y", 7), ("x", 5)].map(|(name, len)| Dimension { name: name.to_owned(), len, unlimited: false });
    model.groups.push(Group {
        path: "/".to_owned(),
        dimensions: dims.to_vec(),
        attributes: vec![attribute("title", AttributeValue::Text("all types".to_owned()))],
        ..Group::default()
    });
    model.groups.push(Group { path: "/deep".to_owned(), ..Group::default() });
    let types = [
        (DType::I8, 0x81),
        (DType::I16, 0x8001),
        (DType::I32, 0x8000_0001),
        (DType::I64, 0x8000_0000_0000_0002),
        (DType::U8, 255),
        (DType::U16, 65535),
        (DType::U32, u64::from(u32::MAX)),
        (DType::U64, u64::MAX - 1),
        (DType::F16, 0x3C01),
        (DType::F32, u64::from(1e20f32.to_bits())),
        (DType::F64, 9.969_209_968_386_869e36f64.to_bits()),
    ];
    let mut values = Vec::new();
    let mut random = Random::new(5);
    for (dtype, fill) in types {
        let mut whole = variable(&format!("/v_{dtype}"), dtype, &[7, 5], &["y", "x"], fill);
        whole.attributes.push(attribute("_FillValue", bits(dtype, fill)));
        whole.attributes.push(attribute("units", AttributeValue::Text("K".to_owned())));
        model.variables.push(whole);
        values.push((0..35 * dtype.size()).map(|_| random.bits() as u8).collect::<Vec<u8>>());
    }
    for (name, fill) in [("nan", 0x7FC0_0000u64), ("inf", 0x7F80_0000), ("minus_zero", 0x8000_0000)] {
        model.variables.push(variable(&format!("/fill_{name}"), DType::F32, &[3], &[name], fill));
        values.push(vec![1; 12]);
    }
    model.variables.push(variable("/deep/scalar", DType::F64, &[], &[], 0));
    values.push(2.5f64.to_le_bytes().to_vec());
    model.variables.push(variable("/empty", DType::F32, &[0, 5], &["none", "x"], 0));
    values.push(Vec::new());
    model.variables.push(variable("/letters", DType::Opaque(1), &[2, 5], &["two", "length"], 0));
    values.push(b"helloworld".to_vec());
    let source = MemorySource { model, values, damaged: None };

    let path = scratch.path().join("types.zarr");
    let size = convert(&source, &path, 3, ZarrOptions::default());
    assert_eq!(size, tree_size(&path));
    let found = read(&path);
    assert_eq!(found["warnings"], json!([]));
    assert_eq!(found["zarr"]["attributes"], json!({"title": "all types", "history": "written by a test"}));
    for (index, info) in source.model.variables.iter().enumerate() {
        let array = &found["zarr"]["arrays"][info.name()];
        assert_eq!(array["bytes"], hex(&source.values[index]), "{}", info.name());
        let fill = hex(&info.padding.to_le_bytes()[..info.dtype.size()]);
        assert_eq!(array["fill"], fill, "{}", info.name());
        assert_eq!(array["dimensions"], json!(info.dimensions), "{}", info.name());
    }
    assert_eq!(found["xarray"]["letters"]["values"], json!(["hello", "world"]));

    // And Knarr reads its own.
    let own = ZarrSource::open(&path, &CodecList::pure()).unwrap();
    for (index, info) in source.model.variables.iter().enumerate().filter(|(_, info)| info.dtype != DType::Opaque(1)) {
        let place = own.model().variables.iter().position(|variable| variable.path == info.path).unwrap();
        let copy = &own.model().variables[place];
        assert!(region(&own, place, &Region::whole(&info.shape)) == source.values[index], "{}", info.name());
        assert_eq!((copy.dtype, copy.padding, &copy.shape), (info.dtype, info.padding, &info.shape));
        assert_eq!(copy.attribute("_FillValue"), info.attribute("_FillValue"), "{}", info.name());
    }
}

fn tree_size(path: &Path) -> u64 {
    if path.is_file() {
        return path.metadata().unwrap().len();
    }
    std::fs::read_dir(path).unwrap().map(|entry| tree_size(&entry.unwrap().path())).sum()
}

#[test]
fn classic_files_become_stores_that_xarray_opens() {
    let scratch = Folder::new();
    writers(&["classic", scratch.path().to_str().unwrap()]);
    for (name, options) in [
        ("records.nc", ZarrOptions { sharding: Sharding::Chunks(12), ..ZarrOptions::default() }),
        ("all_NETCDF3_64BIT_DATA.nc", ZarrOptions::default()),
    ] {
        let source = ClassicSource::open(&scratch.path().join(name)).unwrap();
        let path = scratch.path().join(format!("{name}.zarr"));
        convert(&source, &path, 4, options);
        let found = read(&path);
        assert_eq!(found["warnings"], json!([]), "{name}");
        for (index, info) in source.model().variables.iter().enumerate() {
            let whole = region(&source, index, &Region::whole(&info.shape));
            assert_eq!(found["zarr"]["arrays"][info.name()]["bytes"], hex(&whole), "{name} {}", info.name());
        }
        if name == "records.nc" {
            let shards = path.join("a/c/0");
            assert!(shards.exists() && tree_files(&path.join("a")) < 100, "{}", tree_files(&path.join("a")));
            let own = ZarrSource::open(&path, &CodecList::pure()).unwrap();
            let index = own.model().variables.iter().position(|variable| variable.name() == "b").unwrap();
            assert_eq!(own.model().variables[index].layout, StorageLayout::Chunked(vec![4; 4]));
            let whole = region(&source, 1, &Region::new([0; 4], [6, 4, 33, 45]));
            assert!(region(&own, index, &Region::new([0; 4], [6, 4, 33, 45])) == whole);
            assert!(
                region(&own, index, &Region::new([4, 0, 8, 12], [2, 4, 4, 4]))
                    == crate::common::pick(&whole, 4, &[6, 4, 33, 45], &Region::new([4, 0, 8, 12], [2, 4, 4, 4]))
            );
        }
    }
}

fn tree_files(path: &Path) -> usize {
    if path.is_file() {
        return 1;
    }
    std::fs::read_dir(path).unwrap().map(|entry| tree_files(&entry.unwrap().path())).sum()
}

#[test]
fn stores_become_stores() {
    let scratch = Folder::new();
    writers(&["zarr", scratch.path().to_str().unwrap()]);
    for name in ["v3_types.zarr", "v2.zarr", "xarray_v2.zarr", "xarray_v3.zarr", "missing_v2.zarr"] {
        let mut source = ZarrSource::open(&scratch.path().join(name), &CodecList::pure()).unwrap();
        if name == "missing_v2.zarr" {
            // What Knarr cannot decode is copied by itself; its codec has no name in version 3.
            std::fs::remove_dir_all(scratch.path().join(name).join("lzma")).unwrap();
            source = ZarrSource::open(&scratch.path().join(name), &CodecList::pure()).unwrap();
        }
        let path = scratch.path().join(format!("copy_{name}"));
        convert(&source, &path, 4, ZarrOptions::default());
        let found = read(&path);
        for (index, info) in source.model().variables.iter().enumerate() {
            let array = &found["zarr"]["arrays"][info.name()];
            if info.copied_because.is_some() {
                assert_eq!(array["values"], json!(["a", "bb"]), "{name} {}", info.name());
                continue;
            }
            let whole = region(&source, index, &Region::whole(&info.shape));
            assert_eq!(array["bytes"], hex(&whole), "{name} {}", info.name());
        }
        if name == "v3_types.zarr" {
            assert_eq!(found["zarr"]["arrays"]["bool"]["dtype"], "bool");
            assert_eq!(found["zarr"]["attributes"]["nan"], "nan", "a number, as it was");
        }
        if name.starts_with("xarray") {
            assert_eq!(found["xarray"]["T"]["values"], json!([["1.0", "nan"], ["3.0", "4.0"]]));
            assert_eq!(found["xarray"]["count"]["values"], json!(["1.0", "nan"]));
            assert_eq!(found["warnings"], json!([]));
        }
    }
}

#[test]
fn variables_are_read_in_the_order_in_which_they_were_defined() {
    let scratch = Folder::new();
    let mut model = Model::default();
    for path in ["/", "/z", "/b"] {
        model.groups.push(Group { path: path.to_owned(), ..Group::default() });
    }
    let names = ["/z/v", "/z/a", "/b/u", "/temperature", "/pressure"];
    model.variables.extend(names.map(|name| variable(name, DType::U8, &[1], &["x"], 0)));
    let values = (0..5).map(|value| vec![value]).collect();
    let source = MemorySource { model, values, damaged: None };
    let path = scratch.path().join("out.zarr");
    convert(&source, &path, 1, ZarrOptions::default());
    let found = || {
        let own = ZarrSource::open(&path, &CodecList::pure()).unwrap();
        let variables = own.model().variables.iter().enumerate();
        variables
            .map(|(index, info)| (info.path.clone(), region(&own, index, &Region::new([0], [1]))[0]))
            .collect::<Vec<_>>()
    };
    let defined: Vec<_> = names.map(str::to_owned).into_iter().zip(0..).collect();
    assert_eq!(found(), defined);

    // What consolidated metadata do not name follows, by name.
    std::fs::rename(path.join("temperature"), path.join("density")).unwrap();
    let others = ["/z/v", "/z/a", "/b/u", "/pressure", "/density"].map(str::to_owned);
    assert_eq!(found(), others.into_iter().zip([0, 1, 2, 4, 3]).collect::<Vec<_>>());
}

#[test]
fn outputs_appear_whole_or_not_at_all() {
    let scratch = Folder::new();
    let mut model = Model::default();
    model.groups.push(Group { path: "/".to_owned(), ..Group::default() });
    model.variables.push(variable("/T", DType::U8, &[4], &["x"], 0));
    let mut source = MemorySource { model, values: vec![vec![1, 2, 3, 4]], damaged: None };
    let path = scratch.path().join("out.zarr");
    let storages = store_all(&source, 2);
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let mut sink = copy(&path, &source, &storages, ZarrOptions::default()).unwrap();
    let chunk = EncodedChunk { variable: 0, position: &[0], bytes: &[9, 9], filter_mask: 1 };
    assert_eq!(sink.put(chunk).unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(
        sink.put(EncodedChunk { position: &[2], filter_mask: 0, ..chunk }).unwrap_err().kind(),
        ErrorKind::Internal
    );
    drop(sink);
    assert!(names().is_empty());

    convert(&source, &path, 2, ZarrOptions::default());
    let error = copy(&path, &source, &storages, ZarrOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    source.values[0] = vec![5, 6, 7, 8];
    convert(&source, &path, 2, ZarrOptions { replaces: Replaces::Anything, ..ZarrOptions::default() });
    assert_eq!(names(), ["out.zarr"]);
    assert_eq!(region(&ZarrSource::open(&path, &CodecList::pure()).unwrap(), 0, &Region::new([0], [4])), [5, 6, 7, 8]);

    // A directory that is no store is never replaced.
    let home = scratch.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("thesis.tex"), "precious").unwrap();
    let options = ZarrOptions { replaces: Replaces::Anything, ..ZarrOptions::default() };
    assert_eq!(copy(&home, &source, &storages, options).unwrap_err().kind(), ErrorKind::Exists);
    assert!(home.join("thesis.tex").exists());

    source.model.variables[0].copied_because = Some("variable-length strings".to_owned());
    source.model.variables[0].dtype = DType::Opaque(16);
    let error = copy(&scratch.path().join("s.zarr"), &source, &[], ZarrOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("variable 'T'") && error.to_string().contains("strings"), "{error}");
    source.model.variables[0].path = "/../T".to_owned();
    assert!(copy(&scratch.path().join("t.zarr"), &source, &storages, ZarrOptions::default()).is_err());
    assert_eq!(names(), ["home", "out.zarr"]);
}
