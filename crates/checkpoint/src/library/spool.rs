//! Where a rank's arrays lie until they are packed: one array file in a directory that is gone when the program is.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use super::image::{ALIGNMENT, Entry, HEAD, Index, Share, check_name};
use knarr_array::array::ArrayView;
use knarr_array::error::{Error, Result};
use knarr_flow::output::{remove_abandoned, temporary_name};

/// The bytes of a file that is filled again and again.
pub trait Memory: Send {
    /// Writes `bytes` from byte `offset` on. The file grows where it has to.
    ///
    /// # Errors
    /// Those of the file system, a full one among them.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file `length` bytes long.
    ///
    /// # Errors
    /// Those of the file system.
    fn end(&mut self, length: u64) -> io::Result<()>;
}

/// Opens the memory of a file: [`write_calls`], or a mapping where one can be had.
pub type OpenMemory = fn(File) -> io::Result<Box<dyn Memory>>;

/// Writes by calls.
///
/// # Errors
/// None.
pub fn write_calls(file: File) -> io::Result<Box<dyn Memory>> {
    struct Calls(File);
    impl Memory for Calls {
        fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write_all_at(bytes, offset)
        }

        fn end(&mut self, length: u64) -> io::Result<()> {
            self.0.set_len(length)
        }
    }
    Ok(Box::new(Calls(file)))
}

/// Where spools lie unless another directory is named: memory, or else the directory of the sets.
const SHARED_MEMORY: &str = "/dev/shm";
/// What the names of spools begin with, behind a dot.
const NAME: &str = "knarr-spool";

/// A directory of this process with the array file of a rank. Removed when it is dropped; if the process is killed,
/// by the next one that opens a spool there.
pub(super) struct Spool {
    directory: PathBuf,
    /// The process that made it: those that it forks share the directory, and must leave it alone.
    process: u32,
    /// Locked as long as the process lives, or one that it forked; `None` where the file system has no locks.
    _lock: Option<File>,
    memory: Box<dyn Memory>,
    /// First byte that no array has.
    end: u64,
    entries: Vec<Entry>,
    /// The first entry of each name.
    names: HashMap<String, usize>,
}

impl Spool {
    /// Makes a spool in `parent`, or where nothing is named, in memory or else in `sets`.
    ///
    /// # Errors
    /// `Write`.
    pub(super) fn open(parent: Option<&Path>, sets: &Path, open: OpenMemory) -> Result<Self> {
        match parent {
            Some(parent) => Self::create(parent, open),
            None => Self::create(Path::new(SHARED_MEMORY), open).or_else(|_| Self::create(sets, open)),
        }
    }

