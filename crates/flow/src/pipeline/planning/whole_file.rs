//! Chooses chains for all variables of a file together.
//!
//! A goal states what one per cent of size is worth in per cent of time. A variable that shrinks to a thirtieth is a small part
//! of the file with any chain, but may take most of the time. So size and time of the whole file count, and not those of a
//! variable.

use knarr_array::array::ArraySpec;
use knarr_array::error::Result;
use knarr_array::goal::{Goal, Merits};
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::{Action, Candidate, Choice, VariablePlan};
use knarr_codec::chain::{Chain, ChainSpec};
use knarr_codec::codec::{CodecList, Loss};

/// Each round looks at every variable once; what one gives up may be worth it for another.
const ROUNDS: usize = 3;
/// By how much a score has to grow.
const LEAST: f64 = 1e-6;

/// What all variables take: bytes of values, encoded bytes, seconds of encoding and of decoding, joules.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    raw: f64,
    encoded: f64,
    encode: f64,
    decode: f64,
    energy: f64,
}

impl Sums {
    /// Adds (1) or takes away (-1) a variable with these merits.
    fn add(&mut self, sign: f64, raw: f64, merits: &Merits) {
        let per = |rate: f64| sign * raw / rate.max(f64::MIN_POSITIVE);
        self.raw += sign * raw;
        self.encoded += per(merits.ratio);
        self.encode += per(merits.encode);
        self.decode += per(merits.decode);
        self.energy += sign * raw * merits.energy;
    }

    fn merits(&self) -> Merits {
        let per = |sum: f64| self.raw / sum.max(f64::MIN_POSITIVE);
        Merits {
            ratio: per(self.encoded),
            encode: per(self.encode),
            decode: per(self.decode),
            energy: self.energy / self.raw.max(f64::MIN_POSITIVE),
        }
    }
}

