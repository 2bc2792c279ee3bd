//! Budget policies: how much of the data a choice looks at, and how long its trials may take. Times are those of the
//! profile, so a policy is data, and equal inputs give equal choices.

use super::expected_speed;
use crate::plan::Candidate;
use knarr_array::goal::Goal;

/// As much as trials for a small variable may take, in times of its encoding, unless a program waits.
pub const PATIENT: f64 = 4.0;
/// Bytes that a choice without trials looks at: they only tell what a given chain will meet.
pub const PREDICTION_SAMPLE: usize = 8 << 10;
/// Bytes of a chunk that a choice for chunks in flight looks at.
pub const CHUNK_SAMPLE: usize = 256 << 10;

/// Seconds of one core that trials may take however small the data are, if size counts; for a variable times patience.
const LEAST: f64 = 0.0005;
/// Share of the time to encode a variable that trials may take, from this size on.
const SHARE: f64 = 0.02;
const LARGE: f64 = 64.0 * 1024.0 * 1024.0;
/// Trials for variables below so many bytes may take longer in proportion, at most so many times, if that is within
/// patience: what they are tried on is a larger part of them.
const SMALL: f64 = 2.0 * 1024.0 * 1024.0;
const LONGER: f64 = 2.0;
/// Times the ordinary time that a last round on a whole sample may take, and for small variables.
const ON_WHOLE: f64 = 0.5;
const ON_WHOLE_OF_SMALL: f64 = 1.5;
/// Trials of data that shrink very much, or repeat themselves far away, may take so many times as long as others, and so
/// many seconds of one core, by a profile that knows little of data that fast.
const UNUSUAL: f64 = 4.0;
const MOST_FOR_UNUSUAL: f64 = 0.03;
/// Bytes of the samples of a variable that features are computed from, and of each sample.
const FEATURES: usize = 768 << 10;
const FEATURES_EACH: usize = 256 << 10;
/// The same of a chunk in flight: fewer where size counts for nothing.
const FEATURES_OF_CHUNK: usize = 64 << 10;
const FEATURES_FOR_COST: usize = 8 << 10;
/// Times that the sample of a chunk may be encoded in a first choice, and where size counts for nothing: what trials take
/// is a part of what is to be saved.
const CHUNK_TRIALS: f64 = 6.0;
const CHUNK_TRIALS_FOR_COST: f64 = 1.0;
/// No more than so many times what the first chunk itself takes.
const OF_FIRST_CHUNK: f64 = 2.0;
/// Seconds for a first chunk however slow the candidates are: a dataset may have no more chunks than this one.
const MOST_FOR_CHUNK: f64 = 0.06;

/// A budget policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Nothing is tried; prediction decides.
    Prediction,
    /// The choice serves so many bytes of a whole variable. Choosing may take up to `patience` times as long as encoding
    /// it if it is small, and a small share if it is large.
    Variable {
        /// What the choice is for.
        bytes: u64,
        /// See [`PATIENT`].
        patience: f64,
    },
    /// The choice is for the first chunk of a dataset, of so many bytes: nothing was earned yet.
    FirstChunk {
        /// Size of the chunk.
        bytes: usize,
    },
    /// The choice is for a later chunk: trials may take so many seconds, which the chunks before it earned.
    Earned {
        /// By the profile.
        seconds: f64,
    },
}

/// Seconds of one core that trials may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Allowance {
    pub(super) usual: f64,
    /// For data that need a whole sample.
    pub(super) most: f64,
    /// For a last round of other data on a whole sample; none without.
    pub(super) whole: f64,
}

impl Budget {
    /// How long trials of `predicted`, best first, may take.
    pub(super) fn allowance(self, predicted: &[Candidate], goal: &Goal) -> Allowance {
        let seconds = |bytes: f64| bytes / 1e6 / expected_speed(predicted, goal);
        match self {
            Self::Prediction => Allowance { usual: 0.0, most: 0.0, whole: 0.0 },
            Self::Variable { bytes, patience } => {
                #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
                let size = bytes as f64;
                let encoding = seconds(size);
                let usual = (variable_share(size, patience) * encoding).max(LEAST * patience);
                let most = (UNUSUAL * patience * encoding).min(MOST_FOR_UNUSUAL).max(usual);
                let whole = usual * if size < SMALL { ON_WHOLE_OF_SMALL } else { ON_WHOLE };
                Allowance { usual, most, whole }
            }
            Self::FirstChunk { bytes } => {
                #[expect(clippy::cast_precision_loss, reason = "sizes of chunks are far below 2^52")]
                let bytes = chunk_trials(goal, bytes).min(OF_FIRST_CHUNK * bytes as f64);
                let least = if goal.weighs_size() { LEAST } else { 0.0 };
                Allowance { usual: seconds(bytes).clamp(least, MOST_FOR_CHUNK), most: 0.0, whole: 0.0 }
            }
            Self::Earned { seconds } => Allowance { usual: seconds, most: 0.0, whole: 0.0 },
        }
    }

    /// Bytes of the samples that features are computed from, and the least of each sample.
    pub(super) fn features(self, goal: &Goal) -> (usize, usize) {
        match self {
            Self::Prediction => (PREDICTION_SAMPLE, PREDICTION_SAMPLE / 3),
            Self::Variable { .. } => (FEATURES, FEATURES_EACH),
            Self::FirstChunk { .. } | Self::Earned { .. } => {
                let bytes = if goal.weighs_size() { FEATURES_OF_CHUNK } else { FEATURES_FOR_COST };
                (bytes, bytes)
            }
        }
    }
}

/// Bytes that a first choice for chunks of `bytes` may encode in trials.
#[expect(clippy::cast_precision_loss, reason = "sizes of chunks are far below 2^52")]
pub fn chunk_trials(goal: &Goal, bytes: usize) -> f64 {
    let times = if goal.weighs_size() { CHUNK_TRIALS } else { CHUNK_TRIALS_FOR_COST };
    times * bytes.min(CHUNK_SAMPLE) as f64
}

/// Share of a variable's own encoding time that trials may take: 2 % for 64 MiB and more, growing for smaller
/// variables, where a wrong choice costs little time and few bytes either way: up to `most`.
fn variable_share(bytes: f64, most: f64) -> f64 {
    let size = bytes.max(1.0);
    let longer = (SMALL / size).clamp(1.0, LONGER);
    (longer * SHARE * LARGE / size).clamp(SHARE, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_variables_give_little_time_to_trials() {
        assert_eq!(variable_share(1e9, PATIENT), 0.02);
        assert_eq!(variable_share(LARGE, 0.5), 0.02);
        assert_eq!(variable_share(1000.0, PATIENT), PATIENT);
        assert_eq!(variable_share(1000.0, 0.5), 0.5);
        assert!(variable_share(SMALL / 2.0, PATIENT) > 3.9 * variable_share(SMALL, PATIENT));
    }
}
