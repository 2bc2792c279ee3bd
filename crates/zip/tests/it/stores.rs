//! ZIP files pass the suites of all stores.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::ErrorKind;
use knarr_flow::output::Store;
use knarr_flow::read_store::{Part, ReadStore};
use knarr_testing::suites::store::{Objects, Stores, check};
use knarr_zip::{ZipObjects, ZipStore};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("knarr-zip-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> knarr_array::Result<ZipObjects<File>> {
    let file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len();
    ZipObjects::open(file, length, path)
}

/// What the file holds, read by the crate that knows ZIP files.
fn members(path: &Path) -> Objects {
    let bytes = std::fs::read(path).unwrap();
    let archive = rawzip::ZipArchive::from_slice(&bytes).unwrap();
    let mut objects = Objects::new();
    for entry in archive.entries() {
        let entry = entry.unwrap();
        let key = String::from_utf8(entry.file_path().as_bytes().to_vec()).unwrap();
        objects.insert(key, archive.get_entry(entry.wayfinder()).unwrap().data().to_vec());
    }
    objects
}

#[test]
fn a_zip_file() {
    let folder = Folder::new("suite");
    let target = folder.0.join("store.zarr.zip");
    check(&Stores {
        create: &|| Ok(Box::new(ZipStore::create(&target, false)?)),
        published: &|| target.exists().then(|| members(&target)),
        read: &|| Some(Arc::new(open(&target).unwrap())),
        overhead: &|| {
            let objects: u64 = members(&target).values().map(|object| object.len() as u64).sum();
            target.metadata().unwrap().len() - objects
        },
        remove: &|| std::fs::remove_file(&target).unwrap(),
        file: &folder.0.join("file"),
    });
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1, "only the file that was copied stays");
}

#[test]
fn objects_that_grow_by_turns_are_whole() {
    let folder = Folder::new("growing");
    let target = folder.0.join("store.zarr.zip");
    let mut store = ZipStore::create(&target, false).unwrap();
    let pieces: Vec<Vec<u8>> = (0..40u8).map(|piece| vec![piece; 100_000 * usize::from(piece)]).collect();
    for (number, piece) in pieces.iter().enumerate() {
        store.append(["a", "b", "c"][number % 3], piece).unwrap();
        store.write(&format!("between/{number}"), b"others").unwrap();
    }
    store.finish("b").unwrap();
    assert_eq!(store.append("b", b"more").unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(store.write("a", b"again").unwrap_err().kind(), ErrorKind::Internal);
    Box::new(store).publish().unwrap();
    let found = members(&target);
    for (key, number) in [("a", 0), ("b", 1), ("c", 2)] {
        let expected: Vec<u8> = pieces.iter().skip(number).step_by(3).flatten().copied().collect();
        assert!(found[key] == expected, "{key}");
    }
    assert_eq!(found.len(), 43);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1, "what grew beside it is gone");
}

#[test]
fn names_are_what_they_were() {
    let folder = Folder::new("names");
    let target = folder.0.join("store.zarr.zip");
    let mut store = ZipStore::create(&target, false).unwrap();
    let names = ["a:b/c", "a\\b", "temp\u{e9}rature/c/0", "a b", ".zgroup"];
    names.iter().for_each(|name| store.write(name, name.as_bytes()).unwrap());
    assert_eq!(store.write("\u{e9}:x", b"").unwrap_err().kind(), ErrorKind::Unsupported);
    Box::new(store).publish().unwrap();
    let (objects, mut out) = (open(&target).unwrap(), Vec::new());
    for name in names {
        objects.get(name, Part::Whole { most: u64::MAX }, &mut out).unwrap().unwrap();
        assert_eq!(out, name.as_bytes());
    }
}

#[test]
fn damage_is_an_error_and_never_other_bytes() {
    let folder = Folder::new("damage");
    let target = folder.0.join("store.zarr.zip");
    let mut store = ZipStore::create(&target, false).unwrap();
    let whole = Objects::from([("zarr.json".to_owned(), b"{}".to_vec()), ("a/c/0".to_owned(), vec![7; 300])]);
    whole.iter().for_each(|(key, bytes)| store.write(key, bytes).unwrap());
    Box::new(store).publish().unwrap();
    let bytes = std::fs::read(&target).unwrap();
    let look = |bytes: &[u8]| {
        let damaged = folder.0.join("damaged.zip");
        std::fs::write(&damaged, bytes).unwrap();
        let Ok(objects) = open(&damaged) else { return };
        let mut out = Vec::new();
        for (key, expected) in &whole {
            if let Ok(found) = objects.get(key, Part::Whole { most: u64::MAX }, &mut out) {
                assert!(found.is_some() && objects.has(key).unwrap(), "{key} is lost");
                assert_eq!(&out, expected, "{key}");
            }
        }
    };
    (0..bytes.len()).for_each(|length| look(&bytes[..length]));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            look(&flipped);
        }
    }
}
