//! A pending name, and what becomes of it.
//!
//! An entry has a *word*: its state, and a number that changes each time the entry is used anew. A change of state is one
//! exchange of the word, so of two that want to change it one does. Those who wait sleep on it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::thread::futex::{Flags, wake};

use crate::key::{Directory, Key};
use crate::page::text::Text;

/// A place for a pending name.
#[repr(C, align(64))]
pub(crate) struct Entry {
    pub(crate) word: AtomicU32,
    /// The process that fills or holds it; 0 if none does, or if it has not said so yet.
    pub(crate) owner: AtomicU32,
    pub(crate) hash: AtomicU64,
    device: AtomicU64,
    number: AtomicU64,
    pub(crate) generation: AtomicU64,
    traits: AtomicU64,
    pub(crate) last: Text<32>,
    pub(crate) place: Text<5>,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// Nothing is in it.
    Free = 0,
    /// A process fills it.
    Filled = 1,
    /// The program has closed the file. The launcher has not begun it.
    Closed = 2,
    /// The launcher makes the file.
    Begun = 3,
    /// The file could not be made.
    Failed = 4,
    /// The program does not want the file any more.
    GivenUp = 5,
    /// A process makes a call by which the program may give it up. The launcher leaves it alone meanwhile.
    Held = 6,
    /// The file is whole in a tier, where it can be read. The launcher moves it to its place.
    Staged = 7,
    /// The program itself writes the file, in a tier: see [`crate::written`].
    Written = 8,
}

const STATES: [State; 9] = [
    State::Free,
    State::Filled,
    State::Closed,
    State::Begun,
    State::Failed,
    State::GivenUp,
    State::Held,
    State::Staged,
    State::Written,
];
/// Bits of the word that hold the state.
const BITS: u32 = 4;

pub(crate) fn state_of(word: u32) -> State {
    STATES.get((word & ((1 << BITS) - 1)) as usize).copied().unwrap_or(State::Free)
}

/// The word of the same use with another state.
pub(crate) fn with_state(word: u32, state: State) -> u32 {
    (word >> BITS << BITS) | state as u32
}

/// The word of the next use, which somebody fills.
pub(crate) fn anew(word: u32) -> u32 {
    (word >> BITS).wrapping_add(1) << BITS | State::Filled as u32
}

/// True if both words are of the same use.
pub(crate) fn same_use(one: u32, other: u32) -> bool {
    one >> BITS == other >> BITS
}

impl State {
    /// A call that uses the name has to wait, or to fail.
    pub(crate) fn is_pending(self) -> bool {
        self.is_under_way() || matches!(self, Self::Failed | Self::Written)
    }

    /// There may be a file soon.
    pub(crate) fn is_under_way(self) -> bool {
        matches!(self, Self::Closed | Self::Begun | Self::Held | Self::Staged)
    }
}

/// What kind of file is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kind {
    /// Another file has the name.
    pub replaces: bool,
    /// The program may give it up: all of it is on this node.
    pub may_be_given_up: bool,
    /// What will have the name is a directory.
    pub is_directory: bool,
    /// The program itself writes the file in a tier, where it can be read at any time.
    pub is_whole: bool,
}

impl Kind {
    fn bits(self) -> u64 {
        let Self { replaces, may_be_given_up, is_directory, is_whole } = self;
        let flags = [replaces, may_be_given_up, is_directory, is_whole].into_iter().enumerate();
        flags.fold(0, |bits, (at, flag)| bits | u64::from(flag) << at)
    }

    fn of(bits: u64) -> Self {
        let has = |at: u32| bits >> at & 1 != 0;
        Self { replaces: has(0), may_be_given_up: has(1), is_directory: has(2), is_whole: has(3) }
    }
}

/// By what the launcher knows a file: the name of its directory in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolName<'p>(&'p [u8]);

impl<'p> SpoolName<'p> {
    /// `None` for a name that is too long: none of Knarr's is.
    pub fn new(name: &'p [u8]) -> Option<Self> {
        (!name.is_empty() && name.len() <= Text::<5>::MOST && !name.contains(&0)).then_some(Self(name))
    }

    pub(crate) fn bytes(self) -> &'p [u8] {
        self.0
    }
}

impl Entry {
    pub(crate) fn kind(&self) -> Kind {
        Kind::of(self.traits.load(Ordering::Relaxed))
    }

    pub(crate) fn is_in(&self, directory: Directory) -> bool {
        let Directory { device, number } = directory;
        (self.device.load(Ordering::Relaxed), self.number.load(Ordering::Relaxed)) == (device, number)
    }

    /// The number of the directory and the hash of the last component.
    pub(crate) fn name(&self) -> (u64, u64) {
        (self.number.load(Ordering::Relaxed), self.hash.load(Ordering::Relaxed))
    }

    /// True if it is for this name.
    pub(crate) fn is_for(&self, key: &Key<'_>) -> bool {
        self.hash.load(Ordering::Relaxed) == key.hash && self.is_in(key.directory) && self.last.is(key.last)
    }

    /// True if it is for the same name as another one, and was entered before.
    pub(crate) fn is_older(&self, than: &Self) -> bool {
        let of = |number: fn(&Self) -> &AtomicU64| {
            (number(self).load(Ordering::Relaxed), number(than).load(Ordering::Relaxed))
        };
        let is_same = |(one, other): (u64, u64)| one == other;
        let (mine, newer) = of(|entry| &entry.generation);
        mine < newer
            && is_same(of(|entry| &entry.hash))
            && is_same(of(|entry| &entry.device))
            && is_same(of(|entry| &entry.number))
            && than.last.with(|last| self.last.is(last))
    }

    pub(crate) fn fill(&self, key: &Key<'_>, place: SpoolName<'_>, kind: Kind, generation: u64) {
        self.hash.store(key.hash, Ordering::Relaxed);
        self.device.store(key.directory.device, Ordering::Relaxed);
        self.number.store(key.directory.number, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Relaxed);
        self.traits.store(kind.bits(), Ordering::Relaxed);
        self.last.set(key.last);
        self.place.set(place.bytes());
    }

    /// Changes the word. False if somebody else has.
    pub(crate) fn exchange(&self, word: u32, state: State) -> bool {
        self.word.compare_exchange(word, with_state(word, state), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Wakes those who wait for a change of the word.
    pub(crate) fn wake(&self) {
        let _ = wake(&self.word, Flags::empty(), u32::MAX >> 1);
    }
}

/// The number of this process. A child that was forked has another one than what the C library may remember.
pub(crate) fn process() -> u32 {
    u32::try_from(rustix::process::getpid().as_raw_nonzero().get()).unwrap_or(0)
}
