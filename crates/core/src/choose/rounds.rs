//! Which candidates are tried on how much data: all that may win on little, those that are close on more.

use super::predict::{doubt, doubt_after, family, ratio_after};
use super::{cut_samples, rank, score_trials, trial};
use crate::array::ArraySpec;
use crate::chain::ChainSpec;
use crate::codec::CodecList;
use crate::goal::Goal;
use crate::plan::Candidate;
use crate::profile::Profile;
use crate::quality::Bound;

/// Candidates that are tried even if there is no time.
const LEAST: usize = 2;
/// Candidates that the first round should have time for.
const WANTED: usize = 8;
/// A candidate this many times as fast as its sibling is tried before it.
const MUCH_FASTER: f64 = 3.0;
/// Candidates within this score of the best of the first round go to the second.
const CLOSE: f64 = 0.06;
/// Most candidates of the second round.
const FINALISTS: usize = 3;
/// As far behind, and as many, go to the second round where there is time to try them on all samples: parts of
/// samples may hide what repeats in the whole.
const FAR: f64 = 0.3;
const MOST_FINALISTS: usize = 8;
/// Pieces of samples are not cut below this many bytes in the first round, which tells chains apart that differ much,
/// and in the second: short ones mislead.
const SMALLEST: usize = 64 << 10;
const SMALLEST_AGAIN: usize = 128 << 10;
/// A second round on less than so many times the data of the first says nothing new.
const WORTH_REPEATING: usize = 2;

/// What trials need to know.
#[derive(Clone, Copy)]
pub struct Trials<'a> {
    /// Codecs to try with.
    pub codecs: &'a CodecList,
    /// Where speeds come from.
    pub profile: &'a Profile,
    /// What scores.
    pub goal: &'a Goal,
    /// Bound that lossy chains must keep.
    pub bound: Option<&'a Bound>,
    /// Seconds of one core, by the profile, that trials may take together; two candidates are tried in any case.
    pub budget: f64,
}

/// Tries some of `predicted`, best first, on parts of `samples`. Returns all candidates, best first, and the bytes of
/// samples that the last round looked at. Depends on nothing but its arguments.
pub fn run_rounds(
    trials: Trials<'_>,
    predicted: Vec<Candidate>,
    samples: &[(ArraySpec, Vec<u8>)],
) -> (Vec<Candidate>, u64) {
    let available = length(samples);
    let quick = cut_samples(samples, affordable(predicted.iter().take(WANTED), trials.budget / 2.0), SMALLEST);
    let quick_bytes = length(&quick);
    let ranked = trials.first_round(predicted, &quick);
    let budget = trials.budget / 2.0;
    let within = |score: f64, most: usize| {
        let finalists = ranked.iter().take(most);
        finalists.take_while(|candidate| candidate.is_usable() && candidate.score + score >= ranked[0].score).count()
    };
    // All that may win on all samples; where there is no time for it, the closest on parts of them.
    let close = match within(FAR, MOST_FINALISTS) {
        many if affordable(ranked.iter().take(many), budget) >= available => many,
        _ => within(CLOSE, FINALISTS),
    };
    let more = affordable(ranked.iter().take(close), budget).min(available);
    if close < 2 || more < WORTH_REPEATING * quick_bytes {
        return (ranked, quick_bytes as u64);
    }
    let samples = cut_samples(samples, more, SMALLEST_AGAIN);
    let mut finalists = ranked;
    let others = finalists.split_off(close);
    // The finalists stay before the others, which were behind on less data, unless none of them serves after all.
    let mut ranked = rank(finalists.into_iter().map(|candidate| trials.run(candidate, &samples)).collect());
    ranked.extend(others);
    if !ranked.first().is_some_and(Candidate::is_usable) {
        ranked = rank(ranked);
    }
    (ranked, length(&samples) as u64)
}

/// A candidate in the first round.
struct Entry {
    candidate: Candidate,
    family: String,
    /// Logarithm by which the ratio may be off; 0 once it was tried.
    doubt: f64,
    /// Its ratio is expected from a sibling's.
    corrected: bool,
}

