//! Every store, and wrappers around stores, pass one suite.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use knarr_array::error::Result;
use knarr_flow::directory::Directory;
use knarr_flow::output::{AtomicDirectory, DirectoryKind, Store};
use knarr_testing::suites::store::{MemoryObjects, MemoryStore, Objects, Stores, check};

const ANYTHING: DirectoryKind =
    DirectoryKind { noun: "directory", is: Path::is_dir, foreign: |_| None, many_files: true };

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("knarr-stores-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// All files below `folder`, whose keys begin with `key`.
fn objects(folder: &Path, key: &str, found: &mut Objects) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let key = format!("{key}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            objects(&entry.path(), &format!("{key}/"), found);
        } else {
            found.insert(key, std::fs::read(entry.path()).unwrap());
        }
    }
}

fn check_directory(name: &str, wrap: fn(Box<dyn Store>) -> Box<dyn Store>) {
    let folder = Folder::new(name);
    let target = folder.0.join("store");
    check(&Stores {
        create: &|| Ok(wrap(Box::new(AtomicDirectory::create(&target, ANYTHING, false)?))),
        published: &|| {
            let mut found = Objects::new();
            target.exists().then(|| objects(&target, "", &mut found))?;
            Some(found)
        },
        read: &|| Some(Arc::new(Directory::new(&target))),
        overhead: &|| 0,
        remove: &|| std::fs::remove_dir_all(&target).unwrap(),
        file: &folder.0.join("file"),
    });
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1, "only the file that was copied stays");
}

#[test]
fn a_directory() {
    check_directory("directory", |store| store);
}

#[test]
fn memory() {
    let folder = Folder::new("memory");
    let published = Arc::new(Mutex::new(None));
    check(&Stores {
        create: &|| Ok(Box::new(MemoryStore::new(Arc::clone(&published)))),
        published: &|| published.lock().unwrap().clone(),
        read: &|| Some(Arc::new(MemoryObjects(published.lock().unwrap().clone().unwrap_or_default()))),
        overhead: &|| 0,
        remove: &|| *published.lock().unwrap() = None,
        file: &folder.0.join("file"),
    });
}

/// Counts what passes.
#[derive(Debug)]
struct Counted(Box<dyn Store>, u64);

impl Store for Counted {
    fn place(&self) -> String {
        self.0.place()
    }

    fn write(&mut self, key: &str, bytes: &[u8]) -> Result<()> {
        self.1 += bytes.len() as u64;
        self.0.write(key, bytes)
    }

    fn append(&mut self, key: &str, bytes: &[u8]) -> Result<u64> {
        self.1 += bytes.len() as u64;
        self.0.append(key, bytes)
    }

    fn finish(&mut self, key: &str) -> Result<()> {
        self.0.finish(key)
    }

    fn copy(&mut self, from: &Path, key: &str) -> Result<()> {
        self.0.copy(from, key)
    }

    fn publish(self: Box<Self>) -> Result<u64> {
        let counted = self.1;
        let written = self.0.publish()?;
        assert!(counted <= written);
        Ok(written)
    }
}

#[test]
fn wrappers_nest() {
    check_directory("wrapped", |store| Box::new(Counted(Box::new(Counted(store, 0)), 0)));
}
