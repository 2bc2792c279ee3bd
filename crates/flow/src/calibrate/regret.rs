//! What choices lose against the best of all candidates, on recorded samples.

use knarr_array::goal::Goal;
use knarr_choose::choose::{Budget, Chooser, PATIENT, Question, TrialSet};
use knarr_choose::plan::Candidate;
use knarr_choose::predictor::{Measured, Predictor, Record, Subject};
use knarr_choose::profile::Profile;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;

/// Bytes of the variable that a record is taken for when it says how long trials may take: the largest share.
const VARIABLE: u64 = 64 << 20;
/// Bytes that each trial takes, as the first round does on large variables.
const TRIAL: u64 = 64 << 10;

/// What was lost on one record: 0.01 is one per cent of what the goal weighs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regret {
    /// By the chain that prediction alone puts first.
    pub predicted: f64,
    /// By the best of those that trials of 2 % of the time of a large variable look at.
    pub tried: f64,
}

/// What choosing for `record` with `predictor` loses. Merits, of the choice and of the best, are those measured.
pub fn regret(record: &Record, predictor: &Predictor, goal: &Goal, profile: &Profile, codecs: &CodecList) -> Regret {
    let chains: Vec<ChainSpec> = record.chains.iter().map(|measured| measured.chain.clone()).collect();
    let measured = |chain: &ChainSpec| record.chains.iter().find(|measured| measured.chain == *chain);
    let score =
        |measured: &Measured| goal.score(&profile.merits_of_speeds(measured.ratio, measured.encode, measured.decode));
    let best = record.chains.iter().map(score).fold(f64::NEG_INFINITY, f64::max);
    let lost = |chain: Option<&ChainSpec>| chain.and_then(measured).map_or(0.0, |measured| best - score(measured));
    let subject = Subject { features: record.features.clone(), rounded: None };
    let chooser = Chooser { codecs, profile, predictor, goal, bound: None };
    let question =
        Question { chains: &chains, beyond: &[], subject: &subject, learnt: None, budget: Budget::Prediction };
    let predicted = chooser.choose(question, &[]);
    let question = Question { budget: Budget::Variable { bytes: VARIABLE, patience: PATIENT }, ..question };
    let run = |chain: &ChainSpec| TrialSet {
        ratio: measured(chain).map_or(1.0, |measured| measured.ratio),
        observed: None,
        failed: None,
    };
    let bytes = usize::try_from(record.bytes.min(TRIAL)).unwrap_or(0);
    let tried = chooser.replay(question, bytes, &run);
    let lost = |candidates: &[Candidate]| lost(candidates.first().map(|candidate| &candidate.chain));
    Regret { predicted: lost(&predicted.candidates), tried: lost(&tried.candidates) }
}
