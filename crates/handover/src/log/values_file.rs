//! The file in memory in which the values of one rank lie. Its bytes are set aside before they are touched: a full file system is
//! no signal then, and whoever finds no memory goes on elsewhere.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::log::account::Account;
use crate::memory::{Memory, OpenMemory};

/// Memory is taken ahead in steps: programs put many small values. The more there is, the longer is the step.
const SHORTEST_STEP: u64 = 1 << 16;
const LONGEST_STEP: u64 = 1 << 24;
/// Bytes that are set aside by one call: a signal that comes meanwhile makes the system begin again.
const PIECE: u64 = 1 << 25;
/// How often in a row signals may interrupt that.
const TRIES: usize = 1000;

/// The file of values of a rank.
pub(crate) struct ValuesFile {
    file: File,
    /// How it is written.
    memory: Box<dyn Memory>,
    /// Its length: so many bytes have memory, and are taken from the account.
    had: u64,
    account: Arc<dyn Account>,
    /// Files whose values are delivered. Their memory is taken from the account, too.
    free: PathBuf,
}

impl ValuesFile {
    /// Makes the file at `path`, of one in `free` if there is one: its memory is there already.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn create(path: &Path, free: &Path, account: Arc<dyn Account>, open: OpenMemory) -> io::Result<Self> {
        take_free(free, path);
        let file = options().read(true).write(true).create(true).truncate(false).open(path)?;
        let had = file.metadata()?.len();
        let memory = file.try_clone().and_then(open)?;
        Ok(Self { file, memory, had, account, free: free.to_owned() })
    }

    /// Gives the file memory up to byte `end`. False if there is not so much.
    pub(crate) fn reach(&mut self, end: u64) -> bool {
        if end <= self.had {
            return true;
        }
        let step = (self.had / 2).next_power_of_two().clamp(SHORTEST_STEP, LONGEST_STEP);
        let ahead = end.checked_next_multiple_of(step).unwrap_or(end);
        // If there is no memory ahead there may be enough for these.
        self.take(ahead) || self.take(end) || self.free_others(end) && self.take(end)
    }

    /// Takes memory up to byte `end` from the account, and from the file system.
    fn take(&mut self, end: u64) -> bool {
        let bytes = end - self.had;
        if !self.account.take(bytes) {
            return false;
        }
        while self.had < end {
            let next = end.min(self.had + PIECE);
            if !set_aside(&self.file, self.had, next - self.had) {
                self.account.give_back(end - self.had);
                return false;
            }
            self.had = next;
        }
        true
    }

    /// Removes files that are of no use at the moment, until the account has memory up to byte `end`. False if there is none.
    fn free_others(&self, end: u64) -> bool {
        let bytes = end - self.had;
        for (length, path) in unused(&self.free).into_iter().rev() {
            // Another rank may take it at this moment: one of both gets it.
            if fs::remove_file(path).is_err() {
                continue;
            }
            self.account.give_back(length);
            if self.account.take(bytes) {
                self.account.give_back(bytes);
                return true;
            }
        }
        false
    }

    /// Copies values into the file, to a place that it [reaches](ValuesFile::reach).
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn write(&mut self, offset: u64, values: &[u8]) -> io::Result<()> {
        self.memory.write(offset, values)
    }

    /// Nothing is written any more behind byte `end`: that memory is given back.
    pub(crate) fn cut(&mut self, end: u64) {
        if end < self.had && self.memory.end(end).is_ok() {
            self.account.give_back(self.had - end);
            self.had = end;
        }
    }
}

/// How files of the spool are opened: only their user may read them.
pub(crate) fn options() -> fs::OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.mode(0o600);
    options
}

/// Sets bytes of a file aside. False if there are not so many, for whatever reason.
fn set_aside(file: &File, from: u64, bytes: u64) -> bool {
    for _ in 0..TRIES {
        match fallocate(file, FallocateFlags::empty(), from, bytes) {
            Ok(()) => return true,
            Err(Errno::INTR) => {}
            // Where nothing can be had ahead, writing tells.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return true,
            Err(_) => return false,
        }
    }
    false
}

/// The files in `free`, with their lengths, in the order of these.
fn unused(free: &Path) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(free).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.len(), entry.path()))).collect();
    found.sort_unstable();
    found
}

/// Takes the largest file of `free`, if there is one, as `path`.
fn take_free(free: &Path, path: &Path) {
    // Others take them, too: each of them once.
    let mut found = unused(free).into_iter().rev();
    let _ = found.any(|(_, one)| fs::rename(one, path).is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::account::Limit;
    use crate::memory::write_calls;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("knarr-values-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("free")).unwrap();
        folder
    }

    fn file(folder: &Path, name: &str, account: &Arc<Limit>) -> ValuesFile {
        let account: Arc<dyn Account> = Arc::<Limit>::clone(account);
        ValuesFile::create(&folder.join(name), &folder.join("free"), account, write_calls).unwrap()
    }

    #[test]
    fn what_files_take_is_what_they_are_long() {
        let (folder, account) = (folder("taken"), Limit::of(1 << 20));
        let mut first = file(&folder, "a", &account);
        assert!(first.reach(10) && account.taken() == SHORTEST_STEP && first.had == SHORTEST_STEP);
        assert!(first.reach(SHORTEST_STEP + 1));
        let mut second = file(&folder, "b", &account);
        assert!(!second.reach(1 << 20), "the other one has some of it");
        assert!(second.reach((1 << 20) - account.taken()), "all that is left, and nothing ahead");
        assert_eq!(account.taken(), 1 << 20);
        second.cut(1000);
        first.cut(5);
        assert_eq!(account.taken(), 1005);
        assert_eq!(fs::metadata(folder.join("b")).unwrap().len(), 1000);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_largest_unused_file_is_used_again_and_others_make_room() {
        let (folder, account) = (folder("free"), Limit::of(5000));
        for (name, length) in [("a", 10u64), ("b", 4000), ("c", 100)] {
            File::create(folder.join("free").join(name)).unwrap().set_len(length).unwrap();
            assert!(account.take(length));
        }
        let mut values = file(&folder, "values", &account);
        assert!(!folder.join("free/b").exists() && values.had == 4000);
        assert!(values.reach(4900), "there are 890 bytes more, and 100 of a file that is not used");
        assert!(folder.join("free/a").exists() && !folder.join("free/c").exists());
        assert!(values.reach(4990) && account.taken() == 5000);
        assert!(values.reach(5000) && !values.reach(5001) && !folder.join("free/a").exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
