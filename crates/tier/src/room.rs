//! Room in a tier for a file that is not written through the tier: a program writes it, or a library.

use std::fs::Metadata;
use std::sync::Arc;

use crate::counters::Space;
use crate::tier::{Purpose, Tier};

/// Bytes and an inode that the account of a tier counts for one file. They are given back when this is dropped.
#[derive(Debug)]
pub struct Room {
    tier: Arc<dyn Tier>,
    space: Space,
}

impl Room {
    /// Takes room for a file of `bytes` bytes. `None` if the account does not have it, or if the medium would not have `spare` bytes left
    /// for others.
    pub fn take(tier: &Arc<dyn Tier>, bytes: u64, spare: u64) -> Option<Self> {
        let left = tier.left();
        let is_there = left.bytes >= bytes.saturating_add(spare) && left.inodes > 0;
        (is_there && tier.account().take(Space { bytes, inodes: 1 })).then(|| Self::taken(tier, bytes))
    }

    /// Room that was taken before: by a process that was killed, or that has left it to this one.
    pub fn taken(tier: &Arc<dyn Tier>, bytes: u64) -> Self {
        Self { tier: Arc::clone(tier), space: Space { bytes, inodes: 1 } }
    }

    /// The file stays, of which the system says `found`: the account counts what it takes until it is removed.
    pub fn filled(self, found: &Metadata) {
        let takes = self.tier.counts(found, Purpose::Values);
        self.tier.account().recount(self.space.bytes, takes);
        self.leave();
    }

    /// The room stays taken, and somebody else gives it back.
    pub fn leave(mut self) {
        self.space = Space::default();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.tier.account().give_back(self.space);
    }
}
