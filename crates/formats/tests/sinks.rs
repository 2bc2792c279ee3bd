//! Every sink that is made from a model, and wrappers around sinks, pass one suite.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by panicking")]

mod common;

use common::Folder;
use knarr_array::array::DType;
use knarr_array::error::Result;
use knarr_array::model::Attribute;
use knarr_codec::codec::CodecList;
use knarr_flow::store::{EncodedChunk, Encoding, Sink, Source, Storage};
use knarr_flow::testing::memory::MemorySource;
use knarr_flow::testing::sink_suite::{Create, Format, check};
use knarr_flow::testing::store_suite::MemoryStore;
use knarr_formats::hdf5::{Hdf5Sink, SinkOptions};
use knarr_formats::zarr::{ZarrOptions, ZarrSink};
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex};

fn hdf5(path: &Path, source: &dyn Source, storages: &[Storage]) -> Result<Box<dyn Sink>> {
    Ok(Box::new(Hdf5Sink::create(path, source, storages, SinkOptions::default())?))
}

fn zarr(path: &Path, source: &dyn Source, storages: &[Storage]) -> Result<Box<dyn Sink>> {
    Ok(Box::new(ZarrSink::create(path, source, storages, ZarrOptions::default())?))
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
fn a_zarr_store_is_the_same_in_every_store() {
    let (folder, published) = (Folder::new(), Arc::new(Mutex::new(None)));
    let source = MemorySource::new(vec![("T", DType::F32, vec![6], Vec::new(), (0..24).collect())]);
    let storage = || [Storage { variable: 0, chunk: vec![4], encoding: codecs(DType::F32) }];
    let path = folder.file("a.zarr");
    let directory = ZarrSink::create(&path, &source, &storage(), ZarrOptions::default()).unwrap();
    let store = Box::new(MemoryStore::new(Arc::clone(&published)));
    let memory = ZarrSink::over(store, &source, &storage(), ZarrOptions::default()).unwrap();
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
        let create = |path: &Path, source: &dyn Source, storages: &[Storage]| -> Result<Box<dyn Sink>> {
            let second = other.path().join(name);
            if second.is_dir() {
                std::fs::remove_dir_all(&second).unwrap();
            } else if second.exists() {
                std::fs::remove_file(&second).unwrap();
            }
            let first = Box::new(Delayed { beneath: beneath(path, source, storages)?, waiting: None });
            Ok(Box::new(Delayed { beneath: Box::new(Tee(first, beneath(&second, source, storages)?)), waiting: None }))
        };
        check(&Format { create: &create, open: &open, plain: &plain, folder: folder.path(), name });
    }
}
