//! The conformance suite of stores, and a store in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::suites::read_store;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::output::Store;
use knarr_flow::read_store::{Entry, Part, ReadStore, entries_of};

/// Objects that were published, by key.
pub type Objects = BTreeMap<String, Vec<u8>>;

/// A store in memory. What it publishes appears in a map that the caller holds.
#[derive(Debug)]
pub struct MemoryStore {
    written: Objects,
    published: Arc<Mutex<Option<Objects>>>,
}

impl MemoryStore {
    /// An empty store that publishes to `published`.
    pub fn new(published: Arc<Mutex<Option<Objects>>>) -> Self {
        Self { written: Objects::new(), published }
    }
}

impl Store for MemoryStore {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn write(&mut self, key: &str, bytes: &[u8]) -> Result<()> {
        match self.written.insert(key.to_owned(), bytes.to_vec()) {
            None => Ok(()),
            Some(_) => Err(Error::internal(format!("'{key}' was written twice"))),
        }
    }

    fn append(&mut self, key: &str, bytes: &[u8]) -> Result<u64> {
        let object = self.written.entry(key.to_owned()).or_default();
        let offset = object.len() as u64;
        object.extend_from_slice(bytes);
        Ok(offset)
    }

    fn finish(&mut self, _key: &str) -> Result<()> {
        Ok(())
    }

    fn copy(&mut self, from: &Path, key: &str) -> Result<()> {
        let bytes = std::fs::read(from).map_err(|error| Error::read(from, &error))?;
        self.write(key, &bytes)
    }

    fn publish(self: Box<Self>) -> Result<u64> {
        let bytes = self.written.values().map(|object| object.len() as u64).sum();
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        if published.is_some() {
            return Err(Error::new(ErrorKind::Exists, "the output exists"));
        }
        *published = Some(self.written);
        Ok(bytes)
    }
}

/// What a [`MemoryStore`] published, as a store that is read.
#[derive(Debug)]
pub struct MemoryObjects(pub Objects);

impl ReadStore for MemoryObjects {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn get(&self, key: &str, part: Part, out: &mut Vec<u8>) -> Result<Option<u64>> {
        let Some(object) = self.0.get(key) else { return Ok(None) };
        out.clear();
        let held = object.len() as u64;
        if let Some((offset, length)) = part.within(held) {
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            out.extend_from_slice(&object[place(offset)..place(offset + length)]);
        }
        Ok(Some(held))
    }

    fn has(&self, key: &str) -> Result<bool> {
        Ok(self.0.contains_key(key))
    }

    fn list(&self, folder: &str) -> Result<Option<Vec<Entry>>> {
        let objects = self.0.iter().map(|(key, object)| (key.as_str(), object.len() as u64));
        Ok(Some(entries_of(objects, folder)))
    }
}

/// A kind of store, as the suite needs it.
pub struct Stores<'a> {
    /// An empty store, which does not replace an output. All of them have one place.
    pub create: &'a dyn Fn() -> Result<Box<dyn Store>>,
    /// All objects that are there; `None` if there is no output.
    pub published: &'a dyn Fn() -> Option<Objects>,
    /// Reads what is there, if a reader is there for it.
    pub read: &'a dyn Fn() -> Option<Arc<dyn ReadStore>>,
    /// Bytes that the output takes beside those of its objects, such as an index.
    pub overhead: &'a dyn Fn() -> u64,
    /// Removes the output.
    pub remove: &'a dyn Fn(),
    /// A file that is no part of it.
    pub file: &'a Path,
}

/// Runs every check.
pub fn check(stores: &Stores<'_>) {
    let create = || (stores.create)().unwrap_or_else(|error| panic!("{error}"));
    let absent = || assert_eq!((stores.published)(), None, "nothing is there before all is");
    std::fs::write(stores.file, b"copied").unwrap_or_else(|error| panic!("{error}"));
    absent();
    let mut store = create();
    assert!(!store.place().is_empty());
    let fill = |store: &mut dyn Store| -> Result<()> {
        store.write("zarr.json", b"{}")?;
        store.write("a/c/0/1", &[7; 1000])?;
        store.write("a/empty", b"")?;
        assert_eq!(store.append("a/shard", b"first")?, 0);
        assert_eq!(store.append("b/shard", b"other")?, 0);
        assert_eq!(store.append("a/shard", b" second")?, 5);
        store.finish("a/shard")?;
        store.copy(stores.file, "copies/file")
    };
    fill(store.as_mut()).unwrap_or_else(|error| panic!("{error}"));
    let twice = store.write("a/c/0/1", &[1]).map_err(|error| error.kind());
    assert_eq!(twice, Err(ErrorKind::Internal), "an object is written twice");
    let missing = store.copy(Path::new("/nonexistent/file"), "x").map_err(|error| error.kind());
    assert_eq!(missing, Err(ErrorKind::NotFound));
    absent();
    drop(store);
    absent();
    let mut store = create();
    fill(store.as_mut()).unwrap_or_else(|error| panic!("{error}"));
    let mut late = create();
    late.write("zarr.json", b"of another program").unwrap_or_else(|error| panic!("{error}"));
    absent();
    let bytes = store.publish().unwrap_or_else(|error| panic!("{error}"));
    let expected: Objects = [
        ("zarr.json", b"{}".to_vec()),
        ("a/c/0/1", vec![7; 1000]),
        ("a/empty", Vec::new()),
        ("a/shard", b"first second".to_vec()),
        ("b/shard", b"other".to_vec()),
        ("copies/file", b"copied".to_vec()),
    ]
    .map(|(key, bytes)| (key.to_owned(), bytes))
    .into();
    let objects: u64 = expected.values().map(|object| object.len() as u64).sum();
    assert_eq!(bytes, objects + (stores.overhead)());
    assert_eq!((stores.published)().as_ref(), Some(&expected));
    if let Some(read) = (stores.read)() {
        read_store::check(read.as_ref(), &expected);
    }
    let replaced = late.publish().map_err(|error| error.kind());
    assert_eq!(replaced, Err(ErrorKind::Exists), "an output that appeared meanwhile is replaced");
    assert_eq!((stores.published)(), Some(expected));
    (stores.remove)();
    absent();
}
