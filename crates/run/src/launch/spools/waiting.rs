//! What waits in the tiers of the runs that go on on this node, as anybody sees it who looks: for `knarr tiers`.

use std::fs;
use std::path::{Path, PathBuf};

use knarr_capture::{HandedOver, Image, TierPlace, accounts_of, memory_of, places_of, tier_holding, tier_of};
use knarr_names::KEPT;
use knarr_tier::Purpose;
use serde_json::Value;

use super::copies::spools_of;

use super::spool::{SHARED_MEMORY, is_abandoned, launcher_of, spools};

/// A run with tiers that goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningTiers {
    /// Process of its launcher.
    pub pid: u32,
    /// The command that started it.
    pub command: Vec<String>,
    /// Its tiers, memory first; files stay in the last one.
    pub tiers: Vec<HeldTier>,
    /// Files that are closed and not encoded, and bytes of their values.
    pub to_encode: (usize, u64),
    /// Files that are to move to the last tier, and their bytes.
    pub to_move: (usize, u64),
}

/// A tier of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldTier {
    /// By which `knarr.toml` names it.
    pub name: String,
    /// Bytes that it holds now; what the last tier has got is not counted.
    pub bytes: u64,
    /// Bytes of copies there, of files that are in their places. They are not among the others, and go as soon as their room is needed.
    pub copies: u64,
    /// Bytes that it may hold; `None` for what the file system has.
    pub capacity: Option<u64>,
    /// Bytes a second that it took lately; `None` before anything was written.
    pub bytes_per_second: Option<f64>,
    /// Bytes a second of the device that it stands for.
    pub emulated: Option<f64>,
}

impl RunningTiers {
    /// Bytes a second that the last tier takes, as far as that is known.
    pub fn drain_rate(&self) -> Option<f64> {
        self.tiers.last().and_then(|last| last.bytes_per_second.or(last.emulated))
    }

    /// Seconds until all that is encoded is in the last tier.
    pub fn seconds_to_move(&self) -> Option<f64> {
        self.drain_rate().map(|rate| self.to_move.1 as f64 / rate)
    }
}

/// The runs of this user on this node that have tiers, in the order of their processes.
pub fn running_tiers() -> Vec<RunningTiers> {
    let live = spools(Path::new(SHARED_MEMORY)).into_iter().filter(|spool| !is_abandoned(spool));
    let mut found: Vec<RunningTiers> = live.filter_map(|spool| of(&spool)).collect();
    found.sort_by_key(|run| run.pid);
    found
}

fn of(spool: &Path) -> Option<RunningTiers> {
    let places = places_of(spool);
    let (last, waiting) = places.split_last()?;
    let accounts = accounts_of(spool)?;
    let pid = launcher_of(spool)?;
    let memory = memory_of(spool)?;
    let mut tiers = vec![HeldTier {
        name: "memory".to_owned(),
        bytes: memory.taken().bytes,
        copies: 0,
        capacity: Some(memory.limit().bytes),
        bytes_per_second: memory.bytes_per_second(),
        emulated: None,
    }];
    let copies = fs::read_dir(spool.join(KEPT)).into_iter().flatten().flatten();
    let copies: Vec<PathBuf> = copies.filter_map(|link| fs::read_link(link.path()).ok()).collect();
    let copies_below = |tier: &Path| {
        let here = copies.iter().filter(|copy| copy.starts_with(tier));
        let takes = |copy: &PathBuf| Some(tier_holding(spool, copy).counts(&fs::metadata(copy).ok()?, Purpose::Values));
        here.filter_map(takes).sum()
    };
    let tier = |number: usize, place: &TierPlace, is_last: bool| {
        let account = tier_of(&accounts, number);
        HeldTier {
            name: place.name.clone(),
            bytes: if is_last { 0 } else { account.taken().bytes },
            copies: copies_below(&place.path),
            capacity: place.capacity,
            bytes_per_second: account.bytes_per_second(),
            emulated: place.rate,
        }
    };
    tiers.extend(waiting.iter().enumerate().map(|(number, place)| tier(number, place, false)));
    tiers.push(tier(waiting.len(), last, true));
    let (mut to_encode, mut to_move) = ((0, 0), (0, 0));
    let in_tiers = waiting.iter().flat_map(|place| spools_of(&place.path, spool));
    for (directory, handed) in std::iter::once(spool.to_owned()).chain(in_tiers).flat_map(|at| HandedOver::pending(&at))
    {
        let count = |(files, all): &mut (usize, u64), bytes: u64| {
            *files += 1;
            *all += bytes;
        };
        match (Image::<Value>::of(&directory), handed) {
            (Ok(Some((image, _))), _) => count(&mut to_move, image.bytes),
            (_, Ok(handed)) => count(&mut to_encode, handed.bytes),
            _ => {}
        }
    }
    Some(RunningTiers { pid, command: command_of(pid), tiers, to_encode, to_move })
}

/// The words with which a process was started.
fn command_of(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}
