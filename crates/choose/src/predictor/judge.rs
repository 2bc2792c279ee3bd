//! How good a model is on families that it did not see.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use super::{Measured, Outlook, Predictor, Record, Subject, fit};
use crate::profile::{Profile, SpeedFactors};
use knarr_array::error::Result;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;

/// How well one target is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Share of the variance of the logarithm within each chain that is explained: what is needed to tell data apart.
    /// Below 0 if the mean of the chain would be better.
    pub r2: f64,
    /// Typical factor by which predictions are off: the exponential of the root of the mean square.
    pub factor: f64,
}

/// Quality for each target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Raw over encoded bytes.
    pub ratio: Quality,
    /// Time to encode.
    pub encode: Quality,
    /// Time to decode.
    pub decode: Quality,
}

/// Trains a model for each family from `records` of all other families, starting from `base`.
///
/// # Errors
/// As for [`fit`].
pub fn hold_out(
    records: &[Record],
    base: &Predictor,
    profile: &Profile,
    codecs: &CodecList,
) -> Result<BTreeMap<String, Predictor>> {
    let families: BTreeSet<&String> = records.iter().map(|record| &record.family).collect();
    families
        .into_iter()
        .map(|family| {
            let others: Vec<Record> = records.iter().filter(|record| record.family != *family).cloned().collect();
            Ok((family.clone(), fit(&others, base, &format!("all but {family}"), profile, codecs)?))
        })
        .collect()
}

/// Compares what the model that `model_for` names for a family expects with what was measured. Every family counts the
/// same.
pub fn judge<'a>(
    records: &[Record],
    model_for: impl Fn(&str) -> &'a Predictor,
    profile: &Profile,
    codecs: &CodecList,
) -> Judged {
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    records.iter().for_each(|record| *sizes.entry(&record.family).or_default() += 1.0);
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for record in records {
        let chains: Vec<ChainSpec> = record.chains.iter().map(|measured| measured.chain.clone()).collect();
        let subject = Subject { features: record.features.clone(), rounded: None };
        let Outlook { beliefs, paces } = model_for(&record.family).outlook(&chains, &subject);
        let weight = 1.0 / sizes.get(record.family.as_str()).copied().unwrap_or(1.0);
        for (measured, pace) in record.chains.iter().zip(paces) {
            rows.entry(measured.chain.to_string()).or_default().push(Row::of(
                measured,
                beliefs.ratio(&measured.chain),
                pace,
                weight,
                profile,
                codecs,
            ));
        }
    }
    let [ratio, encode, decode] = std::array::from_fn(|target| quality(rows.values(), target));
    Judged { ratio, encode, decode }
}

/// Logarithms of what was measured and expected: ratio, time to encode, time to decode.
struct Row {
    weight: f64,
    measured: [f64; 3],
    expected: [f64; 3],
}

impl Row {
    fn of(
        measured: &Measured,
        ratio: f64,
        pace: SpeedFactors,
        weight: f64,
        profile: &Profile,
        codecs: &CodecList,
    ) -> Self {
        let merits = profile.paced_merits(codecs, &measured.chain, ratio, pace);
        Self {
            weight,
            measured: [measured.ratio.min(super::RATIOS.1).ln(), -measured.encode.ln(), -measured.decode.ln()],
            expected: [ratio.ln(), -merits.encode.ln(), -merits.decode.ln()],
        }
    }
}

fn quality<'a>(chains: impl Iterator<Item = &'a Vec<Row>>, target: usize) -> Quality {
    let (mut weights, mut errors, mut variance) = (0.0, 0.0, 0.0);
    for rows in chains {
        let total: f64 = rows.iter().map(|row| row.weight).sum();
        let mean = rows.iter().map(|row| row.weight * row.measured[target]).sum::<f64>() / total;
        for row in rows {
            weights += row.weight;
            errors += row.weight * (row.measured[target] - row.expected[target]).powi(2);
            variance += row.weight * (row.measured[target] - mean).powi(2);
        }
    }
    Quality { r2: 1.0 - errors / variance.max(1e-12), factor: (errors / f64::max(weights, 1e-12)).sqrt().exp() }
}
