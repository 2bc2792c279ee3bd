//! What the page is made of: atomic numbers, of which any may be zero.

pub(crate) mod entry;
pub(crate) mod filter;
pub(crate) mod map;
pub(crate) mod text;
pub(crate) mod waiter;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::thread::futex::{Flags, wake};

use crate::key::Key;
use crate::page::entry::{Entry, Kind, SpoolName, State, anew, process, state_of, with_state};
use crate::page::filter::Filter;
use crate::page::text::Text;
use crate::page::waiter::Waiter;

/// Tells a page that is complete, and of this layout.
pub(crate) const MARK: u64 = u64::from_le_bytes(*b"knarrN04");

/// Names that may be pending at a time. Who enters one more waits. With so many a page is smaller than a mebibyte.
pub(crate) const ENTRIES: usize = 2048;

/// Calls that may wait at a time and be seen; others wait unseen.
pub(crate) const WAITERS: usize = 256;

/// All of it, as it lies in a file. It is made by setting bytes to zero.
#[repr(C)]
pub(crate) struct Page {
    pub(crate) head: Head,
    pub(crate) other_nodes: NodesInPage,
    pub(crate) filter: Filter,
    pub(crate) waiters: [Waiter; WAITERS],
    pub(crate) entries: [Entry; ENTRIES],
}

/// What processes learn about other nodes when they begin. Nothing changes in it once the page is complete.
#[repr(C, align(64))]
pub(crate) struct NodesInPage {
    /// Empty if the run has one node.
    pub(crate) directory: Text<512>,
    pub(crate) launcher: Text<8>,
    /// One after the other, with slashes between them.
    pub(crate) tails: Text<256>,
    /// [`HAS_STORES`], [`HAS_LOCKS`].
    pub(crate) traits: AtomicU32,
}

pub(crate) const HAS_STORES: u32 = 1;
pub(crate) const HAS_LOCKS: u32 = 2;

/// What every call looks at, in one line of the cache.
#[repr(C, align(64))]
pub(crate) struct Head {
    /// [`MARK`] once the launcher has made the page.
    pub(crate) mark: AtomicU64,
    /// Number of the generation that was handed over last.
    pub(crate) generation: AtomicU64,
    /// Moves as long as the launcher gets on with its files.
    pub(crate) beat: AtomicU64,
    /// How long a call waits at most while the beat does not move. Milliseconds.
    pub(crate) limit: AtomicU32,
    /// Pending names.
    pub(crate) pending: AtomicU32,
    /// Those of them that will replace another file.
    pub(crate) replacing: AtomicU32,
    /// Those of them that will be directories.
    pub(crate) directories: AtomicU32,
    /// Entries from this one on were never used.
    pub(crate) used: AtomicU32,
    /// 1 if files come from other components, or go to some, under names that the C library is asked for.
    pub(crate) transfers: AtomicU32,
    /// 1 if the program may write files in tiers.
    pub(crate) writes_in_tiers: AtomicU32,
    /// 1 if the launcher wants to hear of files that the program writes where they are to be.
    pub(crate) packs_when_closed: AtomicU32,
    /// The length of the longest file that the program has written in a tier and has closed. MiB.
    pub(crate) longest: AtomicU32,
    /// Files in their places that have a copy in a tier.
    pub(crate) kept: AtomicU32,
    /// How often somebody has opened such a copy to read.
    pub(crate) copies_read: AtomicU64,
    /// Changes when the launcher has something to look at. It sleeps on it.
    pub(crate) bell: AtomicU32,
    /// Changes when an entry gets free. Who finds none sleeps on it.
    pub(crate) room: AtomicU32,
}

impl Page {
    /// Entries that were ever used.
    pub(crate) fn used(&self) -> &[Entry] {
        let used = self.head.used.load(Ordering::Acquire) as usize;
        self.entries.get(..used.min(ENTRIES)).unwrap_or_default()
    }

    /// Enters a name in this state. Returns the number of its generation, larger than all before; `None` if there is no room.
    pub(crate) fn enter(&self, key: &Key<'_>, place: SpoolName<'_>, kind: Kind, state: State) -> Option<u64> {
        let head = &self.head;
        let (at, entry, word) = self.entries.iter().enumerate().find_map(|(at, entry)| {
            let word = entry.word.load(Ordering::Acquire);
            if state_of(word) != State::Free {
                return None;
            }
            let anew = anew(word);
            let taken = entry.word.compare_exchange(word, anew, Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok().then_some((at, entry, anew))
        })?;
        entry.owner.store(process(), Ordering::Relaxed);
        head.used.fetch_max(u32::try_from(at + 1).ok()?, Ordering::AcqRel);
        let generation = head.generation.fetch_add(1, Ordering::AcqRel) + 1;
        entry.fill(key, place, kind, generation);
        self.filter.add(key.hash);
        head.replacing.fetch_add(u32::from(kind.replaces), Ordering::AcqRel);
        head.directories.fetch_add(u32::from(kind.is_directory), Ordering::AcqRel);
        head.pending.fetch_add(1, Ordering::AcqRel);
        entry.owner.store(0, Ordering::Relaxed);
        entry.word.store(with_state(word, state), Ordering::Release);
        Some(generation)
    }

    /// Changes the state of an entry from one that is pending to one that is not. False if somebody else has changed it.
    pub(crate) fn leave(&self, entry: &Entry, word: u32, state: State) -> bool {
        // Somebody may use it anew as soon as it is free.
        let (hash, kind) = (entry.hash.load(Ordering::Relaxed), entry.kind());
        if !entry.exchange(word, state) {
            return false;
        }
        self.head.pending.fetch_sub(1, Ordering::AcqRel);
        self.head.replacing.fetch_sub(u32::from(kind.replaces), Ordering::AcqRel);
        self.head.directories.fetch_sub(u32::from(kind.is_directory), Ordering::AcqRel);
        self.filter.remove(hash);
        entry.wake();
        if state == State::Free {
            self.make_room();
        }
        true
    }

    /// The generation of the oldest file of a name that is under way, and whether it replaces another file.
    pub(crate) fn oldest(&self, number: u64, hash: u64) -> Option<(u64, bool)> {
        let of_name = self.used().iter().filter(|entry| {
            state_of(entry.word.load(Ordering::Acquire)).is_under_way() && entry.name() == (number, hash)
        });
        of_name.map(|entry| (entry.generation.load(Ordering::Relaxed), entry.kind().replaces)).min()
    }

    /// Wakes those who wait for a free entry.
    pub(crate) fn make_room(&self) {
        self.head.room.fetch_add(1, Ordering::AcqRel);
        let _ = wake(&self.head.room, Flags::empty(), u32::MAX >> 1);
    }

    /// Wakes the launcher.
    pub(crate) fn ring(&self) {
        self.head.bell.fetch_add(1, Ordering::AcqRel);
        let _ = wake(&self.head.bell, Flags::empty(), 1);
    }
}