    fn create(parent: &Path, open: OpenMemory) -> Result<Self> {
        let write_error = |error: io::Error| Error::write(parent, &error);
        remove_abandoned(parent);
        let directory = parent.join(temporary_name(OsStr::new(NAME)));
        DirBuilder::new().mode(0o700).create(&directory).map_err(write_error)?;
        let lock = File::open(&directory).ok().filter(|lock| lock.try_lock().is_ok());
        let make = || {
            let path = directory.join(IMAGE);
            let file = File::options().read(true).write(true).create_new(true).open(path)?;
            open(file)
        };
        match make() {
            Ok(memory) => {
                let (process, entries, names) = (std::process::id(), Vec::new(), HashMap::new());
                Ok(Self { directory, process, _lock: lock, memory, end: HEAD, entries, names })
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&directory);
                Err(write_error(error))
            }
        }
    }

    /// True in the process that made it.
    pub(super) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Path of the array file.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(IMAGE)
    }

    /// Forgets the arrays of the step before. Their bytes stay where they are, so that the next ones find memory.
    pub(super) fn begin(&mut self) {
        self.end = HEAD;
        self.entries.clear();
        self.names.clear();
    }

    /// Copies an array.
    ///
    /// # Errors
    /// `Usage` for a name, a share or a type that cannot be, and for what contradicts an array of the same name; `Write`.
    pub(super) fn put(&mut self, name: &str, array: &ArrayView<'_>, share: Share) -> Result<()> {
        check_name(name)?;
        let of = |error: Error| error.at(format!("array '{name}'"));
        let entry = self.entry(name, array, share).map_err(of)?;
        self.memory.write(entry.offset, array.bytes()).map_err(|error| of(self.write_error(&error)))?;
        self.end = entry.offset + array.bytes().len() as u64;
        self.names.entry(name.to_owned()).or_insert(self.entries.len());
        self.entries.push(entry);
        Ok(())
    }

    fn entry(&self, name: &str, array: &ArrayView<'_>, share: Share) -> Result<Entry> {
        share.check()?;
        let spec = array.spec();
        if !share.count().iter().copied().eq(spec.shape.iter().map(|&n| n as u64)) {
            return Err(Error::usage(format!(
                "the region has the shape {:?}, the array {:?}",
                share.count(),
                spec.shape
            )));
        }
        if spec.dtype.size() == 0 || matches!(spec.dtype, knarr_array::array::DType::Opaque(_)) {
            return Err(Error::unsupported(format!("elements of type {}", spec.dtype))
                .hint("arrays hold integers or floats: hand over others as those they are made of"));
        }
        if let Some(known) = self.names.get(name).and_then(|&place| self.entries.get(place)) {
            let is_part = matches!((&known.share, &share), (Share::Global { .. }, Share::Global { .. }));
            if !is_part || known.dtype != spec.dtype || known.share.shape() != share.shape() {
                return Err(Error::usage("it was handed over already at this step")
                    .hint("give it another name, or give regions of one global array, all of its type"));
            }
        }
        let offset = self.end.next_multiple_of(ALIGNMENT);
        Ok(Entry { name: name.to_owned(), dtype: spec.dtype, endian: spec.endian, share, offset })
    }

    /// Completes the array file of `rank` of `ranks`. Returns its index.
    ///
    /// # Errors
    /// `Write`.
    pub(super) fn finish(&mut self, step: u64, rank: u64, ranks: u64) -> Result<Index> {
        let index = Index { step, rank, ranks, entries: std::mem::take(&mut self.entries) };
        let (head, body) = index.write(self.end);
        let mut write = || {
            self.memory.write(self.end, &body)?;
            self.memory.write(0, &head)?;
            self.memory.end(self.end + body.len() as u64)
        };
        write().map_err(|error| self.write_error(&error))?;
        Ok(index)
    }

    fn write_error(&self, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::StorageFull => Error::write(&self.directory, error)
                .hint("free memory, or name another directory to hand arrays over in"),
            _ => Error::write(&self.directory, error),
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if self.is_own() {
            // Nothing is left to report a failure to; the next spool removes what stays.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Name of the array file in its directory.
const IMAGE: &str = "arrays";

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::{ArraySpec, DType};
    use knarr_array::error::ErrorKind;
    use knarr_array::region::Region;
    use knarr_flow::output::abandoned_name;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("knarr-spool-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn put(spool: &mut Spool, name: &str, values: &[u8], share: Share) -> Result<()> {
        let shape: Vec<usize> = share.count().iter().map(|&n| usize::try_from(n).unwrap()).collect();
        let spec = ArraySpec::new(DType::U8, shape);
        spool.put(name, &ArrayView::new(&spec, values)?, share)
    }

    #[test]
    fn spools_of_the_dead_are_removed_and_those_of_the_living_are_not() {
        let parent = folder("abandoned");
        let left = parent.join(abandoned_name(NAME));
        fs::create_dir_all(left.join("below")).unwrap();
        let alive = Spool::open(Some(&parent), &parent, write_calls).unwrap();
        let second = Spool::open(Some(&parent), &parent, write_calls).unwrap();
        assert!(!left.exists() && alive.path().exists());
        assert_ne!(alive.path(), second.path());
        drop((alive, second));
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn a_step_that_is_shorter_than_the_one_before_leaves_nothing_of_it() {
        let parent = folder("steps");
        let mut spool = Spool::open(Some(&parent), &parent, write_calls).unwrap();
        for length in [1000u64, 10, 2000] {
            spool.begin();
            put(&mut spool, "a", &vec![7; usize::try_from(length).unwrap()], Share::Own(vec![length])).unwrap();
            put(&mut spool, "b", &[1, 2, 3], Share::Own(vec![3])).unwrap();
            let index = spool.finish(length, 2, 5).unwrap();
            assert_eq!((index.step, index.rank, index.ranks, index.entries.len()), (length, 2, 5, 2));
            let layout = super::super::image::layout(&spool.path()).unwrap().unwrap();
            layout.check().unwrap();
            assert_eq!(layout.variables.len(), 2);
            assert!(layout.length < length + 120);
        }
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn arrays_that_contradict_are_refused() {
        let parent = folder("contradict");
        let mut spool = Spool::open(Some(&parent), &parent, write_calls).unwrap();
        let share = |start: u64| Share::Global { shape: vec![9], region: Region::new([start], [3]) };
        put(&mut spool, "a", &[1, 2, 3], share(0)).unwrap();
        put(&mut spool, "a", &[1, 2, 3], share(3)).unwrap();
        put(&mut spool, "own", &[1, 2, 3], Share::Own(vec![3])).unwrap();
        for (name, bad) in [
            ("a", Share::Own(vec![3])),
            ("own", Share::Own(vec![3])),
            ("own", share(0)),
            ("a", Share::Global { shape: vec![8], region: Region::new([0], [3]) }),
            ("a", share(7)),
            ("", share(0)),
        ] {
            assert_eq!(put(&mut spool, name, &[1, 2, 3], bad).unwrap_err().kind(), ErrorKind::Usage);
        }
        let error = spool
            .put("x", &ArrayView::new(&ArraySpec::new(DType::Opaque(3), []), &[0; 3]).unwrap(), Share::Own(vec![]))
            .unwrap_err();
        assert!(error.to_string().contains("array 'x'") && error.advice().is_some(), "{error}");
        fs::remove_dir_all(parent).unwrap();
    }
}
