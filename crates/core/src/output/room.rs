//! Takes room from the file system in large pieces ahead of what is written: it need not find some for every page then,
//! and the file lies in few extents.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate};

/// Bytes that are taken at a time. Files of fewer get none.
const PIECE: u64 = 32 << 20;
/// More is taken when this much is left: what formats write beside their values has to fit, too.
const LEAST: u64 = 8 << 20;

/// Room in one file that grows at its end.
#[derive(Debug)]
pub(super) struct Room {
    file: File,
    written: u64,
    /// End of what was taken; `None` where there is none to take.
    taken: Option<u64>,
}

impl Room {
    pub(super) fn new(file: File) -> Self {
        Self { file, written: 0, taken: Some(PIECE) }
    }

    /// So many more bytes were written. Nobody else may write the file meanwhile.
    pub(super) fn written(&mut self, bytes: u64) {
        self.written += bytes;
        while let Some(taken) = self.taken.filter(|taken| self.written + LEAST > *taken) {
            let more = fallocate(&self.file, FallocateFlags::KEEP_SIZE, taken, PIECE);
            self.taken = more.is_ok().then_some(taken + PIECE);
            if self.taken.is_none() {
                // Not every file system can. A disk that is nearly full may have given its last blocks, which are needed
                // nearer to the end of the file.
                let _ = self.trim();
            }
        }
    }

    /// Gives back what was not needed, once all is written.
    ///
    /// # Errors
    /// What the file system reports.
    pub(super) fn give_back(&self) -> io::Result<()> {
        if self.taken.is_none_or(|taken| taken == PIECE) { Ok(()) } else { self.trim() }
    }

    /// Sets the length that the file has: blocks behind it go (fallocate(2), `FALLOC_FL_KEEP_SIZE`). Nobody may extend it
    /// meanwhile.
    fn trim(&self) -> io::Result<()> {
        self.file.set_len(self.file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn what_was_not_needed_is_given_back() {
        let path = std::env::temp_dir().join(format!("knarr-room-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        let mut room = Room::new(file.try_clone().unwrap());
        let piece = vec![1; 1 << 20];
        for _ in 0..40 {
            file.write_all(&piece).unwrap();
            room.written(piece.len() as u64);
        }
        room.give_back().unwrap();
        file.sync_all().unwrap();
        let metadata = file.metadata().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(metadata.len(), 40 << 20);
        assert!(metadata.blocks() * 512 < 41 << 20, "{} blocks", metadata.blocks());
    }

    #[test]
    fn a_file_that_cannot_be_extended_is_left_alone() {
        let mut room = Room::new(File::open("/dev/null").unwrap());
        room.written(100 << 20);
        assert_eq!(room.taken, None);
    }
}
