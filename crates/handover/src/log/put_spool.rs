//! Where a rank's puts into a file lie until the file is made of them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::available::available_memory;
use crate::folder::{Folder, NAME, Spooled};
use crate::log::account::Limit;
use crate::log::put::Put;
use crate::log::puts::{PutLog, Room};
use crate::memory::OpenMemory;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::output::{remove_abandoned, temporary_name};

/// A directory of this process with the values of a rank, and the log of what they are.
pub struct PutSpool {
    log: PutLog,
    folder: Folder,
}

impl PutSpool {
    /// Makes a spool in `parent`, or where nothing is named, in memory. One of `ranks` ranks of a node may take its part of
    /// half of the memory that is free now. Further values go to a file in `disk`.
    ///
    /// # Errors
    /// `Write`.
    pub fn open(parent: Option<&Path>, disk: &Path, ranks: usize, open: OpenMemory) -> Result<Self> {
        remove_abandoned(disk);
        let make = |directory: &Path| {
            let account = Limit::of(room(directory)? / 2 / ranks.max(1) as u64);
            let (more, unused) = (disk.join(temporary_name(OsStr::new(NAME))), directory.join("free"));
            let room = Room { directory: directory.to_owned(), free: unused, account, more };
            PutLog::create(room, VALUES, LOG, open).inspect_err(|_| remove_targets(directory))
        };
        let (folder, log) = Folder::open(parent, disk, make)?;
        Ok(Self { log, folder })
    }

    /// Paths of the values and of the log.
    pub fn paths(&self) -> (PathBuf, PathBuf) {
        (self.folder.path().join(VALUES), self.folder.path().join(LOG))
    }

    /// Bytes of all values so far.
    pub fn bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Copies the values of a put, whose offset is of no account.
    ///
    /// # Errors
    /// `Write` if there is no room.
    pub fn put(&mut self, put: Put, values: &[u8]) -> Result<()> {
        let write = || {
            let offset = self.log.reserve(values.len() as u64)?;
            self.log.write(offset, put.dtype, values)?;
            self.log.push(&[Put { offset, ..put }])
        };
        write().map_err(|error| match error.kind() {
            ErrorKind::Write => {
                error.hint("free memory or disk, or name another directory to hand values over in (spool)")
            }
            _ => error,
        })
    }
}

impl Spooled for PutSpool {
    fn is_own(&self) -> bool {
        self.folder.is_own()
    }
}

impl Drop for PutSpool {
    fn drop(&mut self) {
        if self.is_own() {
            remove_targets(self.folder.path());
        }
    }
}

/// Removes what lies on the disk: links in the directory lead to it.
fn remove_targets(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for more in entries.filter_map(|entry| fs::read_link(entry.path()).ok()) {
        let _ = fs::remove_file(more);
    }
}

const VALUES: &str = "values";
const LOG: &str = "log";
/// `TMPFS_MAGIC` of Linux: files in memory.
const IN_MEMORY: u64 = 0x0102_1994;

/// Bytes that files in a directory may still take.
fn room(directory: &Path) -> Result<u64> {
    let failed = |error: rustix::io::Errno| Error::write(directory, &error.into());
    let (space, kind) =
        (rustix::fs::statvfs(directory).map_err(failed)?, rustix::fs::statfs(directory).map_err(failed)?);
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let memory = if u64::try_from(kind.f_type) == Ok(IN_MEMORY) { available_memory() } else { None };
    Ok(memory.map_or(free, |memory| memory.min(free)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::gathered::Gathered;
    use crate::memory::write_calls;
    use knarr_array::array::DType;
    use knarr_array::region::{Region, Regions};

    #[test]
    fn what_is_put_can_be_read_until_the_spool_goes_and_nothing_is_left() {
        let folder = std::env::temp_dir().join(format!("knarr-put-spool-{}", std::process::id()));
        let (memory, disk) = (folder.join("memory"), folder.join("disk"));
        fs::create_dir_all(&memory).unwrap();
        fs::create_dir_all(&disk).unwrap();
        // Of so many ranks none may have memory: the values go to the disk.
        for (ranks, files) in [(1, 0), (usize::MAX, 1)] {
            let mut spool = PutSpool::open(Some(&memory), &disk, ranks, write_calls).unwrap();
            let boxes = Regions::from(&Region::new([2], [3]));
            let put = Put {
                variable: 0,
                dtype: DType::U8,
                boxes,
                stride: Vec::new(),
                parts: Vec::new(),
                order: 0,
                offset: 0,
            };
            spool.put(put, &[5, 6, 7]).unwrap();
            assert_eq!(fs::read_dir(&disk).unwrap().count(), files);
            let mut out = Vec::new();
            Gathered::open([spool.paths()]).unwrap().read(0, &Region::whole(&[6]), &[9], &mut out).unwrap();
            assert_eq!((out.as_slice(), spool.bytes()), ([9, 9, 5, 6, 7, 9].as_slice(), 3));
            drop(spool);
            assert_eq!(fs::read_dir(&memory).unwrap().count() + fs::read_dir(&disk).unwrap().count(), 0);
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
