//! Files that lie elsewhere, read through a copy on this machine that has, of their bytes, those that were asked for.
//!
//! The copy is sparse. It loses its name when it is open, so that it goes with the process. Formats, and HDF5 through its
//! driver, read it as any file; before they do, [`Partial::fetch`] sees to it that the bytes are there.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::read_store::{Part, ReadStore};
use knarr_flow::strided::ReadAt;

/// Bytes that are fetched together, and most of them that one request asks for.
const BLOCK: u64 = 1 << 20;
const MOST: u64 = 16 * BLOCK;

/// What is there of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Absent,
    /// Somebody fetches it.
    Coming,
    Here,
}

/// A copy of an object, of which parts are there.
#[derive(Debug)]
pub struct Partial {
    store: Arc<dyn ReadStore>,
    key: String,
    file: File,
    /// Its name, and whether it still has it: another file may get it then.
    path: PathBuf,
    named: AtomicBool,
    length: u64,
    blocks: Mutex<Vec<Block>>,
    changed: Condvar,
    failure: Mutex<Option<Error>>,
}

/// Device and inode of a file.
type Identity = (u64, u64);

/// The copies that are open. HDF5 hands a driver nothing but the file.
static OPEN: Mutex<Option<HashMap<Identity, Weak<Partial>>>> = Mutex::new(None);
/// How many there are: most programs have none, and should not wait for a lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn open_copies() -> MutexGuard<'static, Option<HashMap<Identity, Weak<Partial>>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn identity(file: impl AsFd) -> io::Result<Identity> {
    let found = rustix::fs::fstat(file)?;
    Ok((found.st_dev, found.st_ino))
}

/// The copy that this file is, if it is one.
pub fn copy_of(file: impl AsFd) -> Option<Arc<Partial>> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let identity = identity(file).ok()?;
    open_copies().as_ref()?.get(&identity)?.upgrade()
}

impl Partial {
    /// A copy of the object `key`, of which nothing is there yet; `None` if there is no such object.
    ///
    /// # Errors
    /// `Read` if it cannot be read; `Write` if there can be no file.
    pub fn of(store: Arc<dyn ReadStore>, key: String) -> Result<Option<Arc<Self>>> {
        let held = store.get(&key, Part::At { offset: 0, length: 0 }, &mut Vec::new())?;
        let Some(length) = held else { return Ok(None) };
        let (file, path) = temporary()?;
        let unnamed = |error: io::Error| {
            let _ = std::fs::remove_file(&path);
            Error::write(&path, &error)
        };
        file.set_len(length).map_err(unnamed)?;
        let identity = identity(&file).map_err(unnamed)?;
        let count = usize::try_from(length.div_ceil(BLOCK)).unwrap_or(usize::MAX);
        let blocks = Mutex::new(vec![Block::Absent; count]);
        let (changed, failure) = (Condvar::new(), Mutex::default());
        let copy =
            Arc::new(Self { store, key, file, path, named: AtomicBool::new(true), length, blocks, changed, failure });
        open_copies().get_or_insert_default().insert(identity, Arc::downgrade(&copy));
        COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(Some(copy))
    }