/// Takes for each variable, among the chains that were tried on it, the one with which the file is best.
///
/// # Errors
/// What preparing a chain reports.
pub(in crate::pipeline) fn weigh(
    (codecs, goal, target): (&CodecList, &Goal, FormatLimits),
    plans: &mut [VariablePlan],
    spec_of: impl Fn(usize, &Choice) -> ArraySpec,
) -> Result<()> {
    let mut sums = Sums::default();
    for plan in plans.iter() {
        if let Action::Encode(choice) = &plan.action {
            sums.add(1.0, bytes(plan), &choice.expected);
        }
    }
    for _ in 0..ROUNDS {
        let mut has_changed = false;
        for (index, plan) in plans.iter_mut().enumerate() {
            let raw = bytes(plan);
            let Action::Encode(choice) = &mut plan.action else { continue };
            let mut others = sums;
            others.add(-1.0, raw, &choice.expected);
            let Some((place, chain)) = better((codecs, goal), choice, (raw, &others), &spec_of(index, choice))? else {
                continue;
            };
            let taken = choice.candidates.remove(place);
            others.add(1.0, raw, &taken.merits);
            sums = others;
            has_changed = true;
            choice.reason.push_str(&format!(
                "; for the whole file '{}' {:.2}x at {:.0} MB/s is better",
                taken.chain, taken.merits.ratio, taken.merits.encode
            ));
            choice.fallback = target.fallback(codecs, &chain);
            choice.bound = choice.bound.filter(|_| chain.loss() == Loss::Lossy);
            choice.reader = target.reader(&chain);
            choice.chain = taken.chain.clone();
            choice.expected = taken.merits;
            choice.candidates.insert(0, taken);
        }
        if !has_changed {
            return Ok(());
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "sizes of variables, of which shares count")]
fn bytes(plan: &VariablePlan) -> f64 {
    plan.raw_bytes as f64
}

/// The place of a candidate that makes the file better, and its chain. `others` is what the other variables take.
fn better(
    (codecs, goal): (&CodecList, &Goal),
    choice: &Choice,
    (raw, others): (f64, &Sums),
    spec: &ArraySpec,
) -> Result<Option<(usize, Chain)>> {
    let score = |merits: &Merits| {
        let mut all = *others;
        all.add(1.0, raw, merits);
        goal.score(&all.merits())
    };
    let mut best = (score(&choice.expected) + LEAST, None);
    if choice.chain == ChainSpec::raw() {
        // Nothing makes it smaller.
        return Ok(None);
    }
    let serves = |candidate: &Candidate| {
        candidate.is_usable()
            && candidate.chain != choice.chain
            && goal.missed_by(&candidate.merits) <= goal.missed_by(&choice.expected)
    };
    for (place, candidate) in choice.candidates.iter().enumerate().filter(|(_, candidate)| serves(candidate)) {
        let now = score(&candidate.merits);
        if now > best.0 {
            let chain = Chain::prepare(codecs, &candidate.chain, spec)?;
            if chain.loss() == Loss::Lossless || choice.bound.is_some() {
                best = (now, Some((place, chain)));
            }
        }
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;
    use knarr_array::quality::Quality;
    use knarr_codec::codec::ReaderLevel;

    fn candidate(chain: &str, ratio: f64, encode: f64) -> Candidate {
        let merits = Merits { ratio, encode, decode: 900.0, energy: 20.0 };
        Candidate {
            chain: chain.parse().unwrap(),
            merits,
            predicted_ratio: ratio,
            pace: knarr_choose::profile::SpeedFactors::default(),
            tried_ratio: Some(ratio),
            score: 0.0,
            dropped: None,
            observed: None,
        }
    }

    /// A variable of so many MB for which the first of these chains was chosen.
    fn variable(megabytes: u64, candidates: Vec<Candidate>) -> VariablePlan {
        let (chain, expected) = (candidates[0].chain.clone(), candidates[0].merits);
        let choice = Choice {
            chunk: vec![1000],
            chain,
            fallback: None,
            quality: Quality::LOSSLESS,
            bound: None,
            reader: ReaderLevel::Core,
            expected,
            reason: "best of some".to_owned(),
            missed: None,
            wider: Vec::new(),
            features: knarr_choose::features::Features::default(),
            candidates,
            sample_bytes: 0,
            seconds: 0.0,
        };
        let raw_bytes = megabytes * 1_000_000;
        let (path, dtype, shape) = ("/v".to_owned(), DType::F32, vec![raw_bytes / 4]);
        VariablePlan { path, dtype, shape, raw_bytes, action: Action::Encode(Box::new(choice)), unmet: Vec::new() }
    }

    fn chains(goal: &str, mut plans: Vec<VariablePlan>) -> Vec<String> {
        let (codecs, goal) = (CodecList::pure(), goal.parse().unwrap());
        let target = FormatLimits::hdf5(ReaderLevel::Core);
        let spec = |_: usize, choice: &Choice| {
            ArraySpec::new(DType::F32, choice.chunk.iter().map(|&n| usize::try_from(n).unwrap()).collect::<Vec<_>>())
        };
        weigh((&codecs, &goal, target), &mut plans, spec).unwrap();
        let chain = |plan: VariablePlan| match plan.action {
            Action::Encode(choice) => {
                assert_eq!(
                    (&choice.candidates[0].chain, choice.candidates[0].merits),
                    (&choice.chain, choice.expected)
                );
                choice.chain.to_string()
            }
            Action::Copy(why) => why,
        };
        plans.into_iter().map(chain).collect()
    }

    fn slow_or_quick() -> Vec<Candidate> {
        vec![candidate("shuffle | pcodec:8", 36.0, 34.0), candidate("shuffle | snappy", 31.5, 119.0)]
    }

    #[test]
    fn a_small_part_of_the_file_does_not_take_most_of_the_time() {
        let rough = || variable(67, vec![candidate("snappy", 3.5, 300.0)]);
        assert_eq!(chains("balanced", vec![variable(67, slow_or_quick())]), ["shuffle | pcodec:8"]);
        let all = chains("balanced", vec![variable(67, slow_or_quick()), rough(), rough()]);
        assert_eq!(all, ["shuffle | snappy", "snappy", "snappy"]);
        // Where only the size counts, nothing changes.
        let all = chains("ratio", vec![variable(67, slow_or_quick()), rough(), rough()]);
        assert_eq!(all[0], "shuffle | pcodec:8");
    }

    #[test]
    fn limits_hold_for_each_variable_and_what_was_not_tried_is_not_taken() {
        let rough = || variable(500, vec![candidate("snappy", 3.5, 300.0)]);
        let slow = || vec![candidate("shuffle | pcodec:8", 36.0, 34.0), candidate("shuffle | snappy", 40.0, 20.0)];
        assert_eq!(chains("balanced", vec![variable(67, slow()), rough()])[0], "shuffle | pcodec:8");
        let untried = Candidate { tried_ratio: None, ..candidate("shuffle | snappy", 31.5, 119.0) };
        let candidates = vec![candidate("shuffle | pcodec:8", 36.0, 34.0), untried];
        assert_eq!(chains("balanced", vec![variable(67, candidates), rough()])[0], "shuffle | pcodec:8");
    }
}
