//! Where a rank's arrays lie until they are packed: one array file.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::folder::Folder;
use crate::index::{ALIGNMENT, Entry, HEAD, Index};
use knarr_array::array::ArrayView;
use knarr_array::error::{Error, Result};
use knarr_array::request::{Request, Share};
use knarr_tier::{Account, Purpose, SharedMemory, Space, Tier, TierFile};

/// The array file of a rank.
pub struct ArrayFile {
    file: Box<dyn TierFile>,
    /// First byte that no array has.
    end: u64,
    entries: Vec<Entry>,
    /// The first entry of each name.
    names: HashMap<String, usize>,
}

/// A directory of this process with the array file of a rank.
pub type Spool = Folder<ArrayFile>;

impl Spool {
    /// Makes a spool in `parent`, or where nothing is named, in memory or else in `otherwise`.
    ///
    /// # Errors
    /// `Write`.
    pub fn open(parent: Option<&Path>, otherwise: &Path) -> Result<Self> {
        Self::make(parent, otherwise, |directory| {
            let memory = SharedMemory::new(directory, Account::of(Space::UNLIMITED));
            let file = memory.create(&directory.join(IMAGE), Purpose::Values);
            let file = file.map_err(|error| Error::write(directory, &error))?;
            Ok(ArrayFile { file, end: HEAD, entries: Vec::new(), names: HashMap::new() })
        })
    }

    /// Path of the array file.
    pub fn path(&self) -> PathBuf {
        self.directory().join(IMAGE)
    }

    /// Forgets the arrays of the step before. Their bytes stay where they are, so that the next ones find memory.
    pub fn begin(&mut self) {
        self.held.end = HEAD;
        self.held.entries.clear();
        self.held.names.clear();
    }

    /// Copies an array.
    ///
    /// # Errors
    /// `Usage` for a name, a share or a type that cannot be, and for what contradicts an array of the same name; `Write`.
    pub fn put(&mut self, name: &str, array: &ArrayView<'_>, share: Share) -> Result<()> {
        let request = Request::put(name, array.spec(), share)?;
        let of = |error: Error| error.at(format!("array '{name}'"));
        self.check_known(&request).map_err(of)?;
        let offset = self.held.end.next_multiple_of(ALIGNMENT);
        self.held.file.write_all_at(array.bytes(), offset).map_err(|error| of(self.write_error(&error)))?;
        self.held.end = offset + array.bytes().len() as u64;
        self.held.names.entry(name.to_owned()).or_insert(self.held.entries.len());
        self.held.entries.push(Entry { request, offset });
        Ok(())
    }

    /// Refuses what contradicts a request for the same variable at this step.
    fn check_known(&self, request: &Request) -> Result<()> {
        let known = self.held.names.get(&request.variable).and_then(|&place| self.held.entries.get(place));
        let Some(Entry { request: known, .. }) = known else { return Ok(()) };
        let is_part = matches!((&known.share, &request.share), (Share::Global { .. }, Share::Global { .. }));
        if is_part && known.dtype == request.dtype && known.share.shape() == request.share.shape() {
            return Ok(());
        }
        Err(Error::usage("it was handed over already at this step")
            .hint("give it another name, or give regions of one global array, all of its type"))
    }

    /// Completes the array file of `rank` of `ranks`. Returns its index.
    ///
    /// # Errors
    /// `Write`.
    pub fn finish(&mut self, step: u64, rank: u64, ranks: u64) -> Result<Index> {
        let index = Index { step, rank, ranks, entries: std::mem::take(&mut self.held.entries) };
        let (head, body) = index.write(self.held.end);
        let mut write = || {
            self.held.file.write_all_at(&body, self.held.end)?;
            self.held.file.write_all_at(&head, 0)?;
            self.held.file.set_len(self.held.end + body.len() as u64)
        };
        write().map_err(|error| self.write_error(&error))?;
        Ok(index)
    }

    fn write_error(&self, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::StorageFull => Error::write(self.directory(), error)
                .hint("free memory, or name another directory to hand arrays over in"),
            _ => Error::write(self.directory(), error),
        }
    }
}

/// Name of the array file in its directory.
const IMAGE: &str = "arrays";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::NAME;
    use knarr_array::array::{ArraySpec, DType};
    use knarr_array::error::ErrorKind;
    use knarr_array::region::Region;
    use knarr_testing::abandoned::abandoned_name;
    use std::fs;

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
        let alive = Spool::open(Some(&parent), &parent).unwrap();
        let second = Spool::open(Some(&parent), &parent).unwrap();
        assert!(!left.exists() && alive.path().exists());
        assert_ne!(alive.path(), second.path());
        drop((alive, second));
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn a_step_that_is_shorter_than_the_one_before_leaves_nothing_of_it() {
        let parent = folder("steps");
        let mut spool = Spool::open(Some(&parent), &parent).unwrap();
        for length in [1000u64, 10, 2000] {
            spool.begin();
            put(&mut spool, "a", &vec![7; usize::try_from(length).unwrap()], Share::Own(vec![length])).unwrap();
            put(&mut spool, "b", &[1, 2, 3], Share::Own(vec![3])).unwrap();
            let index = spool.finish(length, 2, 5).unwrap();
            assert_eq!((index.step, index.rank, index.ranks, index.entries.len()), (length, 2, 5, 2));
            let (found, bytes) = crate::index::open(&spool.path()).unwrap().unwrap();
            assert_eq!(found, index);
            assert!(bytes < length + 120);
        }
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn arrays_that_contradict_are_refused() {
        let parent = folder("contradict");
        let mut spool = Spool::open(Some(&parent), &parent).unwrap();
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
