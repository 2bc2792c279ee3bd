//! Predictions.

use super::super::forecast::{Correction, Prequential};
use super::Random;

#[test]
fn what_differs_by_a_factor_is_predicted_from_the_second_on() {
    let mut correction = Correction::default();
    assert_eq!(correction.predict(10.0), 10.0);
    correction.learn(10.0, 30.0);
    assert!((correction.predict(10.0) - 30.0).abs() < 1e-9 && (correction.predict(2.0) - 6.0).abs() < 1e-9);
    correction.learn(10.0, f64::INFINITY);
    assert_eq!(correction.seen(), 1);
    for _ in 0..20 {
        correction.learn(10.0, 5.0);
    }
    assert!((correction.predict(10.0) - 5.0).abs() < 0.01);
}

#[test]
fn the_measure_is_that_of_the_formula() {
    let mut random = Random(7);
    let pairs: Vec<(f64, f64)> = (0..500)
        .map(|_| {
            let actual = random.between(1.0, 8.0);
            (actual * random.between(0.9, 1.1), actual)
        })
        .collect();
    let mut all = Prequential::default();
    assert_eq!(all.r_squared(), None);
    for (predicted, actual) in &pairs {
        all.add(*predicted, *actual);
    }
    let mean = pairs.iter().map(|(_, actual)| actual.ln()).sum::<f64>() / 500.0;
    let spread: f64 = pairs.iter().map(|(_, actual)| (actual.ln() - mean).powi(2)).sum();
    let errors: f64 = pairs.iter().map(|(predicted, actual)| (actual.ln() - predicted.ln()).powi(2)).sum();
    let expected = 1.0 - errors / spread;
    assert!((all.r_squared().unwrap() - expected).abs() < 1e-9);
    assert!(all.count() == 500 && expected > 0.95, "{expected}");
    // Up to a tenth, evenly.
    assert!((all.error().unwrap() - 0.1 / 3.0_f64.sqrt()).abs() < 0.005, "{:?}", all.error());
    assert_eq!(Prequential::default().error(), None);
}
