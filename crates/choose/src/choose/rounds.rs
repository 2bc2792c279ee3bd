//! Which candidates are tried on how much data: all that may win on little, those that are close on more.

use super::long_range::repeats_at_long_range;
use super::parts::{grows, hidden};
use super::{TrialSet, cut_samples, rank, score_trials, trial};
use crate::plan::Candidate;
use crate::predictor::Beliefs;
use crate::profile::Profile;
use knarr_array::array::{ArraySpec, is_constant};
use knarr_array::goal::Goal;
use knarr_array::quality::Bound;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;

/// Candidates that are tried even if there is no time.
const LEAST: usize = 2;
/// Candidates that the first round should have time for.
const WANTED: usize = 8;
/// Standard deviations by which a ratio may be better than expected before a candidate is given up.
const HOPE: f64 = 2.0;
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

/// Data that shrink so much, or of which so large a share comes again far away, are tried on a whole sample: the first of
/// what repeats weighs most in parts of one.
const SHRINKS: f64 = 8.0;
const COMES_AGAIN: f64 = 0.1;
/// Profiles are of data that hardly shrink. What shrinks more than `SHRINKS` is encoded faster in proportion, at most so
/// many times.
const FASTER: f64 = 8.0;
/// Other data are tried on a whole sample if so many candidates can be in the time for that.
const RIVALS: usize = 2;
/// Bytes of a whole sample, at most.
const WHOLE: usize = 1 << 20;
/// Factors on the doubts of such data, which training knows little of: where time counts, and where it does not, so that
/// nearly all are tried.
const UNUSUAL: f64 = 3.0;
const UNKNOWN: f64 = 10.0;

/// What trials need to know.
#[derive(Clone, Copy)]
pub(super) struct Trials<'a> {
    /// Codecs to try with.
    pub(super) codecs: &'a CodecList,
    /// Where speeds come from.
    pub(super) profile: &'a Profile,
    /// What scores.
    pub(super) goal: &'a Goal,
    /// Bound that lossy chains must keep.
    pub(super) bound: Option<&'a Bound>,
    /// Seconds of one core, by the profile, that trials may take together; two candidates are tried in any case.
    pub(super) budget: f64,
    /// The same for data that need a whole sample.
    pub(super) most: f64,
    /// The same for a last round on a whole sample of other data; none without.
    pub(super) whole: f64,
}

/// Tries some of `predicted`, best first, on parts of `samples`; `beliefs` learn from each trial. Returns all
/// candidates, best first, and the bytes of samples that the last round looked at. Depends on nothing but its
/// arguments.
pub(super) fn run_rounds(
    trials: Trials<'_>,
    predicted: Vec<Candidate>,
    beliefs: &mut Beliefs,
    samples: &[(ArraySpec, Vec<u8>)],
) -> (Vec<Candidate>, u64) {
    let available = length(samples);
    let quick = cut_samples(samples, affordable(predicted.iter().take(WANTED), trials.budget / 2.0), SMALLEST);
    let quick_bytes = length(&quick);
    let piece = quick.first().map_or(0, |(_, bytes)| bytes.len());
    let is_part = samples.first().is_some_and(|(_, bytes)| piece < bytes.len());
    let try_quick = |chain: &ChainSpec| {
        let tried = trial(trials.codecs, chain, &quick, trials.bound);
        let factor = if is_part { grows(chain, piece) } else { 1.0 };
        TrialSet { ratio: tried.ratio * factor, ..tried }
    };
    let unusual = beliefs.doubted(if trials.goal.weighs_encoding() { UNUSUAL } else { UNKNOWN });
    let ranked = trials.narrow(predicted, beliefs, quick_bytes, &try_quick);
    if trials.most > 0.0 && available >= SMALLEST && needs_whole(&ranked, samples) {
        *beliefs = unusual;
        return trials.try_whole(ranked, quick, beliefs, samples);
    }
    let whole = cut_samples(samples, WHOLE, WHOLE);
    let affords_whole = affordable(ranked.iter().take(RIVALS), trials.whole) >= length(&whole);
    if affords_whole && length(&whole) > quick_bytes {
        return trials.try_rivals(ranked, beliefs, &whole);
    }
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
    let mut again = |candidate: Candidate| {
        let tried = trial(trials.codecs, &candidate.chain, &samples, trials.bound);
        beliefs.observe(&candidate.chain, tried.ratio);
        trials.score(candidate, tried)
    };
    let mut ranked = rank(finalists.into_iter().map(&mut again).collect());
    ranked.extend(others);
    if !ranked.first().is_some_and(Candidate::is_usable) {
        ranked = rank(ranked);
    }
    (ranked, length(&samples) as u64)
}

