//! What is believed of the ratios that chains will reach on one kind of data, and what a ratio that one of them did
//! reach says about the others.
//!
//! The logarithms of the ratios are taken as jointly normal. That makes learning from an observation a few sums of
//! products in a fixed order: the same on every machine, and exact.

use knarr_codec::chain::ChainSpec;

/// Standard deviation of what a ratio on a part of the data says about the whole, in its logarithm.
const NOISE: f64 = 0.05;
/// Share of what was off for one kind of data that is off for another of the same origin.
const SHARED: f64 = 0.7;

/// Beliefs about the logarithms of the ratios of some chains.
#[derive(Debug, Clone, PartialEq)]
pub struct Beliefs {
    chains: Vec<ChainSpec>,
    /// What the features alone say.
    predicted: Vec<f64>,
    /// What the features and all observations say.
    mean: Vec<f64>,
    /// Row by row.
    covariance: Vec<f64>,
}

impl Beliefs {
    /// Beliefs before any observation. `covariance` holds a row for each chain.
    pub(super) fn new(chains: Vec<ChainSpec>, predicted: Vec<f64>, covariance: Vec<f64>) -> Self {
        Self { mean: predicted.clone(), chains, predicted, covariance }
    }

    /// Expected ratio of `chain`; 1 if nothing is believed of it.
    pub fn ratio(&self, chain: &ChainSpec) -> f64 {
        self.position(chain).and_then(|at| self.mean.get(at)).map_or(1.0, |mean| mean.exp())
    }

    /// Standard deviation of the logarithm of the ratio of `chain`.
    pub fn doubt(&self, chain: &ChainSpec) -> f64 {
        self.position(chain).map_or(0.0, |at| self.covariance_of(at, at).max(0.0).sqrt())
    }

    /// Learns that `chain` reached `ratio` on a part of the data.
    pub fn observe(&mut self, chain: &ChainSpec, ratio: f64) {
        let Some(at) = self.position(chain) else { return };
        let (Some(mean), true) = (self.mean.get(at).copied(), ratio > 0.0) else { return };
        let surprise = ratio.ln() - mean;
        let variance = self.covariance_of(at, at).max(0.0) + NOISE * NOISE;
        let row: Vec<f64> = (0..self.chains.len()).map(|other| self.covariance_of(at, other)).collect();
        for (mean, covariance) in self.mean.iter_mut().zip(&row) {
            *mean += covariance / variance * surprise;
        }
        for (of_one, a) in self.covariance.chunks_exact_mut(row.len().max(1)).zip(&row) {
            for (entry, b) in of_one.iter_mut().zip(&row) {
                *entry -= a * b / variance;
            }
        }
    }

    /// The same beliefs with doubts that are larger by `factor`.
    #[must_use]
    pub fn doubted(&self, factor: f64) -> Self {
        let covariance = self.covariance.iter().map(|entry| factor * factor * entry).collect();
        Self { covariance, ..self.clone() }
    }

    /// The same beliefs about other data of the same kind: the logarithm of the ratio of each chain may be off by a
    /// standard deviation of `by`, independently of the others.
    #[must_use]
    pub fn blurred(&self, by: impl Fn(&ChainSpec) -> f64) -> Self {
        let mut blurred = self.clone();
        for (at, chain) in self.chains.iter().enumerate() {
            if let Some(variance) = blurred.covariance.get_mut(at * (self.chains.len() + 1)) {
                *variance += by(chain).powi(2);
            }
        }
        blurred
    }

    /// Takes over what `others`, of data of the same origin, were taught; `renamed` says what their chains are called
    /// here. Chains that they do not know stay as they are.
    pub fn learn_from(&mut self, others: &Self, renamed: impl Fn(&ChainSpec) -> ChainSpec) {
        let theirs: Vec<ChainSpec> = others.chains.iter().map(renamed).collect();
        let position = |chain: &ChainSpec| theirs.iter().position(|known| known == chain);
        let known: Vec<Option<usize>> = self.chains.iter().map(position).collect();
        for (mean, at) in self.mean.iter_mut().zip(&known) {
            let taught = at.and_then(|at| Some(others.mean.get(at)? - others.predicted.get(at)?));
            *mean += SHARED * taught.unwrap_or(0.0);
        }
        let count = self.chains.len().max(1);
        for (of_one, a) in self.covariance.chunks_exact_mut(count).zip(&known) {
            for (entry, b) in of_one.iter_mut().zip(&known) {
                if let (Some(a), Some(b)) = (a, b) {
                    *entry = (1.0 - SHARED * SHARED) * *entry + SHARED * SHARED * others.covariance_of(*a, *b);
                }
            }
        }
    }

