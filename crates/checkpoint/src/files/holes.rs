//! Holes of files: bytes that were never written, which read as zeros and take no space.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{SeekFrom, seek};

/// Zeros to hash and compare with.
pub(crate) static ZEROS: [u8; 1 << 17] = [0; 1 << 17];
/// A run of zeros of so many bytes, at a multiple of it, is not written to a new file: it is a hole there.
const BLOCK: u64 = 16 << 10;
/// What `st_blocks` counts in.
const SECTOR: u64 = 512;

/// Tells where a file has no data.
pub(crate) struct Holes<'a> {
    /// `None` for a file without holes.
    file: Option<&'a File>,
    length: u64,
    /// There is data from the first place on, up to the second at least.
    data: (u64, u64),
}

impl<'a> Holes<'a> {
    /// What is under way to the disk is waited for: some file systems take it for a hole until it is there.
    pub(crate) fn of(file: &'a File, metadata: &Metadata) -> Self {
        let is_sparse = metadata.blocks().saturating_mul(SECTOR) < metadata.len() && file.sync_data().is_ok();
        Self { file: is_sparse.then_some(file), length: metadata.len(), data: (0, 0) }
    }

    /// How many of the `length` bytes at `offset` are known to be zeros.
    pub(crate) fn zeros(&mut self, offset: u64, length: u64) -> u64 {
        let Some(file) = self.file else { return 0 };
        if (self.data.0..self.data.1).contains(&offset) {
            return 0;
        }
        let end = match seek(file, SeekFrom::Data(offset)) {
            Ok(data) => data,
            // No data follows.
            Err(rustix::io::Errno::NXIO) => self.length,
            Err(_) => {
                self.file = None;
                return 0;
            }
        };
        if end == offset {
            let until = seek(file, SeekFrom::Hole(offset)).unwrap_or(self.length);
            self.data = (offset, until);
        }
        end.saturating_sub(offset).min(length)
    }
}

/// The runs of `bytes`, which belong at `offset` of a new file, that have to be written: all but long zeros.
pub(crate) fn runs(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = offset;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            // Up to the next run of zeros that may stay a hole.
            let mut length = 0;
            let mut zeros = 0;
            while let Some(block) = rest.get(length..).filter(|rest| !rest.is_empty()) {
                let whole = usize::try_from(BLOCK - (at + length as u64) % BLOCK).unwrap_or(usize::MAX);
                let block = block.get(..whole).unwrap_or(block);
                if block.len() as u64 == BLOCK && is_zero(block) {
                    zeros = block.len();
                    break;
                }
                length += block.len();
            }
            let (run, left) = rest.split_at(length);
            let from = at;
            at += (length + zeros) as u64;
            rest = left.get(zeros..).unwrap_or_default();
            if !run.is_empty() {
                return Some((from, run));
            }
        }
    })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|chunk| ZEROS.get(..chunk.len()) == Some(chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn only_long_zeros_are_left_out() {
        let block = usize::try_from(BLOCK).unwrap();
        let mut bytes = vec![0u8; 5 * block];
        bytes[10] = 1;
        bytes[4 * block - 1] = 2;
        let found: Vec<_> = runs(0, &bytes).map(|(at, run)| (at, run.len())).collect();
        assert_eq!(found, [(0, block), (3 * BLOCK, block)]);
        // Zeros that are no whole block of the file are written.
        let found: Vec<_> = runs(7, &bytes[block..3 * block]).map(|(at, run)| (at, run.len())).collect();
        assert_eq!(found, [(7, block - 7), (2 * BLOCK, 7)]);
        assert_eq!(runs(0, &[]).count(), 0);
        // Whatever is left out, the file is the same.
        let path = std::env::temp_dir().join(format!("knarr-holes-{}", std::process::id()));
        for start in [0, 1, BLOCK - 1, 3 * BLOCK] {
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
            file.set_len(start + bytes.len() as u64).unwrap();
            runs(start, &bytes).for_each(|(at, run)| file.write_all_at(run, at).unwrap());
            let mut again = vec![1; bytes.len()];
            file.read_exact_at(&mut again, start).unwrap();
            assert!(again == bytes, "{start}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn holes_are_found_and_data_is_not_one() {
        let path = std::env::temp_dir().join(format!("knarr-holes-of-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let length = 64u64 << 20;
        file.set_len(length).unwrap();
        file.write_all_at(b"data", 32 << 20).unwrap();
        let metadata = file.metadata().unwrap();
        let mut holes = Holes::of(&file, &metadata);
        if holes.file.is_some() {
            assert_eq!(holes.zeros(0, 100), 100);
            assert_eq!(holes.zeros(0, length), 32 << 20);
            assert_eq!(holes.zeros(32 << 20, 100), 0);
            assert_eq!(holes.zeros(length - 100, 200), 100);
        }
        std::fs::remove_file(path).unwrap();
    }
}
