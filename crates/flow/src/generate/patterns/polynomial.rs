//! Polynomials of the coordinates, with random coefficients.

use super::{count, fraction};
use crate::generate::{Asked, Field, Pattern, Stream};
use knarr_array::error::Result;
use knarr_codec::codec::{OptionDoc, OptionKind};

pub(super) struct Polynomial;

impl Pattern for Polynomial {
    fn name(&self) -> &'static str {
        "polynomial"
    }

    fn summary(&self) -> &'static str {
        "a sum of one polynomial of random coefficients per axis and their product"
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc {
            name: "degree",
            kind: OptionKind::Int { min: 0, max: 16, default: Some(4) },
            doc: "degree along each axis",
        }]
    }

    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>> {
        let degree = u64::from(count(asked.options, "degree")?);
        let stream = Stream::new(asked.seed, "polynomial");
        let axes = (0..asked.shape.len() as u64).map(|axis| {
            let own = stream.of(axis);
            (0..=degree).map(|power| own.between(power, -1.0, 1.0)).collect()
        });
        Ok(Box::new(Sum { axes: axes.collect(), shape: asked.shape.to_vec() }))
    }
}

struct Sum {
    /// Coefficients of each axis, of the constant first.
    axes: Vec<Vec<f64>>,
    shape: Vec<u64>,
}

/// The polynomial at `fraction` of its axis, divided by the most it can be: in [-1, 1].
fn value(coefficients: &[f64], fraction: f64) -> f64 {
    let x = 2.0 * fraction - 1.0;
    let most: f64 = coefficients.iter().map(|c| c.abs()).sum();
    let sum = coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient);
    if most > 0.0 { sum / most } else { 0.0 }
}

impl Field for Sum {
    fn row(&self, start: &[u64], out: &mut [f64]) {
        let outer: Vec<f64> = start
            .iter()
            .zip(&self.shape)
            .zip(&self.axes)
            .rev()
            .skip(1)
            .map(|((i, n), coefficients)| value(coefficients, fraction(*i, *n)))
            .collect();
        let (sum, product) = (outer.iter().sum::<f64>(), outer.iter().product::<f64>());
        let (first, extent) = (start.last().copied().unwrap_or(0), self.shape.last().copied().unwrap_or(1));
        let coefficients = self.axes.last().map(Vec::as_slice).unwrap_or_default();
        let terms = self.axes.len() as f64 + 1.0;
        for (i, out) in out.iter_mut().enumerate() {
            let own = value(coefficients, fraction(first + i as u64, extent));
            *out = 0.5 + 0.5 * (sum + own + product * own) / terms;
        }
    }
}