    fn position(&self, chain: &ChainSpec) -> Option<usize> {
        self.chains.iter().position(|known| known == chain)
    }

    fn covariance_of(&self, a: usize, b: usize) -> f64 {
        self.covariance.get(a * self.chains.len() + b).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(text: &str) -> ChainSpec {
        text.parse().unwrap()
    }

    /// Two chains that go together and one of its own.
    fn beliefs() -> Beliefs {
        let covariance = vec![0.25, 0.24, 0.0, 0.24, 0.25, 0.0, 0.0, 0.0, 0.25];
        Beliefs::new(vec![chain("zstd:1"), chain("zstd:3"), chain("lz4")], vec![0.0, 0.1, 0.0], covariance)
    }

    #[test]
    fn one_chain_teaches_about_those_that_go_with_it() {
        let mut beliefs = beliefs();
        beliefs.observe(&chain("zstd:1"), 2.0);
        assert!((beliefs.ratio(&chain("zstd:1")) - 2.0).abs() < 0.02);
        assert!((beliefs.ratio(&chain("zstd:3")) / 2.1).ln().abs() < 0.06, "{beliefs:?}");
        assert!(beliefs.doubt(&chain("zstd:3")) < 0.16 && beliefs.doubt(&chain("zstd:1")) < 0.051);
        assert_eq!((beliefs.ratio(&chain("lz4")), beliefs.doubt(&chain("lz4"))), (1.0, 0.5));
    }

    #[test]
    fn what_was_taught_is_kept_for_other_data_with_less_trust() {
        let (mut old, mut new) = (beliefs(), beliefs());
        old.observe(&chain("zstd:1"), 2.0);
        new.learn_from(&old, Clone::clone);
        let ratio = new.ratio(&chain("zstd:1"));
        assert!(1.5 < ratio && ratio < 2.0, "{ratio}");
        let doubt = new.doubt(&chain("zstd:1"));
        assert!(0.05 < doubt && doubt < 0.5, "{doubt}");
        let mut alone = beliefs();
        alone.learn_from(&Beliefs::new(Vec::new(), Vec::new(), Vec::new()), Clone::clone);
        assert_eq!(alone, beliefs());
    }

    #[test]
    fn blurred_beliefs_expect_the_same_with_more_doubt() {
        let mut told = beliefs();
        told.observe(&chain("zstd:1"), 2.0);
        let blurred = told.blurred(|chain| if chain.to_string() == "lz4" { 0.0 } else { 0.3 });
        for name in ["zstd:1", "zstd:3", "lz4"] {
            assert_eq!(blurred.ratio(&chain(name)), told.ratio(&chain(name)));
        }
        assert!(blurred.doubt(&chain("zstd:1")) > 0.29 && blurred.doubt(&chain("lz4")) == told.doubt(&chain("lz4")));
    }

    #[test]
    fn what_is_not_known_changes_nothing() {
        let mut told = beliefs();
        told.observe(&chain("grid"), 9.0);
        told.observe(&chain("lz4"), 0.0);
        assert_eq!(told, beliefs());
        assert_eq!((told.ratio(&chain("grid")), told.doubt(&chain("grid"))), (1.0, 0.0));
    }

    #[test]
    fn doubt_never_turns_negative() {
        let mut beliefs = beliefs();
        for _ in 0..2000 {
            beliefs.observe(&chain("zstd:1"), 2.0);
            beliefs.observe(&chain("zstd:3"), 2.3);
        }
        for name in ["zstd:1", "zstd:3", "lz4"] {
            let doubt = beliefs.doubt(&chain(name));
            assert!(doubt.is_finite() && doubt >= 0.0, "{name} {doubt}");
        }
    }
}
