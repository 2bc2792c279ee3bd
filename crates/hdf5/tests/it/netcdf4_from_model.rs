//! netCDF-4 files built from sources of other formats.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "tests report by panicking")]

use crate::common::{Folder, program, script};
use knarr_array::array::{DType, Endian};
use knarr_array::error::ErrorKind;
use knarr_array::model::{Attribute, AttributeValue, Dimension, Group, Model, Variable};
use knarr_array::region::Region;
use knarr_flow::store::{EncodedChunk, Encoding, Sink, Source, Storage};
use knarr_hdf5::{Hdf5Sink, Hdf5Source, SinkOptions};
use knarr_testing::memory::MemorySource;

fn attribute(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.into(), value }
}

fn variable(path: &str, dtype: DType, endian: Endian, axes: &[(Option<&str>, u64)]) -> Variable {
    Variable {
        endian,
        max_shape: axes.iter().map(|(name, len)| (*name != Some("time")).then_some(*len)).collect(),
        dimensions: axes.iter().map(|(name, _)| name.map(str::to_owned)).collect(),
        ..Variable::plain(path, dtype, axes.iter().map(|(_, len)| *len).collect())
    }
}

fn dimension(name: &str, len: u64, unlimited: bool) -> Dimension {
    Dimension { name: name.into(), len, unlimited }
}

fn source() -> MemorySource {
    let (time, lat, lon) = ((Some("time"), 4), (Some("lat"), 2), (Some("lon"), 3));
    let mut t = variable("/T", DType::F32, Endian::Big, &[time, lat, lon]);
    t.padding = u64::from((-9f32).to_bits());
    let fill = AttributeValue::Numbers { dtype: DType::F32, bytes: (-9f32).to_le_bytes().to_vec(), scalar: true };
    t.attributes.push(attribute("_FillValue", fill));
    let mut grid = variable("/grid", DType::I16, Endian::Big, &[]);
    grid.attributes.push(attribute("grid_mapping_name", AttributeValue::Text("x".into())));
    let levels = [1.5f32, 2.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    let groups = vec![
        Group {
            path: "/".into(),
            dimensions: vec![
                dimension("time", 4, true),
                dimension("lat", 2, false),
                dimension("lon", 3, false),
                dimension("strlen", 2, false),
            ],
            attributes: vec![
                attribute("title", AttributeValue::Text("built é".into())),
                attribute("levels", AttributeValue::Numbers { dtype: DType::F32, bytes: levels, scalar: false }),
                attribute("words", AttributeValue::Strings(vec!["a".into(), "bb".into()])),
                attribute("empty", AttributeValue::Text(String::new())),
            ],
            ..Group::default()
        },
        Group { path: "/sub".into(), ..Group::default() },
        Group { path: "/sub/deep".into(), dimensions: vec![dimension("x", 2, false)], ..Group::default() },
    ];
    let variables = vec![
        variable("/time", DType::F64, Endian::Big, &[time]),
        t,
        variable("/lat", DType::F32, Endian::Little, &[lat]),
        variable("/name", DType::Opaque(1), Endian::Little, &[lat, (Some("strlen"), 2)]),
        grid,
        variable("/lon", DType::I32, Endian::Little, &[lat, lon]),
        variable("/bare", DType::U8, Endian::Little, &[(None, 7)]),
        variable("/sub/deep/v", DType::I8, Endian::Little, &[time, (Some("x"), 2)]),
        variable("/sub/deep/x", DType::I8, Endian::Little, &[(Some("x"), 2), lon]),
    ];
    let values = vec![
        (0..4).flat_map(|n| f64::from(n).to_be_bytes()).collect(),
        (0..24).flat_map(|n: u16| f32::from(n).to_be_bytes()).collect(),
        vec![0; 8],
        b"abcd".to_vec(),
        5i16.to_be_bytes().to_vec(),
        (0..6i32).flat_map(i32::to_le_bytes).collect(),
        vec![1; 7],
        vec![2; 8],
        vec![3; 6],
    ];
    MemorySource { model: Model { groups, variables }, values, damaged: None }
}

#[test]
fn netcdf_readers_see_the_model() {
    let folder = Folder::new();
    let output = folder.file("built.nc");
    let source = source();
    let storage = Storage { variable: 1, chunk: vec![2, 2, 3], encoding: Encoding::Hdf5(Vec::new()) };
    let mut sink = Hdf5Sink::create(&output, source.model(), &[storage], SinkOptions::default()).unwrap();
    sink.copy_from(&source).unwrap();
    let mut bytes = Vec::new();
    source.read_region(1, &Region::new([0, 0, 0], [2, 2, 3]), &mut bytes).unwrap();
    // The second chunk is never written.
    sink.put(EncodedChunk { variable: 1, position: &[0, 0, 0], bytes: &bytes, filter_mask: 0 }).unwrap();
    Box::new(sink).commit().unwrap();
    script("read_built.py", &[output.to_str().unwrap()]);
    if let Some((succeeded, printed)) = program("ncdump", &["-h", output.to_str().unwrap()]) {
        assert!(succeeded, "{printed}");
    }
    let built = Hdf5Source::open(&output, Box::new(|_: &[_], _: &_| None)).unwrap();
    assert_eq!(built.format(), "netCDF-4");
    let axes = |model: &Model| -> Vec<_> { model.variables.iter().map(|found| found.dimensions.clone()).collect() };
    let mut expected = axes(source.model());
    expected[6] = vec![Some("phony_dim_0".to_owned())];
    assert_eq!(axes(built.model()), expected);
    assert_eq!(built.model().variables[5].name(), "lon");
}

#[test]
fn what_netcdf_cannot_say_is_refused_by_name() {
    let folder = Folder::new();
    let mut source = source();
    source.model.variables[2]
        .attributes
        .push(attribute("odd", AttributeValue::Other { what: "compound".into(), content: "{x: 1}".into() }));
    let mut sink = Hdf5Sink::create(&folder.file("a.nc"), source.model(), &[], SinkOptions::default()).unwrap();
    let error = sink.begin().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("variable 'lat': attribute 'odd'"), "{error}");
    // What could not be made was given up, and does not get the name.
    assert!(folder.names().is_empty());
    assert!(sink.copy_from(&source).is_err() && Box::new(sink).commit().is_err());
    assert!(folder.names().is_empty());
}