/// True if parts of `samples` say little of the whole.
fn needs_whole(ranked: &[Candidate], samples: &[(ArraySpec, Vec<u8>)]) -> bool {
    let is_empty = |(spec, bytes): &(ArraySpec, Vec<u8>)| is_constant(spec.dtype.size(), bytes);
    if samples.iter().all(is_empty) {
        return false;
    }
    let shrinks = ranked.iter().any(|candidate| candidate.is_usable() && candidate.merits.ratio >= SHRINKS);
    shrinks || samples.first().is_some_and(|(spec, bytes)| repeats_at_long_range(spec, bytes) >= COMES_AGAIN)
}

impl Trials<'_> {
    /// Tries on `whole`, a whole sample, the best by what parts of it said, and all that may be better after all.
    fn try_rivals(
        self,
        ranked: Vec<Candidate>,
        beliefs: &mut Beliefs,
        whole: &[(ArraySpec, Vec<u8>)],
    ) -> (Vec<Candidate>, u64) {
        *beliefs = beliefs.blurred(hidden);
        let mut candidates = ranked;
        for candidate in &mut candidates {
            (candidate.tried_ratio, candidate.dropped, candidate.observed) = (None, None, None);
            self.update(candidate, beliefs);
        }
        let run = |chain: &ChainSpec| trial(self.codecs, chain, whole, self.bound);
        let again = Self { budget: 2.0 * self.whole, ..self };
        (again.narrow(rank(candidates), beliefs, length(whole), &run), length(whole) as u64)
    }

    /// Tries candidates on a whole sample; those that were tried on `quick` again, unless that is as much.
    fn try_whole(
        self,
        ranked: Vec<Candidate>,
        quick: Vec<(ArraySpec, Vec<u8>)>,
        beliefs: &mut Beliefs,
        samples: &[(ArraySpec, Vec<u8>)],
    ) -> (Vec<Candidate>, u64) {
        let mut candidates = ranked;
        let usable = candidates.iter().filter(|candidate| candidate.is_usable());
        let shrinks = usable.map(|candidate| candidate.merits.ratio).fold(0.0, f64::max);
        let count = if shrinks >= FASTER * SHRINKS { samples.len() } else { 1 };
        #[expect(clippy::cast_precision_loss, reason = "a few samples")]
        let faster = (shrinks / SHRINKS).clamp(1.0, FASTER) * count as f64;
        let whole = cut_samples(samples, count * WHOLE, WHOLE);
        let is_more = length(&whole) > length(&quick);
        // What was tried on as much stays: the others are tried on the same.
        let whole = if is_more { whole } else { quick };
        for candidate in &mut candidates {
            if is_more {
                (candidate.tried_ratio, candidate.dropped, candidate.observed) = (None, None, None);
            } else if candidate.is_usable() {
                beliefs.observe(&candidate.chain, candidate.merits.ratio);
            }
        }
        let run = |chain: &ChainSpec| trial(self.codecs, chain, &whole, self.bound);
        #[expect(clippy::cast_precision_loss, reason = "sizes of samples are far below 2^52")]
        let (megabytes, share) = (length(&whole) as f64 / 1e6, self.most * faster / candidates.len().max(1) as f64);
        let mut left = self.most * faster;
        // All that take no more than their share of the time, and then those that promise most.
        for candidate in candidates.iter_mut().filter(|candidate| candidate.tried_ratio.is_none()) {
            let seconds = megabytes / candidate.merits.encode;
            if seconds <= share {
                left -= seconds;
                *candidate = self.score(candidate.clone(), run(&candidate.chain));
                if candidate.is_usable() {
                    beliefs.observe(&candidate.chain, candidate.merits.ratio);
                }
            }
        }
        for candidate in candidates.iter_mut().filter(|candidate| candidate.tried_ratio.is_none()) {
            self.update(candidate, beliefs);
        }
        let again = Self { budget: 2.0 * left, ..self };
        let ranked = again.narrow(candidates, beliefs, length(&whole), &run);
        (ranked, length(&whole) as u64)
    }

    /// Tries, by `run`, the candidate that may be best, as long as it may be better than the best so far and there is
    /// time to encode `bytes`. What one reaches corrects what is believed of the others.
    pub(super) fn narrow(
        self,
        mut candidates: Vec<Candidate>,
        beliefs: &mut Beliefs,
        bytes: usize,
        run: &dyn Fn(&ChainSpec) -> TrialSet,
    ) -> Vec<Candidate> {
        #[expect(clippy::cast_precision_loss, reason = "sizes of samples are far below 2^52")]
        let megabytes = bytes as f64 / 1e6;
        let mut left = self.budget / 2.0;
        let usable = candidates.iter().filter(|candidate| candidate.is_usable());
        let mut best = usable.map(|candidate| candidate.score).fold(f64::NEG_INFINITY, f64::max);
        let mut exceeded = false;
        for tries in 0..candidates.len() {
            // One slow candidate must not take the time of many quick ones. Once, one that is believed to be the best
            // may all the same: if it is, encoding takes as much longer.
            let in_time = |candidate: &Candidate| {
                let is_favourite = tries > 0 && !exceeded && candidate.score > best;
                megabytes / candidate.merits.encode <= left / 2.0 || is_favourite
            };
            let untried = || candidates.iter().enumerate().filter(|(_, candidate)| candidate.tried_ratio.is_none());
            let hopeful = untried()
                .filter(|(_, candidate)| in_time(candidate))
                .map(|(at, candidate)| (at, self.hope(candidate, beliefs)))
                .filter(|&(_, hope)| tries < LEAST || hope > best)
                .reduce(|a, b| if b.1 > a.1 { b } else { a });
            // What was predicted to be best comes first, and the next best too where time is short for all.
            let foremost = || untried().next().filter(|_| tries < LEAST);
            let next = if tries == 0 { None } else { hopeful.map(|(at, _)| at) };
            let Some(next) = next.or_else(|| foremost().map(|(at, _)| at)) else { break };
            let chain = candidates[next].chain.clone();
            let seconds = megabytes / candidates[next].merits.encode;
            exceeded |= tries >= LEAST && seconds > left / 2.0;
            left -= seconds;
            let tried = self.score(candidates[next].clone(), run(&chain));
            if tried.is_usable() {
                best = best.max(tried.score);
                beliefs.observe(&chain, tried.merits.ratio);
            }
            candidates[next] = tried;
            for candidate in candidates.iter_mut().filter(|candidate| candidate.tried_ratio.is_none()) {
                self.update(candidate, beliefs);
            }
        }
        rank(candidates)
    }

    /// Puts what is believed now into a candidate that was not tried.
    fn update(self, candidate: &mut Candidate, beliefs: &Beliefs) {
        let ratio = beliefs.ratio(&candidate.chain);
        candidate.merits = self.profile.paced_merits(self.codecs, &candidate.chain, ratio, candidate.pace);
        candidate.score = self.goal.score(&candidate.merits);
    }

    /// The score that a candidate may reach if its ratio is better than believed.
    fn hope(self, candidate: &Candidate, beliefs: &Beliefs) -> f64 {
        let ratio = candidate.merits.ratio * (HOPE * beliefs.doubt(&candidate.chain)).exp();
        self.goal.score(&self.profile.paced_merits(self.codecs, &candidate.chain, ratio, candidate.pace))
    }

    fn score(self, candidate: Candidate, tried: TrialSet) -> Candidate {
        score_trials(candidate, tried, self.goal, self.profile, self.codecs)
    }
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
    use crate::choose::look::look;
    use crate::choose::predict;
    use crate::predictor::Predictor;
    use knarr_array::array::DType;

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
        let chains = CHAINS.map(|chain| chain.parse().unwrap());
        let mut outlook = Predictor::built_in().outlook(&chains, &look(&codecs, &samples, None));
        let predicted = predict(&chains, &outlook.beliefs, &outlook.paces, &goal, &profile, &codecs);
        let trials =
            Trials { codecs: &codecs, profile: &profile, goal: &goal, bound: None, budget, most: 0.0, whole: 0.0 };
        let (ranked, bytes) = run_rounds(trials, predicted, &mut outlook.beliefs, &samples);
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
                let ratio = candidate.tried_ratio.unwrap();
                let merits = profile.paced_merits(&codecs, &candidate.chain, ratio, candidate.pace);
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
