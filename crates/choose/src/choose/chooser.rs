//! The chooser: what the chains that may serve some data are worth under a goal, best first. Everything that chooses a
//! chain asks it: whole variables, chunks in flight, classes of a checkpoint set. They differ in their budget policy.
//! Pure: no clock, no files, no threads.

use super::budget::{Allowance, Budget};
use super::candidates::with_bound;
use super::look::look;
use super::rounds::{Trials, run_rounds};
use super::sample::cut_samples;
use super::trial::{TrialSet, trial};
use super::{predict, rank, score_trials};
use crate::plan::Candidate;
use crate::predictor::{Beliefs, Predictor, Subject};
use crate::profile::{Profile, SpeedFactors};
use knarr_array::array::ArraySpec;
use knarr_array::goal::Goal;
use knarr_array::quality::Bound;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;

/// What choices are made by.
#[derive(Clone, Copy)]
pub struct Chooser<'a> {
    /// Codecs to try with.
    pub codecs: &'a CodecList,
    /// Where speeds come from.
    pub profile: &'a Profile,
    /// What is expected of chains.
    pub predictor: &'a Predictor,
    /// What scores.
    pub goal: &'a Goal,
    /// Bound that lossy chains must keep.
    pub bound: Option<&'a Bound>,
}

/// One choice to be made.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// Chains to choose from; earlier ones win ties.
    pub chains: &'a [ChainSpec],
    /// Chains that cannot be chosen and that something is to be expected of all the same.
    pub beyond: &'a [ChainSpec],
    /// What the data look like ([`Chooser::look`]).
    pub subject: &'a Subject,
    /// What other data of the same origin taught, perhaps under other bounds.
    pub learnt: Option<&'a Beliefs>,
    /// How long trials may take.
    pub budget: Budget,
}

/// The answer.
#[derive(Debug, Clone)]
pub struct Ranked {
    /// Candidates, best first: what was tried and serves, what was not tried, what does not serve.
    pub candidates: Vec<Candidate>,
    /// The same for the chains beyond, by prediction before any trial.
    pub beyond: Vec<Candidate>,
    /// What is believed of all chains after the trials.
    pub beliefs: Beliefs,
    /// Bytes of samples that the last round looked at.
    pub sample_bytes: u64,
    /// Seconds of one core that trials were allowed.
    pub seconds: f64,
}

impl Chooser<'_> {
    /// What prediction needs to know of `samples`, as far as `budget` allows a look at them.
    pub fn look(&self, samples: &[(ArraySpec, Vec<u8>)], budget: Budget) -> Subject {
        let (most, each) = budget.features(self.goal);
        look(self.codecs, &cut_samples(samples, most, each), self.bound)
    }

    /// Ranks the chains in question by trials on `samples`.
    pub fn choose(&self, question: Question<'_>, samples: &[(ArraySpec, Vec<u8>)]) -> Ranked {
        let (codecs, profile, goal, bound) = (self.codecs, self.profile, self.goal, self.bound);
        self.ask(question, |predicted, beliefs, allowance| {
            let Allowance { usual: budget, most, whole } = allowance;
            let trials = Trials { codecs, profile, goal, bound, budget, most, whole };
            run_rounds(trials, predicted, beliefs, samples)
        })
    }

    /// As [`Self::choose`], with one round of trials on `bytes` whose results are known: `run` tells them.
    pub fn replay(&self, question: Question<'_>, bytes: usize, run: &dyn Fn(&ChainSpec) -> TrialSet) -> Ranked {
        let (codecs, profile, goal, bound) = (self.codecs, self.profile, self.goal, self.bound);
        self.ask(question, |predicted, beliefs, allowance| {
            let trials = Trials { codecs, profile, goal, bound, budget: allowance.usual, most: 0.0, whole: 0.0 };
            (trials.narrow(predicted, beliefs, bytes, run), bytes as u64)
        })
    }

    /// All of `chains`, each tried on all of `samples`, best first: for a few chains which no model knows, as those for
    /// classes of a checkpoint set.
    pub fn try_all(&self, chains: &[ChainSpec], samples: &[(ArraySpec, Vec<u8>)]) -> Vec<Candidate> {
        rank(chains.iter().map(|chain| self.tried(chain, samples)).collect())
    }

    /// What `chain` reaches on all of `samples`, at the times of the profile.
    pub fn tried(&self, chain: &ChainSpec, samples: &[(ArraySpec, Vec<u8>)]) -> Candidate {
        let tried = trial(self.codecs, chain, samples, self.bound);
        let pace = SpeedFactors::default();
        let merits = self.profile.paced_merits(self.codecs, chain, tried.ratio, pace);
        let untried = Candidate {
            chain: chain.clone(),
            merits,
            predicted_ratio: tried.ratio,
            pace,
            tried_ratio: None,
            score: 0.0,
            dropped: None,
            observed: None,
        };
        score_trials(untried, tried, self.goal, self.profile, self.codecs)
    }

    fn ask(
        &self,
        question: Question<'_>,
        trials: impl FnOnce(Vec<Candidate>, &mut Beliefs, Allowance) -> (Vec<Candidate>, u64),
    ) -> Ranked {
        let Question { chains, beyond, subject, learnt, budget } = question;
        let all: Vec<ChainSpec> = chains.iter().chain(beyond).cloned().collect();
        let mut outlook = self.predictor.outlook(&all, subject);
        if let Some(learnt) = learnt {
            let named = |chain: &ChainSpec| self.bound.map_or_else(|| chain.clone(), |bound| with_bound(chain, bound));
            outlook.beliefs.learn_from(learnt, named);
        }
        let (own, others) = outlook.paces.split_at(chains.len());
        let of = |chains, paces| predict(chains, &outlook.beliefs, paces, self.goal, self.profile, self.codecs);
        let (predicted, beyond) = (of(chains, own), of(beyond, others));
        let allowance = budget.allowance(&predicted, self.goal);
        let (candidates, sample_bytes) = match budget {
            Budget::Prediction => (predicted, 0),
            _ => trials(predicted, &mut outlook.beliefs, allowance),
        };
        Ranked { candidates, beyond, beliefs: outlook.beliefs, sample_bytes, seconds: allowance.usual }
    }
}