    /// A path that opens the copy until it loses its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes its name away.
    pub fn unname(&self) {
        if self.named.swap(false, Ordering::Relaxed) {
            // Who has lost the file has no use for the name.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Why bytes could not be fetched, if that happened. Formats and libraries put it in words of their own.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sees to it that these bytes are there, as far as the object has them.
    ///
    /// # Errors
    /// `Read` if they cannot be read, or the object was changed; `Write` if there is no room for them.
    pub fn fetch(&self, offset: u64, length: u64) -> Result<()> {
        let end = offset.saturating_add(length).min(self.length);
        if offset >= end {
            return Ok(());
        }
        let index = |at: u64| usize::try_from(at / BLOCK).unwrap_or(usize::MAX);
        let (first, last) = (index(offset), index(end - 1));
        let mut blocks = self.blocks();
        loop {
            let wanted = blocks.get_mut(first..=last).ok_or_else(|| Error::internal("a block is missing"))?;
            let Some(begin) = wanted.iter().position(|block| *block == Block::Absent) else {
                if wanted.iter().all(|block| *block == Block::Here) {
                    return Ok(());
                }
                blocks = self.changed.wait(blocks).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let most = usize::try_from(MOST / BLOCK).unwrap_or(1);
            let count = wanted[begin..].iter().take(most).take_while(|block| **block == Block::Absent).count();
            wanted[begin..begin + count].fill(Block::Coming);
            drop(blocks);
            let run = first + begin..first + begin + count;
            let fetched = self.fetch_blocks(run.start as u64 * BLOCK, count as u64 * BLOCK);
            blocks = self.blocks();
            if let Some(run) = blocks.get_mut(run) {
                run.fill(if fetched.is_ok() { Block::Here } else { Block::Absent });
            }
            self.changed.notify_all();
            if let Err(error) = fetched {
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
                return Err(error);
            }
        }
    }

    fn blocks(&self) -> MutexGuard<'_, Vec<Block>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fetch_blocks(&self, offset: u64, length: u64) -> Result<()> {
        let mut bytes = Vec::new();
        let part = Part::At { offset, length: length.min(self.length - offset) };
        if self.store.get(&self.key, part, &mut bytes)? != Some(self.length) {
            return Err(Error::new(ErrorKind::Read, "it was changed while it was read")
                .hint("repeat this when no program writes it"));
        }
        self.file.write_all_at(&bytes, offset).map_err(|error| {
            Error::write(&std::env::temp_dir(), &error).hint("name a directory with room for it: TMPDIR")
        })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Ok(identity) = identity(&self.file) {
            open_copies().as_mut().and_then(|open| open.remove(&identity));
        }
        COUNT.fetch_sub(1, Ordering::Relaxed);
        self.unname();
    }
}

/// A new file of one's own, and its name.
fn temporary() -> Result<(File, PathBuf)> {
    let directory = std::env::temp_dir();
    for number in 0u32.. {
        let path = directory.join(format!(".knarr-fetched-{}-{number}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::write(&directory, &error).hint("name another directory: TMPDIR")),
        }
    }
    Err(Error::internal("no name is left for a file").at(directory.display().to_string()))
}

/// A file that is read, whether all of it is there or not.
#[derive(Debug)]
pub struct Input {
    file: File,
    copy: Option<Arc<Partial>>,
}

impl Input {
    /// Opens a file. If it is a copy of which parts are there, the others are fetched when they are read.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let copy = copy_of(&file);
        Ok(Self { file, copy })
    }

    /// What the system says of the file.
    ///
    /// # Errors
    /// What the system says.
    pub fn metadata(&self) -> io::Result<std::fs::Metadata> {
        self.file.metadata()
    }

    fn fetch(&self, offset: u64, length: usize) -> io::Result<()> {
        match &self.copy {
            Some(copy) => copy.fetch(offset, length as u64).map_err(io::Error::other),
            None => Ok(()),
        }
    }

    /// Reads as much as there is.
    ///
    /// # Errors
    /// What the system says, or why bytes could not be fetched.
    pub fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        self.fetch(offset, out.len())?;
        self.file.read_at(out, offset)
    }
}

impl ReadAt for Input {
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.fetch(offset, out.len())?;
        FileExt::read_exact_at(&self.file, out, offset)
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "test files are small")]
mod tests {
    use super::*;
    use knarr_testing::suites::store::MemoryObjects;

    #[test]
    fn bytes_come_when_they_are_asked_for() {
        let bytes: Vec<u8> = (0..3 * BLOCK + 77).map(|at| (at % 251) as u8).collect();
        let store = Arc::new(MemoryObjects([("a".to_owned(), bytes.clone())].into()));
        assert!(Partial::of(Arc::clone(&store) as _, "b".to_owned()).unwrap().is_none());
        let copy = Partial::of(store, "a".to_owned()).unwrap().unwrap();
        let input = Input::open(copy.path()).unwrap();
        assert_eq!(input.metadata().unwrap().len(), bytes.len() as u64);
        let mut out = vec![0; 100];
        input.read_exact_at(&mut out, BLOCK - 50).unwrap();
        assert_eq!(out, bytes[BLOCK as usize - 50..][..100]);
        let here = |copy: &Partial| copy.blocks().iter().filter(|block| **block == Block::Here).count();
        assert_eq!(here(&copy), 2);
        assert_eq!(input.read_at(&mut out, 3 * BLOCK).unwrap(), 77);
        assert_eq!((&out[..77], here(&copy)), (&bytes[3 * BLOCK as usize..], 3));
        assert!(input.read_exact_at(&mut out, 3 * BLOCK).is_err(), "the end of the file is its end");
        let all = || {
            let mut out = vec![0; bytes.len()];
            input.read_exact_at(&mut out, 0).map(|()| out == bytes).unwrap()
        };
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(all)).collect();
            assert!(readers.into_iter().all(|reader| reader.join().unwrap()));
        });
        drop(input);
        drop(copy);
        assert_eq!(COUNT.load(Ordering::Relaxed), 0);
    }
}
