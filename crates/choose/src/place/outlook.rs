//! What is still to come of a program that writes in bursts, as far as its past tells.

use super::objective::Objective;

/// Of the bursts of a program: how much they brought, and when.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cadence {
    bursts: u32,
    bytes: f64,
    /// When the first and the last one came, in seconds of any clock.
    first: f64,
    last: f64,
}

/// What is to come within the time that is looked ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToCome {
    /// Raw bytes.
    pub bytes: f64,
    /// Those of one burst.
    pub burst: f64,
    /// Seconds until the last of them comes.
    pub seconds: f64,
    /// Seconds until the next burst.
    pub next: f64,
}

impl ToCome {
    /// The program has ended.
    pub const NOTHING: Self = Self { bytes: 0.0, burst: 0.0, seconds: 0.0, next: 0.0 };
}

impl Cadence {
    /// So many raw bytes have come at this time.
    pub fn came(&mut self, bytes: f64, at: f64) {
        if self.bursts == 0 {
            self.first = at;
        }
        self.bursts += 1;
        self.bytes += bytes;
        self.last = self.last.max(at);
    }

    /// Twice as much as came already: of things that end at some time, so much or less is still to come in two of three
    /// cases. A program that has just begun is expected to go on for a few bursts, and to write no more than a
    /// link could take that is [`FASTER`] times as fast as the one to the last tier, with `drain` bytes a second.
    pub fn to_come(&self, now: f64, drain: f64) -> ToCome {
        if self.bursts == 0 {
            return ToCome::NOTHING;
        }
        let bursts = f64::from(self.bursts);
        let burst = self.bytes / bursts;
        let every = if self.bursts > 1 { (self.last - self.first) / (bursts - 1.0) } else { burst / (FASTER * drain) };
        // One that is late was the last, or the bursts have become rarer.
        let late = (now - self.last) / 2.0;
        let (more, every) = ((2.0 * bursts).max(LEAST), every.max(late));
        let next = (self.last + every - now).max(late);
        ToCome { bytes: more * burst, burst, seconds: more * every, next }
    }
}

/// Of a program of which nothing is known yet: how much faster than the link its output may be.
const FASTER: f64 = 8.0;
/// Bursts that are expected at least.
const LEAST: f64 = 8.0;

/// What a machine has for what waits and for what is to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook {
    /// Encoded bytes that wait to be moved to the last tier.
    pub queued: f64,
    /// What is to come.
    pub to_come: ToCome,
    /// Raw bytes for which memory has room.
    pub memory: f64,
    /// Bytes for which the tiers between memory and the last one have room.
    pub room: f64,
    /// Bytes a second that the last tier takes.
    pub drain: f64,
    /// Cores that encode without taking time of the program.
    pub idle_cores: f64,
    /// Cores that encode while the program waits.
    pub cores: f64,
}

impl Outlook {
    /// True if values have to be encoded even though the program computes on all cores. `waiting` are the raw bytes in memory. Until
    /// what is to come would find no room, encoding can wait for a core that is idle, unless files are to arrive soon.
    pub fn is_urgent(&self, waiting: f64, objective: Objective) -> bool {
        let is_link_idle = self.queued <= 0.0;
        let is_memory_short = self.memory - waiting < self.to_come.burst;
        let has_room = waiting + self.to_come.bytes <= self.memory + self.room - self.queued;
        (is_link_idle || is_memory_short) && (objective == Objective::Durable || !has_room)
    }
}