impl Trials<'_> {
    /// Tries the candidate that may be best, as long as it may be better than the best so far and there is time.
    /// What one reaches corrects what is expected of its siblings.
    fn first_round(self, predicted: Vec<Candidate>, samples: &[(ArraySpec, Vec<u8>)]) -> Vec<Candidate> {
        #[expect(clippy::cast_precision_loss, reason = "sizes of samples are far below 2^52")]
        let megabytes = length(samples) as f64 / 1e6;
        let mut left = self.budget / 2.0;
        let mut entries: Vec<Entry> = predicted
            .into_iter()
            .map(|candidate| Entry {
                family: family(&candidate.chain),
                doubt: doubt(&candidate.chain),
                corrected: false,
                candidate,
            })
            .collect();
        let mut best = f64::NEG_INFINITY;
        // How much more than predicted the best one gained: others may gain as much more.
        let mut surprise = 1.0f64;
        for tries in 0..entries.len() {
            let seconds = |entry: &Entry| megabytes / entry.candidate.merits.encode;
            // One slow candidate must not take the time of many quick ones.
            let in_time = |entry: &Entry| seconds(entry) <= left / 2.0;
            let hope = |entry: &Entry| {
                let ratio = entry.candidate.merits.ratio * entry.doubt.exp();
                self.score(&entry.candidate.chain, if entry.corrected { ratio } else { ratio * surprise })
            };
            let untried = || (0..entries.len()).filter(|&at| entries[at].doubt > 0.0);
            let hopeful = untried()
                .filter(|&at| in_time(&entries[at]))
                .map(|at| (at, hope(&entries[at])))
                .filter(|&(_, hope)| tries < LEAST || hope > best)
                .reduce(|a, b| if b.1 > a.1 { b } else { a });
            // What was predicted to be best comes first, and the next best too where time is short for all.
            let foremost = || untried().next().filter(|_| tries < LEAST);
            let next = if tries == 0 { foremost() } else { hopeful.map(|(at, _)| at).or_else(foremost) };
            let Some(next) = next else { break };
            let next = quick_sibling(&entries, next);
            left -= megabytes / entries[next].candidate.merits.encode;
            let tried = self.run(entries[next].candidate.clone(), samples);
            if tried.is_usable() {
                if tried.score > best {
                    best = tried.score;
                    surprise = (tried.merits.ratio / tried.predicted_ratio).max(1.0);
                }
                let (family, chain, ratio) = (entries[next].family.clone(), tried.chain.clone(), tried.merits.ratio);
                for sibling in entries.iter_mut().filter(|entry| entry.family == family && entry.doubt > 0.0) {
                    self.correct(sibling, &chain, ratio);
                }
            }
            entries[next].candidate = tried;
            entries[next].doubt = 0.0;
        }
        rank(entries.into_iter().map(|entry| entry.candidate).collect())
    }

    fn correct(self, entry: &mut Entry, sibling: &ChainSpec, ratio: f64) {
        let ratio = ratio_after(&entry.candidate.chain, sibling, ratio);
        entry.candidate.merits = self.profile.merits(self.codecs, &entry.candidate.chain, ratio);
        entry.candidate.score = self.goal.score(&entry.candidate.merits);
        entry.doubt = entry.doubt.min(doubt_after(&entry.candidate.chain));
        entry.corrected = true;
    }

    fn score(self, chain: &ChainSpec, ratio: f64) -> f64 {
        self.goal.score(&self.profile.merits(self.codecs, chain, ratio))
    }

    fn run(self, candidate: Candidate, samples: &[(ArraySpec, Vec<u8>)]) -> Candidate {
        let tried = trial(self.codecs, &candidate.chain, samples, self.bound);
        score_trials(candidate, tried, self.goal, self.profile, self.codecs)
    }
}

