//! Every sink that is made from a model, and wrappers around sinks, pass one suite.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by panicking")]

use crate::common::Folder;
use knarr_array::array::DType;
use knarr_array::error::Result;
use knarr_array::model::{Attribute, AttributeValue, Dimension, Group, Model, Variable};
use knarr_array::region::Region;
use knarr_codec::codec::CodecList;
use knarr_flow::store::{EncodedChunk, Encoding, Sink, Source, Storage};
use knarr_formats::hdf5::{Hdf5Sink, SinkOptions};
use knarr_formats::zarr::{Sharding, ZarrOptions, ZarrSink};
use knarr_testing::memory::MemorySource;
use knarr_testing::suites::sink::{Create, Format, check};
use knarr_testing::suites::store::MemoryStore;
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};

fn hdf5(path: &Path, model: &Model, storages: &[Storage]) -> Result<Box<dyn Sink>> {
    Ok(Box::new(Hdf5Sink::create(path, model, storages, SinkOptions::default())?))
}

fn zarr(path: &Path, model: &Model, storages: &[Storage]) -> Result<Box<dyn Sink>> {
    Ok(Box::new(ZarrSink::create(path, model, storages, ZarrOptions::default())?))
}

fn open(path: &Path) -> Result<Box<dyn Source>> {
    knarr_formats::open(path, &CodecList::pure())
}

fn filters(_: DType) -> Encoding {
    Encoding::Hdf5(Vec::new())
}

fn codecs(_: DType) -> Encoding {
    Encoding::Zarr(vec![json!({"name": "bytes", "configuration": {"endian": "little"}})])
}

#[test]
fn an_hdf5_file() {
    let folder = Folder::new();
    check(&Format { create: &hdf5, open: &open, plain: &filters, folder: folder.path(), name: "a.nc" });
}

#[test]
fn a_zarr_store() {
    let folder = Folder::new();
    check(&Format { create: &zarr, open: &open, plain: &codecs, folder: folder.path(), name: "a.zarr" });
}

#[test]
fn a_zarr_store_with_shards() {
    let folder = Folder::new();
    let sharded = |path: &Path, model: &Model, storages: &[Storage]| -> Result<Box<dyn Sink>> {
        let options = ZarrOptions { sharding: Sharding::Chunks(4), ..ZarrOptions::default() };
        Ok(Box::new(ZarrSink::create(path, model, storages, options)?))
    };
    check(&Format { create: &sharded, open: &open, plain: &codecs, folder: folder.path(), name: "a.zarr" });
}

#[test]
fn a_zarr_store_is_the_same_in_every_store() {
    let (folder, published) = (Folder::new(), Arc::new(Mutex::new(None)));
    let source = MemorySource::new(vec![("T", DType::F32, vec![6], Vec::new(), (0..24).collect())]);
    let storage = || [Storage { variable: 0, chunk: vec![4], encoding: codecs(DType::F32) }];
    let path = folder.file("a.zarr");
    let directory = ZarrSink::create(&path, source.model(), &storage(), ZarrOptions::default()).unwrap();
    let store = Box::new(MemoryStore::new(Arc::clone(&published)));
    let memory = ZarrSink::over(store, source.model(), &storage(), ZarrOptions::default());
    for mut sink in [Box::new(directory), Box::new(memory)] {
        sink.put(EncodedChunk { variable: 0, position: &[0], bytes: &[1; 16], filter_mask: 0 }).unwrap();
        sink.commit().unwrap();
    }
    let objects = published.lock().unwrap().clone().unwrap();
    assert_eq!(objects.keys().collect::<Vec<_>>(), ["T/c/0", "T/zarr.json", "zarr.json"]);
    for (key, bytes) in objects {
        assert_eq!(std::fs::read(path.join(&key)).unwrap(), bytes, "{key}");
    }
}

/// Writes chunks one call later, as what gathers them would.
struct Delayed {
    beneath: Box<dyn Sink>,
    waiting: Option<(usize, Vec<u64>, Vec<u8>, u32)>,
}

impl Delayed {
    fn flush(&mut self) -> Result<()> {
        let Some((variable, position, bytes, filter_mask)) = self.waiting.take() else { return Ok(()) };
        self.beneath.put(EncodedChunk { variable, position: &position, bytes: &bytes, filter_mask })
    }
}

