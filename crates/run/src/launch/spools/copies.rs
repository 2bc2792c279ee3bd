//! The spools of one launcher: that in memory, and those in tiers. A launcher that was killed may have left what was handed over in
//! two of them.

use std::fs;
use std::path::{Path, PathBuf};

use knarr_capture::{ACCOUNT, HandedOver, places_of};

use super::spool::{in_use, spools};

/// The spools in a tier that belong to the one in memory: their accounts are links to its own.
pub(super) fn spools_of(tier: &Path, memory: &Path) -> Vec<PathBuf> {
    let mut found = spools(tier);
    found.retain(|spool| fs::read_link(spool.join(ACCOUNT)).is_ok_and(|account| account.parent() == Some(memory)));
    found
}

/// A spool in memory or in a tier, and the others of the same launcher.
pub(super) fn spools_of_node(spool: &Path) -> Vec<PathBuf> {
    let account = fs::read_link(spool.join(ACCOUNT)).ok();
    let memory = account.as_deref().and_then(Path::parent).unwrap_or(spool);
    let places = places_of(memory);
    let tiers = places.split_last().into_iter().flat_map(|(_, waiting)| waiting);
    let mut all: Vec<_> = tiers.flat_map(|place| spools_of(&place.path, memory)).collect();
    all.extend([memory.to_owned(), spool.to_owned()]);
    all.sort();
    all.dedup();
    all
}

/// The copy in a tier of what lies in a directory in memory, if there is a whole one.
pub(super) fn copied_to(directory: &Path) -> Option<PathBuf> {
    let (memory, name) = (directory.parent()?, directory.file_name()?);
    let is_in_memory = fs::read_link(memory.join(ACCOUNT)).is_err();
    let copies = spools_of_node(memory).into_iter().filter(|spool| is_in_memory && spool != memory);
    let mut copies = copies.map(|spool| spool.join(name));
    copies.find(|copy| HandedOver::left_in(copy).is_ok_and(|left| left.is_some()))
}

/// The directory in memory from which that in a tier was copied, if it is still there.
pub(super) fn copied_from(directory: &Path) -> Option<PathBuf> {
    let (spool, name) = (directory.parent()?, directory.file_name()?);
    let memory = fs::read_link(spool.join(ACCOUNT)).ok()?.parent()?.join(name);
    let is_free = in_use(memory.parent()?).is_none();
    (is_free && memory != directory && memory.is_dir()).then_some(memory)
}
