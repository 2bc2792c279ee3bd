//! Choice: predictor and profile narrow the candidates, trials on samples decide, the goal ranks.
//!
//! There is one [`Chooser`]. Who asks it says which chains may serve (`candidates`), gives it samples (`sample`), and has a
//! policy for what the choice may cost ([`Budget`]). Decision is apart from execution: `predict` and `rank` are pure;
//! [`trial`] runs chains on samples and returns numbers that depend only on the samples; `rounds` says which are run on
//! which samples.

mod budget;
mod candidates;
mod chooser;
mod long_range;
mod look;
mod parts;
mod rounds;
mod sample;
mod trial;

pub use budget::{Budget, CHUNK_SAMPLE, PATIENT, PREDICTION_SAMPLE, chunk_trials};
pub use candidates::{all_chains, candidates, holdable, readable, with_bound};
pub use chooser::{Chooser, Question, Ranked};
pub use sample::{cut, cut_samples, middle, sample_regions};
pub use trial::{TrialSet, trial};

use crate::features::Features;
use crate::plan::Candidate;
use crate::predictor::Beliefs;
use crate::profile::{Profile, SpeedFactors};
use knarr_array::goal::Goal;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;

/// Candidates with the merits that `beliefs` and `paces`, one for each of `chains`, say, best first. Ties go to the
/// earlier candidate. Pure.
fn predict(
    chains: &[ChainSpec],
    beliefs: &Beliefs,
    paces: &[SpeedFactors],
    goal: &Goal,
    profile: &Profile,
    codecs: &CodecList,
) -> Vec<Candidate> {
    let candidates = chains.iter().zip(paces).map(|(chain, &pace)| {
        let predicted_ratio = beliefs.ratio(chain);
        let merits = profile.paced_merits(codecs, chain, predicted_ratio, pace);
        Candidate {
            chain: chain.clone(),
            merits,
            predicted_ratio,
            pace,
            tried_ratio: None,
            score: goal.score(&merits),
            dropped: None,
            observed: None,
        }
    });
    rank(candidates.collect())
}

/// Encoding speed in MB/s of what may be chosen from `predicted`, best first: where the time to encode does not count,
/// that of the slowest.
fn expected_speed(predicted: &[Candidate], goal: &Goal) -> f64 {
    let speeds = predicted.iter().map(|candidate| candidate.merits.encode);
    if goal.weighs_encoding() { speeds.take(1).next() } else { speeds.reduce(f64::min) }.unwrap_or(1.0)
}

/// Puts tried ratios in place of predicted ones. Pure.
fn score_trials(
    candidate: Candidate,
    tried: TrialSet,
    goal: &Goal,
    profile: &Profile,
    codecs: &CodecList,
) -> Candidate {
    let merits = profile.paced_merits(codecs, &candidate.chain, tried.ratio, candidate.pace);
    Candidate {
        merits,
        tried_ratio: Some(tried.ratio),
        score: goal.score(&merits),
        observed: tried.observed,
        dropped: tried.failed,
        ..candidate
    }
}

/// Best first: what was not dropped before what was, tried before untried, then by score; ties keep their order.
fn rank(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_by(|a, b| {
        let class = |c: &Candidate| (c.dropped.is_some(), c.tried_ratio.is_none());
        class(a).cmp(&class(b)).then(b.score.total_cmp(&a.score))
    });
    candidates
}

/// One sentence: why the first of the ranked candidates was chosen.
pub fn reason(ranked: &[Candidate], features: &Features, goal: &Goal) -> String {
    let Some(best) = ranked.first() else { return "nothing to choose from".to_owned() };
    let data = describe(features);
    let tried = ranked.iter().filter(|candidate| candidate.tried_ratio.is_some()).count();
    match ranked.get(1).filter(|second| second.tried_ratio.is_some() && second.dropped.is_none()) {
        Some(second) => format!(
            "{data}; best of {tried} tried for goal '{goal}': {:.2}x at {:.0} MB/s, next '{}' {:.2}x at {:.0} MB/s",
            best.merits.ratio, best.merits.encode, second.chain, second.merits.ratio, second.merits.encode
        ),
        None => format!("{data}; {:.2}x at {:.0} MB/s for goal '{goal}'", best.merits.ratio, best.merits.encode),
    }
}

/// What the features say in words.
fn describe(features: &Features) -> String {
    use crate::features::Class;
    let mut words = vec![match features.class {
        Class::Constant => "constant".to_owned(),
        Class::Few => "few distinct values".to_owned(),
        Class::Masked if features.fill > 0.0 => format!("{:.0} % fill", features.fill * 100.0),
        Class::Masked => format!("{:.0} % repeats", features.repeats * 100.0),
        Class::Smooth => "smooth".to_owned(),
        Class::Rough => "rough".to_owned(),
    }];
    if features.trailing_zeros > 1 && features.class != Class::Constant {
        words.push(format!("{} trailing zero bits", features.trailing_zeros));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::SpeedFactors;
    use knarr_array::goal::Merits;

    fn candidate(name: &str, score: f64, tried: bool, dropped: bool) -> Candidate {
        Candidate {
            chain: name.parse().unwrap(),
            merits: Merits { ratio: 2.0, encode: 100.0, decode: 100.0, energy: 1.0 },
            predicted_ratio: 2.0,
            pace: SpeedFactors::default(),
            tried_ratio: tried.then_some(2.0),
            score,
            dropped: dropped.then(|| "fails".to_owned()),
            observed: None,
        }
    }

    #[test]
    fn tried_beats_untried_and_dropped_comes_last() {
        let ranked = rank(vec![
            candidate("a", 9.0, true, true),
            candidate("b", 8.0, false, false),
            candidate("c", 1.0, true, false),
            candidate("d", 1.0, true, false),
        ]);
        let order: Vec<String> = ranked.iter().map(|c| c.chain.to_string()).collect();
        assert_eq!(order, ["c", "d", "b", "a"]);
    }
}
