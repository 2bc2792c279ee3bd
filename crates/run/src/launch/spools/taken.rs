//! What values take that wait for their files: in the memory of the spool, and on the disk where memory is short.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use knarr_capture::{HandedOver, account_of, free_of};
use knarr_handover::Account;

/// Memory that no file has used for so long is given back to the system.
const UNUSED: Duration = Duration::from_secs(10);

/// The most that values took at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes in memory; memory that is kept for the next file counts.
    pub memory_bytes: u64,
    /// Bytes on the disk.
    pub disk_bytes: u64,
}

impl Taken {
    /// What the account of a spool says.
    pub(in crate::launch) fn of(spool: &Path) -> Self {
        let (memory_bytes, disk_bytes) = account_of(spool).map_or((0, 0), |account| account.most());
        Self { memory_bytes, disk_bytes }
    }
}

/// Files whose values were delivered, and since when they wait for other values.
#[derive(Debug, Default)]
pub(in crate::launch) struct Unused(BTreeMap<OsString, Instant>);

impl Unused {
    /// Removes those that have waited for long; all of them if somebody waits for memory. If no file is there, the account is what
    /// is left.
    pub(in crate::launch) fn release(&mut self, spool: &Path, at_once: bool) {
        let Some(account) = account_of(spool) else { return };
        let before = account.taken();
        let entries = fs::read_dir(free_of(spool)).into_iter().flatten().flatten();
        let found: BTreeMap<OsString, u64> =
            entries.filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?.len()))).collect();
        self.0.retain(|name, _| found.contains_key(name));
        let mut left = 0;
        for (name, bytes) in found {
            let since = self.0.entry(name.clone()).or_insert_with(Instant::now);
            if !at_once && since.elapsed() < UNUSED {
                left += bytes;
            } else if fs::remove_file(free_of(spool).join(&name)).is_ok() {
                account.give_back(bytes);
            }
        }
        if left == 0 && account.taken() == before && is_empty(spool) {
            account.correct(before, 0);
        }
    }
}

/// True if no file has values in the spool.
fn is_empty(spool: &Path) -> bool {
    HandedOver::directories(spool).is_ok_and(|all| all.iter().all(|directory| *directory == free_of(spool)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_capture::ACCOUNT;
    use knarr_mapped::NodeAccount;

    #[test]
    fn memory_that_is_not_used_is_given_back_and_what_was_lost_is_found() {
        let spool = std::env::temp_dir().join(format!("knarr-unused-{}", std::process::id()));
        fs::create_dir_all(free_of(&spool)).unwrap();
        fs::create_dir_all(spool.join("1-0")).unwrap();
        let account = NodeAccount::create(&spool.join(ACCOUNT), 1000).unwrap();
        for name in ["a", "b"] {
            fs::write(free_of(&spool).join(name), vec![1; 100]).unwrap();
        }
        // A rank was killed when it had taken 50 bytes.
        assert!(account.take(250));
        let mut unused = Unused::default();
        unused.release(&spool, false);
        assert_eq!(account.taken(), 250);
        unused.0.insert("a".into(), Instant::now() - UNUSED);
        unused.release(&spool, false);
        assert!(account.taken() == 150 && !free_of(&spool).join("a").exists());
        unused.release(&spool, true);
        assert!(account.taken() == 50 && !free_of(&spool).join("b").exists());
        unused.release(&spool, true);
        assert_eq!(account.taken(), 50, "a file is open");
        fs::remove_dir(spool.join("1-0")).unwrap();
        unused.release(&spool, false);
        assert_eq!((account.taken(), Taken::of(&spool).memory_bytes), (0, 250));
        fs::remove_dir_all(spool).unwrap();
    }
}
