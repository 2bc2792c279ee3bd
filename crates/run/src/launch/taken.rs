//! What values take that wait for their files: in the memory of the spool, and on the disk where memory is short.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Unit of the blocks that the system says a file has.
const BLOCK: u64 = 512;

/// The most that values took at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes in memory; memory that is kept for the next file counts.
    pub memory_bytes: u64,
    /// Bytes on the disk.
    pub disk_bytes: u64,
}

impl Taken {
    /// Looks at what a spool has now.
    pub(super) fn look(&mut self, spool: &Path) {
        let now = Self::of(spool);
        self.memory_bytes = self.memory_bytes.max(now.memory_bytes);
        self.disk_bytes = self.disk_bytes.max(now.disk_bytes);
    }

    fn of(spool: &Path) -> Self {
        let mut found = Self::default();
        let folders = fs::read_dir(spool).into_iter().flatten().flatten().map(|entry| entry.path());
        for entry in folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten()) {
            let Ok(kind) = entry.file_type() else { continue };
            let Ok(file) = fs::metadata(entry.path()) else { continue };
            if kind.is_symlink() {
                // Other links lead to what is no values.
                let is_values = entry.path().extension().is_some_and(|ending| ending == "more");
                found.disk_bytes += if is_values { file.blocks() * BLOCK } else { 0 };
            } else {
                found.memory_bytes += file.blocks() * BLOCK;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_at_a_time_counts() {
        let spool = std::env::temp_dir().join(format!("knarr-taken-most-{}", std::process::id()));
        fs::create_dir_all(spool.join("1-0")).unwrap();
        let (values, more) = (spool.join("1-0/values.0"), spool.join("more"));
        fs::write(&values, vec![1; 1 << 20]).unwrap();
        fs::write(&more, vec![1; 8192]).unwrap();
        std::os::unix::fs::symlink(&more, spool.join("1-0/values.0.more")).unwrap();
        let mut most = Taken::default();
        most.look(&spool);
        assert_eq!((most.memory_bytes >> 20, most.disk_bytes), (1, 8192));
        let before = most;
        fs::remove_file(&values).unwrap();
        most.look(&spool);
        assert_eq!(most, before);
        fs::remove_dir_all(spool).unwrap();
    }
}