impl Sink for Delayed {
    fn begin(&mut self) -> Result<()> {
        self.beneath.begin()
    }

    fn put(&mut self, chunk: EncodedChunk<'_>) -> Result<()> {
        self.flush()?;
        // What is beneath says at once what cannot be put.
        if chunk.variable > 0 || chunk.position.len() != 2 || chunk.position.iter().any(|&at| at > 2) {
            return self.beneath.put(chunk);
        }
        self.waiting = Some((chunk.variable, chunk.position.to_vec(), chunk.bytes.to_vec(), chunk.filter_mask));
        Ok(())
    }

    fn remove_attributes(&mut self, variable: usize, names: &[String]) -> Result<()> {
        self.flush()?;
        self.beneath.remove_attributes(variable, names)
    }

    fn annotate(&mut self, variable: Option<usize>, attributes: &[Attribute]) -> Result<()> {
        self.flush()?;
        self.beneath.annotate(variable, attributes)
    }

    fn close(&mut self) -> Result<Option<u64>> {
        self.flush()?;
        self.beneath.close()
    }

    fn commit(mut self: Box<Self>) -> Result<u64> {
        self.flush()?;
        self.beneath.commit()
    }
}

/// The same twice: the second output has nobody who asks for it.
struct Tee(Box<dyn Sink>, Box<dyn Sink>);

impl Sink for Tee {
    fn begin(&mut self) -> Result<()> {
        self.0.begin().and_then(|()| self.1.begin())
    }

    fn put(&mut self, chunk: EncodedChunk<'_>) -> Result<()> {
        self.0.put(chunk).and_then(|()| self.1.put(chunk))
    }

    fn remove_attributes(&mut self, variable: usize, names: &[String]) -> Result<()> {
        self.0.remove_attributes(variable, names).and_then(|()| self.1.remove_attributes(variable, names))
    }

    fn annotate(&mut self, variable: Option<usize>, attributes: &[Attribute]) -> Result<()> {
        self.0.annotate(variable, attributes).and_then(|()| self.1.annotate(variable, attributes))
    }

    fn close(&mut self) -> Result<Option<u64>> {
        self.1.close().and_then(|_| self.0.close())
    }

    fn commit(self: Box<Self>) -> Result<u64> {
        let Self(first, second) = *self;
        second.commit().and_then(|_| first.commit())
    }
}

