//! The tiers of a node: memory, where the spool lies, and what is below. Each has an account in the page of the node.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use knarr_array::error::Result;
use knarr_array::path_bytes;
use knarr_link::Peer;
use knarr_tier::{Account, Bucket, Directory, NodeAccount, Reach, SharedMemory, Space, Throttled, Tier};

use super::document::{get, put};
use super::settled;

/// Number of the account of the memory in which a spool lies.
const MEMORY: usize = 0;
/// Number of that of the disk which all nodes share.
const DISK: usize = 1;
/// Number of that of the first tier below memory.
const FIRST: usize = 2;

/// A tier, and its directory.
pub type TierIn = (Arc<dyn Tier>, PathBuf);

/// Where programs hand values over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpoolPlace {
    /// A directory in memory.
    pub directory: PathBuf,
    /// Bytes that values may take there.
    pub most: u64,
    /// A directory on the disk that all nodes share, for what finds no room anywhere else.
    pub disk: PathBuf,
    /// The tiers below memory, the fastest first. In the last one files stay; the others lie before `disk`. None if nothing is
    /// said of tiers.
    pub places: Vec<TierPlace>,
    /// The node, as users know it.
    pub node: String,
    /// No other spool has this, on whatever node: ranks with equal ones share the spool.
    pub token: String,
    /// The aggregator, as those of other nodes reach it; `None` if it answers nobody.
    pub peer: Option<Peer>,
}

/// A tier below memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierPlace {
    /// By which users know it.
    pub name: String,
    /// Its directory, an absolute path.
    #[serde(with = "path_bytes")]
    pub path: PathBuf,
    /// Bytes that it may hold; `None` for all that the file system has.
    pub capacity: Option<u64>,
    /// Bytes a second of the device that it stands for, if it is emulated.
    pub rate: Option<f64>,
    /// All launchers that use the configuration share that device.
    pub is_shared: bool,
}

impl TierPlace {
    /// The tier, which counts by this account. Whatever kind of tier there is, it is chosen here.
    fn tier(&self, account: Account) -> Directory {
        Directory::new(&self.path, account, Reach::Node)
    }
}

impl SpoolPlace {
    /// True if `spool` is the spool with this token on this node: programs that hand over to this one reach it without a link.
    pub fn is_near(&self, node: &str, spool: &Path, token: &str) -> bool {
        let read = || settled(|| std::fs::read(spool.join(super::ALIVE)));
        self.node == node && read().is_ok_and(|there| there == token.as_bytes())
    }

    /// Limits of the accounts of a node whose memory may hold `memory`.
    pub fn limits(memory: Space, places: &[TierPlace]) -> Vec<Space> {
        let of = |place: &TierPlace| Space { bytes: place.capacity.unwrap_or(u64::MAX), ..Space::UNLIMITED };
        [memory, Space::UNLIMITED].into_iter().chain(places.iter().map(of)).collect()
    }

    /// Notes in the spool at `directory` which tiers there are.
    ///
    /// # Errors
    /// `Write`.
    pub fn note_places(directory: &Path, places: &[TierPlace]) -> Result<()> {
        put(directory, super::TIERS, &places)
    }

    /// The memory of the node, and the tiers for what finds no room there, with their directories; `None` if their accounts are
    /// gone.
    pub fn tiers(&self) -> Option<(SharedMemory, Vec<TierIn>)> {
        let accounts = accounts_of(&self.directory)?;
        let memory = SharedMemory::new(&self.directory, accounts.tier(MEMORY));
        let waiting = (0..self.places.len().saturating_sub(1)).filter_map(|number| self.tier(number));
        let mut below: Vec<_> = waiting.collect();
        let disk = Directory::new(&self.disk, accounts.tier(DISK), Reach::AllNodes);
        let last = self.places.len().checked_sub(1).and_then(|last| self.bucket(last));
        below.push((throttled(disk, last), self.disk.clone()));
        Some((memory, below))
    }

    /// The tier below memory with this number, and its directory.
    pub fn tier(&self, number: usize) -> Option<TierIn> {
        let place = self.places.get(number)?;
        Some((throttled(place.tier(self.account(number)?), self.bucket(number)), place.path.clone()))
    }

    /// What is counted of the tier below memory with this number; `None` if the accounts are gone.
    pub fn account(&self, number: usize) -> Option<Account> {
        accounts_of(&self.directory).map(|accounts| tier_of(&accounts, number))
    }

