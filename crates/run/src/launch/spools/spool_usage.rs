//! What waiting values take: of the memory of the spool, and of the disk if memory is short.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_capture::{HandedOver, SpoolPlace, TierPlace, disk_of, memory_of};
use knarr_tier::{SharedMemory, Space};

/// Memory that no file has used for so long is given back to the system.
const UNUSED: Duration = Duration::from_secs(10);

/// What files and values that waited took of a tier below memory, and how fast it was.
#[derive(Debug, Clone, PartialEq)]
pub struct TierUsage {
    /// By which users know it.
    pub name: String,
    /// Bytes that it may hold; `None` for all that the file system has.
    pub capacity: Option<u64>,
    /// The most bytes that it held at a time.
    pub most_bytes: u64,
    /// Bytes that it took in a second, as measured at the end; `None` if that was not.
    pub bytes_per_second: Option<f64>,
    /// Bytes a second of the device that it stands for, if it is emulated.
    pub emulated: Option<f64>,
}

/// The most that values took at a time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpoolUsage {
    /// Bytes in memory; memory that is kept for the next file counts.
    pub memory_bytes: u64,
    /// Bytes on the disk.
    pub disk_bytes: u64,
    /// Tiers below memory.
    pub tiers: Vec<TierUsage>,
}

impl SpoolUsage {
    /// What the account of a spool says, and those of its tiers.
    pub(in crate::launch) fn of(spool: &Path, place: Option<&SpoolPlace>) -> Self {
        let most = |account: Option<knarr_tier::Account>| account.map_or(0, |account| account.most_bytes());
        let places = place.map_or(&[][..], |place| &place.places);
        let tier = |(number, tier): (usize, &TierPlace)| {
            let account = place?.account(number)?;
            Some(TierUsage {
                name: tier.name.clone(),
                capacity: tier.capacity,
                most_bytes: account.most_bytes(),
                bytes_per_second: account.bytes_per_second(),
                emulated: tier.rate,
            })
        };
        let tiers = places.iter().enumerate().filter_map(tier).collect();
        Self { memory_bytes: most(memory_of(spool)), disk_bytes: most(disk_of(spool)), tiers }
    }
}

/// Files whose values were delivered, and since when they wait for other values.
#[derive(Debug, Default)]
pub(in crate::launch) struct Unused(BTreeMap<PathBuf, Instant>);

impl Unused {
    /// Removes those that have waited for long; all of them if somebody waits for memory. If no file is there, the account is what
    /// is left.
    pub(in crate::launch) fn release(&mut self, spool: &Path, at_once: bool) {
        let Some(account) = memory_of(spool) else { return };
        let before = account.taken();
        let found = SharedMemory::waiting(spool);
        self.0.retain(|path, _| found.iter().any(|(_, there)| there == path));
        let mut left = 0;
        for (bytes, path) in found {
            let since = self.0.entry(path.clone()).or_insert_with(Instant::now);
            if !at_once && since.elapsed() < UNUSED {
                left += bytes;
            } else if fs::remove_file(path).is_ok() {
                account.give_back(Space { bytes, inodes: 1 });
            }
        }
        if left == 0 && account.taken() == before && is_empty(spool) {
            account.correct(before, Space::default());
        }
    }
}

/// True if no file has values in the spool.
fn is_empty(spool: &Path) -> bool {
    HandedOver::directories(spool)
        .is_ok_and(|all| all.iter().all(|directory| *directory == SharedMemory::reusable(spool)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_capture::ACCOUNT;
    use knarr_tier::NodeAccount;

    #[test]
    fn memory_that_is_not_used_is_given_back_and_what_was_lost_is_found() {
        let spool = std::env::temp_dir().join(format!("knarr-unused-{}", std::process::id()));
        let waiting = |name: &str| SharedMemory::reusable(&spool).join(name);
        fs::create_dir_all(SharedMemory::reusable(&spool)).unwrap();
        fs::create_dir_all(spool.join("1-0")).unwrap();
        let limits = [Space { bytes: 1000, inodes: 10 }, Space::UNLIMITED];
        NodeAccount::create(&spool.join(ACCOUNT), &limits).unwrap();
        let account = memory_of(&spool).unwrap();
        for name in ["a", "b"] {
            fs::write(waiting(name), vec![1; 100]).unwrap();
        }
        // A rank was killed when it had taken 50 bytes.
        assert!(account.take(Space { bytes: 250, inodes: 3 }));
        let mut unused = Unused::default();
        unused.release(&spool, false);
        assert_eq!(account.taken(), Space { bytes: 250, inodes: 3 });
        unused.0.insert(waiting("a"), Instant::now() - UNUSED);
        unused.release(&spool, false);
        assert!(account.taken() == Space { bytes: 150, inodes: 2 } && !waiting("a").exists());
        unused.release(&spool, true);
        assert!(account.taken() == Space { bytes: 50, inodes: 1 } && !waiting("b").exists());
        unused.release(&spool, true);
        assert_eq!(account.taken().bytes, 50, "a file is open");
        fs::remove_dir(spool.join("1-0")).unwrap();
        unused.release(&spool, false);
        assert_eq!((account.taken(), SpoolUsage::of(&spool, None).memory_bytes), (Space::default(), 250));
        fs::remove_dir_all(spool).unwrap();
    }
}
