//! What a level will do with the next data of one kind, learned from each that came before, and how good that was.

use serde::{Deserialize, Serialize};

/// Weight of the newest error in a correction.
const NEWEST: f64 = 0.4;

/// A quantity that is predicted, by a factor on what a model expects. Logarithms: half and twice are equally wrong.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Correction {
    log: f64,
    seen: u32,
}

impl Correction {
    /// What is expected where the model expects `expected`.
    pub fn predict(&self, expected: f64) -> f64 {
        expected * self.log.exp()
    }

    /// It was `actual`.
    pub fn learn(&mut self, expected: f64, actual: f64) {
        let error = (actual.max(f64::MIN_POSITIVE) / expected.max(f64::MIN_POSITIVE)).ln();
        if !error.is_finite() {
            return;
        }
        let weight = if self.seen == 0 { 1.0 } else { NEWEST };
        self.log += weight * (error - self.log);
        self.seen += 1;
    }

    /// How often something was learned.
    pub fn seen(&self) -> u32 {
        self.seen
    }
}

/// How well a quantity was predicted, each time before it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Prequential {
    count: u64,
    mean: f64,
    /// Sums of squares: of the values around their mean, and of the errors.
    spread: f64,
    errors: f64,
}

impl Prequential {
    /// `predicted` was said, and then `actual` was seen.
    pub fn add(&mut self, predicted: f64, actual: f64) {
        let (predicted, actual) = (predicted.max(f64::MIN_POSITIVE).ln(), actual.max(f64::MIN_POSITIVE).ln());
        self.count += 1;
        let before = actual - self.mean;
        self.mean += before / self.count as f64;
        self.spread += before * (actual - self.mean);
        self.errors += (actual - predicted).powi(2);
    }

    /// The part of the spread of the logarithms that the predictions explain: 1 if all were right; `None` before there is any
    /// spread.
    pub fn r_squared(&self) -> Option<f64> {
        (self.spread > 0.0).then(|| 1.0 - self.errors / self.spread)
    }

    /// By what part of a value predictions were wrong, as the root of the mean square: 0.1 for a tenth. `None` before there was one.
    pub fn error(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.errors / self.count as f64).sqrt().exp_m1())
    }

    /// How many were predicted.
    pub fn count(&self) -> u64 {
        self.count
    }
}