/// The fastest of the family if nothing of it was tried and it is much faster than the entry at `next`: it says for
/// little whether its siblings are worth a trial.
fn quick_sibling(entries: &[Entry], next: usize) -> usize {
    let of_family = || (0..entries.len()).filter(|&at| entries[at].family == entries[next].family);
    if of_family().any(|at| entries[at].doubt == 0.0) {
        return next;
    }
    let speed = |at: usize| entries[at].candidate.merits.encode;
    let fastest = of_family().reduce(|a, b| if speed(b) > speed(a) { b } else { a });
    fastest.filter(|&at| speed(at) > MUCH_FASTER * speed(next)).unwrap_or(next)
}

fn length(samples: &[(ArraySpec, Vec<u8>)]) -> usize {
    samples.iter().map(|(_, bytes)| bytes.len()).sum()
}

/// Bytes that each of `candidates` can encode once within `budget` seconds in all.
fn affordable<'a>(candidates: impl Iterator<Item = &'a Candidate>, budget: f64) -> usize {
    let seconds_per_megabyte: f64 = candidates.map(|candidate| 1.0 / candidate.merits.encode).sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; a size in bytes")]
    let bytes = (budget / seconds_per_megabyte.max(1e-9) * 1e6) as usize;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::DType;
    use crate::choose::predict;
    use crate::features::Features;

    const CHAINS: [&str; 7] = [
        "shuffle | brotli:1",
        "shuffle | brotli:5",
        "shuffle | brotli:11",
        "brotli:1",
        "snappy",
        "shuffle | snappy",
        "grid",
    ];

    fn rounds(goal: &str, budget: f64) -> (Vec<Candidate>, u64, Profile) {
        let shape = [4, 200, 300];
        let bytes: Vec<u8> =
            (0..240_000u32).flat_map(|i| (20.0 + (i as f32 / 300.0).sin() * 9.0).to_le_bytes()).collect();
        let samples = vec![(ArraySpec::new(DType::F32, shape), bytes)];
        let (codecs, profile, goal) = (CodecList::pure(), Profile::built_in(), goal.parse().unwrap());
        let features = Features::of(&samples[0].0, &samples[0].1);
        let chains = CHAINS.map(|chain| chain.parse().unwrap());
        let predicted = predict(&chains, &features, &goal, &profile, &codecs);
        let trials = Trials { codecs: &codecs, profile: &profile, goal: &goal, bound: None, budget };
        let (ranked, bytes) = run_rounds(trials, predicted, &samples);
        (ranked, bytes, profile)
    }

    #[test]
    fn two_are_tried_without_time_and_all_are_returned() {
        let (ranked, _, _) = rounds("balanced", 0.0);
        assert_eq!(ranked.len(), CHAINS.len());
        assert_eq!(ranked.iter().filter(|candidate| candidate.is_usable()).count(), 2);
        assert!(ranked[0].is_usable() && ranked[1].is_usable());
    }

    #[test]
    fn with_time_the_best_of_all_is_found() {
        for goal in ["speed", "balanced", "ratio"] {
            let (ranked, bytes, profile) = rounds(goal, 100.0);
            assert_eq!(bytes, 960_000, "the last round looks at everything");
            let goal: Goal = goal.parse().unwrap();
            let codecs = CodecList::pure();
            for candidate in ranked.iter().filter(|candidate| candidate.is_usable()) {
                assert!(candidate.score <= ranked[0].score);
                let merits = profile.merits(&codecs, &candidate.chain, candidate.tried_ratio.unwrap());
                assert_eq!(goal.score(&merits), candidate.score);
            }
        }
    }

    #[test]
    fn little_time_is_kept() {
        let budget = 0.004;
        let (ranked, bytes, _) = rounds("speed", budget);
        let tried = ranked.iter().filter(|candidate| candidate.is_usable());
        let seconds: f64 = tried.map(|candidate| bytes as f64 / 1e6 / candidate.merits.encode).sum();
        assert!(seconds < 2.0 * budget, "{seconds}");
    }
}
