//! What is remembered of a dataset's chunks, and when the choice of a chain is asked again. Pure: no clock, no codec.
//!
//! Chunks of one kind share a chain. A choice is made for the first chunk; every chunk after that earns a share of its
//! expected encoding time, and a choice is only made again when it is paid for: because chunks of a new kind came,
//! because the chain no longer gives the ratio that it gave at first, or because so much was earned that a closer look
//! is worth it. Each closer look costs twice the one before, so that they get rare.

use super::sketch::Sketch;
use knarr_choose::predictor::Beliefs;
use knarr_codec::chain::ChainSpec;

/// Share of the encoding time that choosing may take after the first chunk. Less than the 2 % that are promised,
/// because times come from a profile.
const SHARE: f64 = 0.015;
/// Kinds of chunks that are remembered.
const MOST_KINDS: usize = 4;
/// Logarithm by which the ratio may leave what it was before the choice is asked again.
const DRIFT: f64 = 0.15;
/// Weight of the newest chunk in the ratio that is watched.
const NEWEST: f64 = 0.25;

/// What happens to a chunk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Decision {
    /// The chain of this kind serves.
    Use(usize),
    /// A chain is chosen, for this kind or for a new one; within this many seconds by the profile, or unpaid.
    Choose { kind: Option<usize>, seconds: Option<f64> },
}

/// A choice.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    pub(super) chain: ChainSpec,
    /// Encoding speed of the chain by the profile, bytes a second.
    pub(super) speed: f64,
    /// Seconds that choosing took, by the profile.
    pub(super) seconds: f64,
    /// What is believed of all candidates; each chunk teaches more.
    pub(super) beliefs: Beliefs,
}

/// Chunks that look alike.
#[derive(Debug, Clone)]
struct Kind {
    sketch: Sketch,
    chosen: Chosen,
    /// Logarithm of the ratio right after the choice, and lately; absent until the first chunk was encoded.
    first: Option<f64>,
    lately: f64,
    /// Number of the chunk that it was chosen for, and of the chunk that used it last.
    made: u64,
    used: u64,
}

/// A kind as a chunk met it: it may be replaced before the chunk is encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Met {
    at: usize,
    made: u64,
}

/// Kinds of chunks of one dataset and what was earned.
#[derive(Debug, Default)]
pub(super) struct Memory {
    kinds: Vec<Kind>,
    earned: f64,
    chunks: u64,
}

impl Memory {
    /// What to do with a chunk that looks like `sketch`. A choice takes `overhead` seconds, and the time in which
    /// the chain in use encodes `trials` bytes.
    pub(super) fn decide(&mut self, sketch: &Sketch, overhead: f64, trials: f64) -> Decision {
        self.chunks += 1;
        let Some((at, distance)) = self.nearest_kind(sketch) else {
            return Decision::Choose { kind: None, seconds: None };
        };
        let kind = &mut self.kinds[at];
        kind.used = self.chunks;
        let is_new = distance >= 1.0;
        let least = overhead + trials / kind.chosen.speed;
        let price = if is_new || kind.has_drifted() { least } else { least.max(2.0 * kind.chosen.seconds) };
        if self.earned < price {
            return Decision::Use(at);
        }
        Decision::Choose { kind: (!is_new).then_some(at), seconds: Some(price) }
    }

    /// Keeps the outcome of [`Decision::Choose`]; returns the number of the kind. The first choice is not paid for.
    pub(super) fn chosen(&mut self, kind: Option<usize>, sketch: Sketch, chosen: Chosen) -> usize {
        if !self.kinds.is_empty() {
            self.earned -= chosen.seconds;
        }
        let at = match kind {
            Some(at) => at,
            None if self.kinds.len() < MOST_KINDS => self.kinds.len(),
            None => (0..self.kinds.len()).min_by_key(|&at| self.kinds[at].used).unwrap_or(0),
        };
        let new = Kind { sketch, chosen, first: None, lately: 0.0, made: self.chunks, used: self.chunks };
        match self.kinds.get_mut(at) {
            Some(old) => *old = new,
            None => self.kinds.push(new),
        }
        at
    }

    /// The choice for the chunks most like `sketch`, and their distance.
    pub(super) fn nearest(&self, sketch: &Sketch) -> Option<(f64, &Chosen)> {
        self.nearest_kind(sketch).map(|(at, distance)| (distance, &self.kinds[at].chosen))
    }

    /// The kind most like `sketch`, and their distance.
    fn nearest_kind(&self, sketch: &Sketch) -> Option<(usize, f64)> {
        let kinds = self.kinds.iter().enumerate().map(|(at, kind)| (at, kind.sketch.distance(sketch)));
        kinds.reduce(|a, b| if b.1 < a.1 { b } else { a })
    }

    /// The chain of a kind.
    pub(super) fn chain(&self, kind: usize) -> Option<&ChainSpec> {
        self.kinds.get(kind).map(|kind| &kind.chosen.chain)
    }

    /// The kind with this number as it is now.
    pub(super) fn met(&self, kind: usize) -> Option<Met> {
        self.kinds.get(kind).map(|found| Met { at: kind, made: found.made })
    }

    /// What was learnt of chunks of `kind`, or of the kind that was used last.
    pub(super) fn beliefs(&self, kind: Option<usize>) -> Option<&Beliefs> {
        let latest = || self.kinds.iter().max_by_key(|kind| kind.used);
        let kind = kind.and_then(|kind| self.kinds.get(kind)).or_else(latest)?;
        Some(&kind.chosen.beliefs)
    }

