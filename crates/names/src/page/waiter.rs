//! A call that waits. The launcher sees who waits for which file since when, and learns how long it took.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use crate::page::entry::process;
use crate::page::text::Text;

/// A place for a call that waits. Its word is a [`State`] and a number that changes each time the place is used anew: a process
/// that was stopped for long finds its place taken by another.
#[repr(C, align(64))]
pub(crate) struct Waiter {
    pub(crate) word: AtomicU32,
    pub(crate) process: AtomicU32,
    /// What kind of call it is: one of [`Call`].
    call: AtomicU32,
    /// When it began, and when it said last that it waits. Nanoseconds by the clock of the machine.
    begun: AtomicU64,
    seen: AtomicU64,
    pub(crate) last: Text<32>,
    pub(crate) place: Text<5>,
}

/// What a place for a call that waits is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// For whoever comes.
    Free = 0,
    /// A process fills it.
    Filled = 1,
    /// The call waits.
    Waits = 2,
    /// It waits no longer. The launcher has not seen that yet.
    Over = 3,
}

const STATES: [State; 4] = [State::Free, State::Filled, State::Waits, State::Over];
/// Bits of the word that hold the state.
const BITS: u32 = 2;

pub(crate) fn state_of(word: u32) -> State {
    STATES.get((word & ((1 << BITS) - 1)) as usize).copied().unwrap_or(State::Free)
}

impl State {
    fn within(self, word: u32) -> u32 {
        (word >> BITS << BITS) | self as u32
    }
}

/// What a call does that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Call {
    /// Asks about a file: `stat`, `access`.
    Look = 0,
    /// Opens it.
    Open = 1,
    /// Makes or empties it.
    Create = 2,
    /// Removes it.
    Remove = 3,
    /// Gives it another name, or its name to another one.
    Rename = 4,
    /// Lists its directory.
    List = 5,
    /// Changes its access, its times or its length.
    Change = 6,
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Look, Self::Open, Self::Create, Self::Remove, Self::Rename, Self::List, Self::Change];

    /// In a word, as users know it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Look => "stat",
            Self::Open => "open",
            Self::Create => "create",
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::List => "list",
            Self::Change => "change",
        }
    }
}

/// What waiting for a name led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Nothing is pending under the name any more.
    Free,
    /// The file could not be made. Another one may have the name, which is older.
    Failed,
    /// The launcher is gone, or does not get on. Nobody knows what becomes of the file.
    Gone,
    /// The file is whole in a tier.
    Staged,
}

/// Nanoseconds by a clock that all processes of the machine share.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

impl Waiter {
    pub(crate) fn call(&self) -> Call {
        let number = self.call.load(Ordering::Relaxed) as usize;
        Call::ALL.get(number).copied().unwrap_or(Call::Look)
    }

    /// When it began. Nanoseconds.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// When it said last that it waits, or when that was over.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Changes the state. False if somebody else has.
    pub(crate) fn exchange(&self, word: u32, state: State) -> bool {
        self.word.compare_exchange(word, state.within(word), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A call that waits, and its place if there was one.
pub(crate) struct Waiting<'p>(Option<(&'p Waiter, u32)>);

impl<'p> Waiting<'p> {
    pub(crate) fn begin(waiters: &'p [Waiter], call: Call, last: &[u8], place: &[u8]) -> Self {
        let found = waiters.iter().find_map(|waiter| {
            let word = waiter.word.load(Ordering::Acquire);
            let anew = (word >> BITS).wrapping_add(1) << BITS | State::Filled as u32;
            let is_taken = state_of(word) == State::Free
                && waiter.word.compare_exchange(word, anew, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            is_taken.then_some((waiter, State::Waits.within(anew)))
        });
        if let Some((waiter, word)) = found {
            let now = now();
            waiter.process.store(process(), Ordering::Relaxed);
            waiter.call.store(call as u32, Ordering::Relaxed);
            waiter.begun.store(now, Ordering::Relaxed);
            waiter.seen.store(now, Ordering::Relaxed);
            waiter.last.set(last);
            waiter.place.set(place);
            waiter.word.store(word, Ordering::Release);
        }
        Self(found)
    }

    /// Says that it still waits.
    pub(crate) fn goes_on(&self) {
        if let Some((waiter, word)) = self.0
            && waiter.word.load(Ordering::Acquire) == word
        {
            waiter.seen.store(now(), Ordering::Relaxed);
        }
    }

    /// Says that it waits no longer.
    pub(crate) fn end(self) {
        self.goes_on();
        if let Some((waiter, word)) = self.0 {
            waiter.exchange(word, State::Over);
        }
    }
}