#[test]
fn wrappers_nest() {
    for name in ["a.nc", "a.zarr"] {
        let is_zarr = name.ends_with(".zarr");
        let (beneath, plain): (Create<'_>, _) =
            if is_zarr { (&zarr, codecs as fn(_) -> _) } else { (&hdf5, filters as fn(_) -> _) };
        let (folder, other) = (Folder::new(), Folder::new());
        let create = |path: &Path, model: &Model, storages: &[Storage]| -> Result<Box<dyn Sink>> {
            let second = other.path().join(name);
            if second.is_dir() {
                std::fs::remove_dir_all(&second).unwrap();
            } else if second.exists() {
                std::fs::remove_file(&second).unwrap();
            }
            let first = Box::new(Delayed { beneath: beneath(path, model, storages)?, waiting: None });
            Ok(Box::new(Delayed { beneath: Box::new(Tee(first, beneath(&second, model, storages)?)), waiting: None }))
        };
        check(&Format { create: &create, open: &open, plain: &plain, folder: folder.path(), name });
    }
}

fn attribute(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}

fn numbers(dtype: DType, bytes: &[u8], scalar: bool) -> AttributeValue {
    AttributeValue::Numbers { dtype, bytes: bytes.to_vec(), scalar }
}

/// One attribute of each kind that formats have in common.
fn attributes() -> Vec<Attribute> {
    let levels: Vec<u8> = [1.5f64, -2.25].iter().flat_map(|level| level.to_le_bytes()).collect();
    vec![
        attribute("title", AttributeValue::Text("made by hand, é".to_owned())),
        attribute("empty", AttributeValue::Text(String::new())),
        attribute("words", AttributeValue::Strings(vec!["a".to_owned(), "bb".to_owned()])),
        attribute("one", numbers(DType::I64, &7i64.to_le_bytes(), true)),
        attribute("levels", numbers(DType::F64, &levels, false)),
    ]
}

const FILL: f32 = -9.0;
/// The field gets chunks for its first rows only.
const ROWS: u8 = 4;

/// Groups, an unlimited dimension that a group below uses, and a fill value.
fn model() -> Model {
    let dimension = |name: &str, len, unlimited| Dimension { name: name.to_owned(), len, unlimited };
    let axes = |names: &[&str]| names.iter().map(|name| Some((*name).to_owned())).collect();
    let mut field = Variable {
        max_shape: vec![None, Some(3)],
        dimensions: axes(&["time", "x"]),
        attributes: attributes(),
        fills: vec![u64::from(FILL.to_bits())],
        padding: u64::from(FILL.to_bits()),
        ..Variable::plain("/deep/field", DType::F32, vec![6, 3])
    };
    field.attributes.push(attribute("_FillValue", numbers(DType::F32, &FILL.to_le_bytes(), true)));
    let time = Variable {
        max_shape: vec![None],
        dimensions: axes(&["time"]),
        attributes: vec![attribute("units", AttributeValue::Text("days since 2000-01-01".to_owned()))],
        ..Variable::plain("/time", DType::F64, vec![6])
    };
    let letters = Variable { dimensions: axes(&["x"]), ..Variable::plain("/deep/letters", DType::Opaque(1), vec![3]) };
    let group = |path: &str, dimensions| Group { path: path.to_owned(), dimensions, ..Group::default() };
    let root = Group { attributes: attributes(), ..group("/", vec![dimension("time", 6, true)]) };
    let deep = Group { attributes: attributes(), ..group("/deep", vec![dimension("x", 3, false)]) };
    Model { groups: vec![root, deep], variables: vec![time, field, letters] }
}

/// Values of a variable, of which those of the field are missing in the last rows.
fn values(variable: usize) -> Vec<u8> {
    match variable {
        0 => (0..6u8).flat_map(|day| f64::from(day).to_le_bytes()).collect(),
        1 => (0..18u8).map(|n| if n < 3 * ROWS { f32::from(n) } else { FILL }).flat_map(f32::to_le_bytes).collect(),
        _ => b"xyz".to_vec(),
    }
}

/// Chunks of every variable: its number, the position, and the bytes.
fn chunks() -> Vec<(usize, Vec<u64>, Vec<u8>)> {
    let time = values(0).chunks_exact(16).enumerate().map(|(at, bytes)| (0, vec![at as u64], bytes.to_vec())).collect();
    let rows =
        values(1).chunks_exact(24).enumerate().map(|(at, bytes)| (1, vec![at as u64, 0], bytes.to_vec())).collect();
    let letters = vec![(2, vec![0], values(2))];
    let mut all: Vec<_> = [time, rows, letters].concat();
    all.retain(|(variable, position, _)| *variable != 1 || 2 * position[0] < u64::from(ROWS));
    all
}

/// An attribute as every format gives it back: netCDF knows no single numbers, only arrays of one.
fn plain_form(value: &AttributeValue) -> (Option<Vec<String>>, Vec<f64>) {
    match value {
        AttributeValue::Text(text) => (Some(vec![text.clone()]), Vec::new()),
        AttributeValue::Strings(list) => (Some(list.clone()), Vec::new()),
        value => (None, value.floats()),
    }
}

fn same_attributes(found: &[Attribute], expected: &[Attribute], place: &str) {
    assert_eq!(found.len(), expected.len(), "{place}: {found:?}");
    for Attribute { name, value } in expected {
        let other = found.iter().find(|found| found.name == *name).unwrap_or_else(|| panic!("{place}: {name}"));
        assert_eq!(plain_form(&other.value), plain_form(value), "{place}: {name}");
    }
}

/// Two threads put chunks in turn into a sink that is made from a model and sees no source.
fn put_from_two_threads(sink: &mut dyn Sink) {
    let (chunks, turn) = (chunks(), Barrier::new(2));
    let sink = Mutex::new(sink);
    std::thread::scope(|scope| {
        for parity in [0, 1] {
            let (chunks, turn, sink) = (&chunks, &turn, &sink);
            scope.spawn(move || {
                for (number, (variable, position, bytes)) in chunks.iter().enumerate() {
                    if number % 2 == parity {
                        let chunk = EncodedChunk { variable: *variable, position, bytes, filter_mask: 0 };
                        sink.lock().unwrap().put(chunk).unwrap();
                    }
                    turn.wait();
                }
            });
        }
    });
}

#[test]
fn who_has_only_a_model_writes_a_file() {
    for (name, create, plain) in
        [("a.nc", &hdf5 as Create<'_>, filters as fn(_) -> _), ("a.zarr", &zarr as Create<'_>, codecs as fn(_) -> _)]
    {
        let (folder, model) = (Folder::new(), model());
        let path = folder.file(name);
        let shapes = [vec![2], vec![2, 3], vec![3]].into_iter().enumerate();
        let storages: Vec<Storage> = shapes
            .map(|(variable, chunk)| Storage { variable, chunk, encoding: plain(model.variables[variable].dtype) })
            .collect();
        let mut sink = create(&path, &model, &storages).unwrap();
        put_from_two_threads(sink.as_mut());
        assert!(!path.exists());
        sink.commit().unwrap();
        assert_eq!(folder.names(), [name]);

        let source = open(&path).unwrap();
        let found = source.model();
        for group in &model.groups {
            let other = found.groups.iter().find(|found| found.path == group.path).unwrap();
            same_attributes(&other.attributes, &group.attributes, &format!("{name} {}", group.path));
            let named = |group: &Group| -> Vec<_> {
                // Zarr does not say which dimensions can grow.
                let grows = |dimension: &Dimension| dimension.unlimited && name != "a.zarr";
                group.dimensions.iter().map(|one| (one.name.clone(), one.len, grows(one))).collect()
            };
            assert_eq!(named(other), named(group), "{name} {}", group.path);
        }
        for (index, variable) in model.variables.iter().enumerate() {
            let place = format!("{name} {}", variable.path);
            let at = found.variables.iter().position(|found| found.path == variable.path).expect(&place);
            let other = &found.variables[at];
            assert_eq!((other.dtype, &other.shape), (variable.dtype, &variable.shape), "{place}");
            assert_eq!((&other.dimensions, other.padding), (&variable.dimensions, variable.padding), "{place}");
            assert!(variable.fills.iter().all(|fill| other.fills.contains(fill)), "{place}: {:?}", other.fills);
            same_attributes(&other.attributes, &variable.attributes, &place);
            let mut read = Vec::new();
            source.read_region(at, &Region::whole(&variable.shape), &mut read).unwrap();
            assert_eq!(read, values(index), "{place}");
        }
    }
}

#[test]
fn a_sink_copies_only_from_the_source_it_was_made_for() {
    let (folder, model) = (Folder::new(), model());
    let other = MemorySource::new(vec![("T", DType::F32, vec![1], Vec::new(), vec![0; 4])]);
    let mut nc = Hdf5Sink::create(&folder.file("a.nc"), &model, &[], SinkOptions::default()).unwrap();
    let mut store = ZarrSink::create(&folder.file("a.zarr"), &model, &[], ZarrOptions::default()).unwrap();
    assert!(nc.copy_from(&other).is_err() && store.copy_from(&other).is_err());
    let same = MemorySource { model: model.clone(), values: (0..3).map(values).collect(), damaged: None };
    nc.copy_from(&same).unwrap();
    store.copy_from(&same).unwrap();
    // Once is enough, and chunks may have come by then.
    assert!(nc.copy_from(&same).is_err() && store.copy_from(&same).is_err());
    Box::new(nc).commit().unwrap();
    Box::new(store).commit().unwrap();
    for name in ["a.nc", "a.zarr"] {
        let source = open(&folder.file(name)).unwrap();
        for (index, variable) in model.variables.iter().enumerate() {
            let at = source.model().variables.iter().position(|found| found.path == variable.path).unwrap();
            let mut read = Vec::new();
            source.read_region(at, &Region::whole(&variable.shape), &mut read).unwrap();
            assert_eq!(read, values(index), "{name} {}", variable.path);
        }
    }
}
