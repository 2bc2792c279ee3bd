//! A directory whose files are replaced one by one.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::atomic_file::AtomicFile;
use super::sync::{sync_files, sync_name};
use crate::objects::directory::Directory;
use crate::objects::mutable_store::{MutableStore, StoreLock};
use crate::objects::read_store::ReadStore;
use knarr_array::error::{Error, Result};

/// How long to sleep between looks whether a lock is free.
const LOOK: Duration = Duration::from_millis(3);

/// Files that are synced together: each alone would wait for the disk.
const AT_ONCE: usize = 64;

/// A directory of this machine that is changed in place.
#[derive(Debug)]
pub struct InPlace {
    root: PathBuf,
    /// The file by whose lock the store is held.
    locked: &'static str,
}

impl InPlace {
    /// The directory at `root`. All who change it lock its file `locked`, which is there. Who holds the store and replaces
    /// that file lets others in: it is the last one to be replaced.
    pub fn new(root: &Path, locked: &'static str) -> Self {
        Self { root: root.to_owned(), locked }
    }

    /// The bytes of an object, in a file that has yet to get its name.
    fn ready(&self, key: &str, bytes: &[u8]) -> Result<AtomicFile> {
        let path = self.root.join(key);
        self.make(path.parent().unwrap_or(&self.root))?;
        let temporary = AtomicFile::create(&path, true)?;
        temporary.file().write_all(bytes).map_err(|error| Error::write(&path, &error))?;
        Ok(temporary)
    }

    /// Makes the directory `path` and those above it, each durable before the next.
    fn make(&self, path: &Path) -> Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(&self.root);
        self.make(parent)?;
        match std::fs::create_dir(path) {
            Ok(()) => sync_name(parent, path),
            // Another process came first.
            Err(_) if path.is_dir() => Ok(()),
            Err(error) => Err(Error::write(path, &error)),
        }
    }
}

impl MutableStore for InPlace {
    fn place(&self) -> String {
        self.root.display().to_string()
    }

    fn objects(&self) -> Arc<dyn ReadStore> {
        Arc::new(Directory::new(&self.root))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        self.ready(key, bytes)?.publish().map(drop)
    }

    fn put_all(&self, objects: &[(String, Vec<u8>)]) -> Result<()> {
        let place = |error: io::Error| Error::write(&self.root, &error);
        let directory = File::open(&self.root).map_err(place)?;
        let ready = objects.iter().map(|(key, bytes)| self.ready(key, bytes)).collect::<Result<Vec<_>>>()?;
        sync_files(&directory, ready.iter().map(AtomicFile::file)).map_err(place)?;
        ready.into_iter().try_for_each(AtomicFile::publish_synced)?;
        // Each directory once, with one of the names that it has got.
        let paths = objects.iter().map(|(key, _)| self.root.join(key));
        let names: BTreeMap<PathBuf, PathBuf> =
            paths.filter_map(|path| Some((path.parent()?.to_owned(), path))).collect();
        names.iter().try_for_each(|(directory, path)| sync_name(directory, path))
    }

    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn hold(&self, may_wait: &dyn Fn() -> Result<()>) -> Result<Option<StoreLock>> {
        let path = self.root.join(self.locked);
        loop {
            // Some file systems lock only what is open for writing.
            let opened = OpenOptions::new().read(true).write(true).open(&path);
            let file = opened.map_err(|error| Error::write(&path, &error))?;
            loop {
                match file.try_lock() {
                    Ok(()) => break,
                    Err(TryLockError::WouldBlock) => {
                        may_wait()?;
                        std::thread::sleep(LOOK);
                    }
                    Err(TryLockError::Error(error)) if cannot_lock(&error) => return Ok(None),
                    Err(TryLockError::Error(error)) => return Err(Error::write(&path, &error)),
                }
            }
            // The file may have been replaced while this one was waited for.
            if is_same(&file, &path).map_err(|error| Error::write(&path, &error))? {
                return Ok(Some(StoreLock::by(file)));
            }
        }
    }
}

/// True if the file is the one that is called so now.
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    let (mine, named) = (file.metadata()?, std::fs::metadata(path)?);
    Ok((mine.dev(), mine.ino()) == (named.dev(), named.ino()))
}

/// True if the file system has no locks.
fn cannot_lock(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::read_store::Part;
    use knarr_array::error::ErrorKind;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn store(name: &str) -> InPlace {
        let root = std::env::temp_dir().join(format!("knarr-in-place-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("top"), "old").unwrap();
        InPlace::new(&root, "top")
    }

    #[test]
    fn objects_are_made_and_replaced() {
        let store = store("put");
        for bytes in [b"first".as_slice(), b"", b"third"] {
            store.put("a/c/0/1", bytes).unwrap();
            let mut found = Vec::new();
            let held = store.objects().get("a/c/0/1", Part::Whole { most: 99 }, &mut found).unwrap();
            assert_eq!((held, found.as_slice()), (Some(bytes.len() as u64), bytes));
        }
        assert_eq!(std::fs::read_dir(store.root.join("a/c/0")).unwrap().count(), 1, "nothing else stays");
        let (all, mut found) =
            (["a/x", "a/y", "b/x", "b/y", "c", "top"].map(|key| (key.to_owned(), key.as_bytes().to_vec())), Vec::new());
        store.put_all(&all).unwrap();
        for (key, bytes) in &all {
            store.objects().get(key, Part::Whole { most: 99 }, &mut found).unwrap();
            assert_eq!(found, *bytes);
        }
        assert!(store.put("top/a", b"below a file").is_err());
        std::fs::remove_dir_all(&store.root).unwrap();
    }

    #[test]
    fn one_holds_it_at_a_time_even_if_the_file_is_replaced() {
        let store = store("hold");
        let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let held = store.hold(&|| Ok(())).unwrap();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        store.put("top", b"new").unwrap();
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
        let _held = store.hold(&|| Ok(())).unwrap().unwrap();
        let refused = store.hold(&|| Err(Error::new(ErrorKind::Interrupted, "enough"))).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Interrupted);
        std::fs::remove_dir_all(&store.root).unwrap();
    }
}