    /// What makes the tier with this number as slow as what it stands for; `None` if it is no slower than it is.
    pub fn bucket(&self, number: usize) -> Option<Bucket> {
        let place = self.places.get(number)?;
        let rate = place.rate?;
        let account = if place.is_shared {
            let page = self.disk.join(format!("{BUCKET}{}", place.name));
            NodeAccount::open_or_create(&page, &[Space::UNLIMITED]).ok()?.tier(0)
        } else {
            self.account(number)?
        };
        Some(Bucket::new(rate, account))
    }
}

/// What the names of pages begin with by which launchers share an emulated device.
pub const BUCKET: &str = "bucket-";

fn throttled(tier: Directory, bucket: Option<Bucket>) -> Arc<dyn Tier> {
    match bucket {
        Some(bucket) => Arc::new(Throttled::new(tier, bucket)),
        None => Arc::new(tier),
    }
}

/// The accounts of the node whose spool is at `directory`; `None` if it has none.
pub fn accounts_of(directory: &Path) -> Option<NodeAccount> {
    NodeAccount::open(&directory.join(super::ACCOUNT)).ok()
}

/// The tiers below memory of the node whose spool is at `directory`, as [`SpoolPlace::note_places`] has noted them.
pub fn places_of(directory: &Path) -> Vec<TierPlace> {
    get(directory, super::TIERS).ok().flatten().unwrap_or_default()
}

/// Name of the list of the directories in tiers in which programs may write files.
const WRITTEN_IN: &str = "written-in.json";

/// A number of a tier below memory, and a directory there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolInTier {
    /// The number.
    pub tier: usize,
    /// The directory.
    #[serde(with = "path_bytes")]
    pub path: PathBuf,
}

/// Notes in the spool at `directory` in which directories of tiers programs may write files, the fastest first.
///
/// # Errors
/// `Write`.
pub fn note_written_in(directory: &Path, spools: &[SpoolInTier]) -> Result<()> {
    put(directory, WRITTEN_IN, &spools)
}

/// What [`note_written_in`] has noted.
pub fn written_in(directory: &Path) -> Vec<SpoolInTier> {
    get(directory, WRITTEN_IN).ok().flatten().unwrap_or_default()
}

/// The account of the tier below memory with this number.
pub fn tier_of(accounts: &NodeAccount, number: usize) -> Account {
    accounts.tier(FIRST + number)
}

/// What is taken of the memory of the node whose spool is at `directory`.
pub fn memory_of(directory: &Path) -> Option<Account> {
    accounts_of(directory).map(|accounts| accounts.tier(MEMORY))
}

/// True if a spool lies in a tier below memory.
pub(crate) fn is_in_tier(spool: &Path) -> bool {
    place_holding(spool, spool).is_some()
}

/// The tier of the files that lie in a spool itself: the memory of the node, or the tier in which the spool lies.
pub fn tier_of_spool(spool: &Path) -> Arc<dyn Tier> {
    tier_at(spool, spool).unwrap_or_else(|| Arc::new(SharedMemory::new(spool, account_or_any(spool, MEMORY))))
}

/// What is taken of the disk for what finds no room elsewhere.
pub fn disk_of(directory: &Path) -> Option<Account> {
    accounts_of(directory).map(|accounts| accounts.tier(DISK))
}

/// The tier in which `path` lies, of the node whose spool is at `directory`: the disk if it is in no other.
pub fn tier_holding(directory: &Path, path: &Path) -> Arc<dyn Tier> {
    let disk = || Directory::new(path.parent().unwrap_or(path), account_or_any(directory, DISK), Reach::AllNodes);
    tier_at(directory, path).unwrap_or_else(|| Arc::new(disk()))
}

/// The tier below memory in which `path` lies; `None` if it is in none.
fn tier_at(directory: &Path, path: &Path) -> Option<Arc<dyn Tier>> {
    let (number, place) = place_holding(directory, path)?;
    Some(Arc::new(place.tier(account_or_any(directory, FIRST + number))))
}

/// The account with this number; one that nobody else looks at if those of the node are gone.
fn account_or_any(directory: &Path, number: usize) -> Account {
    accounts_of(directory).map_or_else(|| Account::of(Space::UNLIMITED), |accounts| accounts.tier(number))
}

/// The tier below memory in which `path` lies, and its number.
fn place_holding(directory: &Path, path: &Path) -> Option<(usize, TierPlace)> {
    let mut waiting = places_of(directory);
    // Files stay in the last one: it takes no account of them.
    waiting.pop();
    waiting.into_iter().enumerate().find(|(_, place)| path.starts_with(&place.path))
}
