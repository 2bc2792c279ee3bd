//! What happens to a node, and when: drawn from a seed, and made shorter as long as it still fails.

use std::fmt::{Debug, Formatter, Result};

/// Numbers that a seed gives (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// One of these.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    /// True in a part of all cases.
    pub(crate) fn is(&mut self, part: f64) -> bool {
        self.between(0.0, 1.0) < part
    }

    pub(crate) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What happens from outside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Event {
    /// The program closes a file of so many bytes, which has to be local within so many seconds.
    Close { name: u8, bytes: u64, within: Option<f64> },
    /// A process waits for a file until it can be read.
    Wait { name: u8 },
    /// A process reads a file that may have a copy.
    Reads { name: u8 },
    /// Somebody changes a file that may have a copy.
    Changes { name: u8 },
    /// The program removes a file.
    Remove { name: u8 },
    /// Others take so many bytes of the tier, instead of what they took before.
    Filled { bytes: u64 },
    /// The last tier is so many times slower than usual.
    Slow { times: f64 },
    /// The next job that ends has failed.
    Fails,
    /// What lies in the tier is gone.
    TierLost,
    /// A worker process finds too little memory.
    Short,
    /// A batch system says that all ends soon.
    Terminated,
    /// The program ends.
    Ended,
}

/// How all ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum End {
    /// When all is done.
    Done,
    /// The launcher is killed at this time, and what it leaves is recovered.
    Killed(f64),
    /// The node restarts at this time, which clears its memory, and what is left is recovered.
    Restarted(f64),
}

/// All that happens to a node.
#[derive(Clone, PartialEq)]
pub(crate) struct Schedule {
    /// In their order, with the seconds at which they happen.
    pub(crate) events: Vec<(f64, Event)>,
    pub(crate) end: End,
    /// Bytes that the tier holds.
    pub(crate) tier: u64,
    /// What does not depend on these: how long jobs take.
    pub(crate) seed: u64,
}

const MB: u64 = 1_000_000;

impl Schedule {
    /// That of a seed. Kinds of events are drawn first: what happens in all schedules hides what happens without it.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random(seed);
        let kinds: Vec<bool> = (0..10).map(|_| random.is(0.4)).collect();
        let names = 1 + random.below(6);
        let tier = random.of(&[0, 1, 60, 200, 2000]) * MB;
        let (mut now, mut events) = (0.0, Vec::new());
        for _ in 0..random.below(24) {
            now += random.between(0.0, 3.0) * f64::from(u8::from(random.is(0.7)));
            let name = u8::try_from(random.below(names)).unwrap();
            let bytes = (1 + random.below(80)) * MB;
            let other = match random.below(10) {
                0 => Event::Wait { name },
                1 => Event::Remove { name },
                2 => Event::Filled { bytes: bytes * 3 },
                3 => Event::Slow { times: random.of(&[0.1, 1.0, 20.0]) },
                4 => Event::Fails,
                5 => Event::TierLost,
                6 => Event::Short,
                7 => Event::Reads { name },
                8 => Event::Changes { name },
                _ => Event::Terminated,
            };
            let is_used = kinds[other.kind()] && random.is(0.5);
            let within = random.is(0.3).then(|| random.between(0.1, 4.0));
            events.push((now, if is_used { other } else { Event::Close { name, bytes, within } }));
        }
        events.push((now + random.between(0.0, 4.0), Event::Ended));
        let at = random.between(0.0, now + 10.0);
        let end = random.of(&[End::Done, End::Killed(at), End::Restarted(at)]);
        Self { events, end, tier, seed }
    }

    /// The shortest one that is found by leaving events out, and that still fails.
    pub(crate) fn shrunk(self, fails: impl Fn(&Self) -> bool) -> Self {
        let mut least = self;
        let mut at = 0;
        while at < least.events.len() {
            let mut shorter = least.clone();
            shorter.events.remove(at);
            if fails(&shorter) {
                least = shorter;
                at = 0;
            } else {
                at += 1;
            }
        }
        let done = Self { end: End::Done, ..least.clone() };
        if fails(&done) { done } else { least }
    }
}

impl Event {
    fn kind(self) -> usize {
        match self {
            Self::Close { .. } | Self::Ended | Self::Wait { .. } => 0,
            Self::Remove { .. } => 1,
            Self::Filled { .. } => 2,
            Self::Slow { .. } => 3,
            Self::Fails => 4,
            Self::TierLost => 5,
            Self::Short => 6,
            Self::Terminated => 7,
            Self::Reads { .. } => 8,
            Self::Changes { .. } => 9,
        }
    }
}

impl Debug for Schedule {
    fn fmt(&self, to: &mut Formatter<'_>) -> Result {
        writeln!(to, "seed {}, a tier of {} bytes, {:?}", self.seed, self.tier, self.end)?;
        self.events.iter().try_for_each(|(at, event)| writeln!(to, "  {at:8.3} s  {event:?}"))
    }
}
