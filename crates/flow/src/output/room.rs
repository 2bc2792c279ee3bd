//! Takes room from the file system in large pieces ahead of what is written: it need not find some for every page then,
//! and the file lies in few extents.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Bytes that are taken at a time.
const PIECE: u64 = 32 << 20;
/// More is taken when this much is left.
const LEAST: u64 = 8 << 20;
/// Files of fewer bytes get none.
const WORTH_IT: u64 = 24 << 20;

/// Room in one file that grows at its end.
#[derive(Debug)]
pub(super) struct Room {
    file: File,
    written: u64,
    /// End of what was taken, 0 before; `None` where there is none to take.
    taken: Option<u64>,
    /// No file of this process may have more bytes: some file systems send a signal to who takes more.
    limit: u64,
}

impl Room {
    pub(super) fn new(file: File) -> Self {
        Self { file, written: 0, taken: Some(0), limit: getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX) }
    }

    /// So many more bytes were written. Nobody else may make the file longer meanwhile.
    pub(super) fn written(&mut self, bytes: u64) {
        self.written += bytes;
        let Some(taken) = self.taken.filter(|_| self.written >= WORTH_IT) else { return };
        // Without a gap behind the end: a disk may have just enough for the file.
        let Ok(end) = self.file.metadata().map(|metadata| metadata.len()) else { return };
        if end + LEAST <= taken {
            return;
        }
        let done = match end + PIECE {
            to if to > self.limit => Err(Errno::FBIG),
            _ => fallocate(&self.file, FallocateFlags::KEEP_SIZE, end, PIECE),
        };
        self.taken = done.is_ok().then_some(end + PIECE);
        if taken > 0 && done.is_err() || matches!(done, Err(Errno::NOSPC | Errno::DQUOT)) {
            // A disk that is nearly full may have given its last blocks, and what others write needs some, too.
            let _ = self.trim();
        }
    }

    /// Gives back what was not needed, once all is written.
    ///
    /// # Errors
    /// What the file system reports.
    pub(super) fn give_back(&self) -> io::Result<()> {
        if self.taken.is_some_and(|taken| taken > 0) { self.trim() } else { Ok(()) }
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