    /// Keeps what the chain of a kind made of a chunk.
    #[expect(clippy::cast_precision_loss, reason = "sizes of chunks are far below 2^52")]
    pub(super) fn encoded(&mut self, met: Met, raw: usize, encoded: usize) {
        let Some(kind) = self.kinds.get_mut(met.at).filter(|kind| kind.made == met.made) else { return };
        self.earned += SHARE * raw as f64 / kind.chosen.speed;
        let ratio = raw.max(1) as f64 / encoded.max(1) as f64;
        kind.chosen.beliefs.observe(&kind.chosen.chain, ratio);
        let ratio = ratio.ln();
        kind.lately = if kind.first.is_some() { kind.lately + NEWEST * (ratio - kind.lately) } else { ratio };
        kind.first.get_or_insert(ratio);
    }
}

impl Kind {
    fn has_drifted(&self) -> bool {
        self.first.is_some_and(|first| (self.lately - first).abs() > DRIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::{ArraySpec, DType};
    use knarr_choose::predictor::{Predictor, Subject};

    fn chain() -> ChainSpec {
        "shuffle | zstd:1".parse().unwrap()
    }

    /// A choice takes 1 ms at least, 0.5 ms of it trials.
    const OVERHEAD: f64 = 0.0005;
    const TRIALS: f64 = 50_000.0;
    const CHUNK: usize = 1_000_000;
    /// Chunks of 1 MB take 10 ms.
    const SPEED: f64 = 1e8;

    fn sketch(kind: u8) -> Sketch {
        // Counters that differ in how much neighbours differ.
        let raw: Vec<u8> = (0..40_000u32).flat_map(|i| (i.wrapping_mul(1 << (9 * kind))).to_le_bytes()).collect();
        Sketch::of(&ArraySpec::new(DType::U32, [40_000]), &raw)
    }

    /// Runs chunks (kind, encoded size) and returns the numbers of those a choice was made for, and what it cost.
    fn run(chunks: impl Iterator<Item = (u8, usize)>) -> (Vec<usize>, f64) {
        let (mut memory, mut choices, mut cost) = (Memory::default(), Vec::new(), 0.0);
        for (number, (kind, encoded)) in chunks.enumerate() {
            let at = match memory.decide(&sketch(kind), OVERHEAD, TRIALS) {
                Decision::Use(at) => at,
                Decision::Choose { kind: at, seconds } => {
                    choices.push(number);
                    cost += seconds.unwrap_or(0.0);
                    let seconds = seconds.unwrap_or(0.001);
                    let beliefs = Predictor::rule_of_thumb().outlook(&[chain()], &Subject::default()).beliefs;
                    let chosen = Chosen { chain: chain(), speed: SPEED, seconds, beliefs };
                    memory.chosen(at, sketch(kind), chosen)
                }
            };
            memory.encoded(memory.met(at).unwrap(), CHUNK, encoded);
        }
        (choices, cost)
    }

    #[test]
    fn later_looks_get_rare_and_stay_within_their_share() {
        let (choices, cost) = run((0..3000).map(|_| (0, CHUNK / 2)));
        assert_eq!(choices[0], 0);
        assert!((3..12).contains(&choices.len()), "{choices:?}");
        let gaps: Vec<usize> = choices.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
        assert!(cost <= 0.015 * 3000.0 * CHUNK as f64 / SPEED);
    }

    #[test]
    fn another_ratio_asks_again_sooner() {
        let steady = run((0..60).map(|_| (0, CHUNK / 2))).0;
        let drifting = run((0..60).map(|n| (0, if n < 30 { CHUNK / 2 } else { CHUNK / 4 }))).0;
        assert!(drifting.iter().any(|n| (30..60).contains(n)), "{drifting:?}");
        assert!(drifting.len() > steady.len());
    }

    #[test]
    fn kinds_that_alternate_are_each_remembered() {
        let (choices, _) = run((0..400).map(|n| (if n % 2 == 0 { 0 } else { 2 }, CHUNK / 2)));
        // One choice for each kind as soon as it is paid for, then only closer looks.
        assert!(choices.len() < 12, "{choices:?}");
        let (choices, _) = run((0..400).map(|n| (u8::try_from(n % 3).unwrap(), CHUNK / 2)));
        assert!(choices.len() < 16, "{choices:?}");
    }

    #[test]
    fn every_chunk_teaches_what_to_expect_of_the_next_choice() {
        let mut memory = Memory::default();
        assert_eq!(memory.decide(&sketch(0), OVERHEAD, TRIALS), Decision::Choose { kind: None, seconds: None });
        let beliefs = Predictor::rule_of_thumb().outlook(&[chain()], &Subject::default()).beliefs;
        let expected = beliefs.ratio(&chain());
        let chosen = Chosen { chain: chain(), speed: SPEED, seconds: 0.001, beliefs };
        let kind = memory.chosen(None, sketch(0), chosen);
        let met = memory.met(kind).unwrap();
        for _ in 0..4 {
            memory.encoded(met, CHUNK, CHUNK / 7);
        }
        let learnt = memory.beliefs(Some(kind)).unwrap();
        assert!(expected > 10.0 && (learnt.ratio(&chain()) - 7.0).abs() < 0.1, "{expected} {learnt:?}");
        assert_eq!(memory.beliefs(None), Some(learnt), "another kind begins with what this one taught");
    }

    #[test]
    fn a_new_kind_waits_until_it_is_paid_for() {
        let (choices, _) = run((0..20).map(|n| (u8::from(n > 0) * 2, CHUNK / 2)));
        assert_eq!(choices[0], 0);
        // 1 ms is earned by seven chunks of 10 ms at 1.5 %.
        assert_eq!(choices[1], 7);
    }
}
