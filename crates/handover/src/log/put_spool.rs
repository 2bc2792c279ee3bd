//! Where a rank's puts into a file lie until the file is made of them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::folder::{Folder, NAME};
use crate::log::put::Put;
use crate::log::puts::{PutLog, Room};
use knarr_array::error::{ErrorKind, Result};
use knarr_flow::output::{remove_abandoned, temporary_name};
use knarr_tier::{available_memory, is_in_memory, left_in};

/// A directory of this process with the values of a rank, and the log of what they are.
pub type PutSpool = Folder<PutLog>;

impl PutSpool {
    /// Makes a spool in `parent`, or where nothing is named, in memory. One of `ranks` ranks of a node may take its part of
    /// half of the memory that is free now. Further values go to a file in `disk`.
    ///
    /// # Errors
    /// `Write`.
    pub fn open(parent: Option<&Path>, disk: &Path, ranks: usize) -> Result<Self> {
        remove_abandoned(disk);
        Self::make(parent, disk, |directory| {
            let bytes = room(directory) / 2 / ranks.max(1) as u64;
            let room = Room::of_process(directory, bytes, disk.join(temporary_name(OsStr::new(NAME))));
            PutLog::create(room, VALUES, LOG)
        })
    }

    /// Paths of the values and of the log.
    pub fn paths(&self) -> (PathBuf, PathBuf) {
        (self.directory().join(VALUES), self.directory().join(LOG))
    }

    /// Bytes of all values so far.
    pub fn bytes(&self) -> u64 {
        self.held.bytes()
    }

    /// Copies the values of a put, whose offset is of no account.
    ///
    /// # Errors
    /// `Write` if there is no room.
    pub fn put(&mut self, put: Put, values: &[u8]) -> Result<()> {
        let write = || {
            let offset = self.held.reserve(values.len() as u64)?;
            self.held.write(offset, put.dtype, values)?;
            self.held.push(&[Put { offset, ..put }])
        };
        write().map_err(|error| match error.kind() {
            ErrorKind::Write => {
                error.hint("free memory or disk, or name another directory to hand values over in (spool)")
            }
            _ => error,
        })
    }
}

const VALUES: &str = "values";
const LOG: &str = "log";

/// Bytes that files in a directory may still take.
fn room(directory: &Path) -> u64 {
    let memory = if is_in_memory(directory) { available_memory() } else { None };
    memory.unwrap_or(u64::MAX).min(left_in(directory).bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::assembled_puts::AssembledPuts;
    use knarr_array::array::DType;
    use knarr_array::region::{Region, Regions};
    use std::fs;

    #[test]
    fn what_is_put_can_be_read_until_the_spool_goes_and_nothing_is_left() {
        let folder = std::env::temp_dir().join(format!("knarr-put-spool-{}", std::process::id()));
        let (memory, disk) = (folder.join("memory"), folder.join("disk"));
        fs::create_dir_all(&memory).unwrap();
        fs::create_dir_all(&disk).unwrap();
        // Of so many ranks none may have memory: the values go to the disk.
        for (ranks, files) in [(1, 0), (usize::MAX, 1)] {
            let mut spool = PutSpool::open(Some(&memory), &disk, ranks).unwrap();
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
            AssembledPuts::open([spool.paths()]).unwrap().read(0, &Region::whole(&[6]), &[9], &mut out).unwrap();
            assert_eq!((out.as_slice(), spool.bytes()), ([9, 9, 5, 6, 7, 9].as_slice(), 3));
            drop(spool);
            assert_eq!(fs::read_dir(&memory).unwrap().count() + fs::read_dir(&disk).unwrap().count(), 0);
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
