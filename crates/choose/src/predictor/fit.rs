//! Training: weights by ridge regression, chain by chain, and covariances of what samples of families that a model did
//! not see leave unexplained.

use nalgebra::{Cholesky, DMatrix, DVector};
use std::collections::{BTreeMap, BTreeSet};

use super::{FARTHEST, INPUTS, Outlook, PACES, Predictor, RATIOS, Record, Subject, VERSION, Weights, inputs};
use crate::profile::{Profile, SpeedFactors};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;

/// Penalty on weights, in families: so many must agree before much is believed.
const RIDGE: f64 = 3.0;
/// The same for the constant of a chain that the model to start from knows.
const RIDGE_CONSTANT: f64 = 0.5;
/// Families left out together, at most so many times.
const FOLDS: usize = 40;
/// Families that the covariances of the model to start from are worth.
const WORTH: f64 = 10.0;
/// Share of covariances between chains that is taken as chance.
const CHANCE: f64 = 0.1;
/// A chain that fewer samples tell of is left out.
const LEAST_SAMPLES: usize = 8;
/// Families that training needs.
const LEAST_FAMILIES: usize = 3;

/// Trains a model that says of `records` what chains made of them, starting from `base`: what the records say little
/// about stays as it is there.
///
/// # Errors
/// `Usage` if there are too few samples; `Internal` if the regression fails.
pub fn fit(
    records: &[Record],
    base: &Predictor,
    name: &str,
    profile: &Profile,
    codecs: &CodecList,
) -> Result<Predictor> {
    let lessons = Lessons::of(records, base, profile, codecs);
    let families: BTreeSet<&str> = lessons.list.iter().map(|lesson| lesson.family).collect();
    if families.len() < LEAST_FAMILIES {
        let what = match families.len() {
            0 => "the files hold nothing to learn from: no variables of numbers that are large enough".to_owned(),
            1 => "one file or variable is too little to learn from".to_owned(),
            many => format!("{many} files or variables are too little to learn from"),
        };
        return Err(Error::new(ErrorKind::Usage, what)
            .hint(format!("give at least {LEAST_FAMILIES} files, or a file with more variables")));
    }
    let chains = lessons.chains();
    let everything = lessons.weights(&chains, |_| true)?;
    let mut left = vec![BTreeMap::new(); lessons.list.len()];
    for fold in folds(&families) {
        let weights = lessons.weights(&chains, |family| !fold.contains(family))?;
        for (lesson, left) in lessons.list.iter().zip(&mut left).filter(|(lesson, _)| fold.contains(lesson.family)) {
            *left = lesson.unexplained(&weights);
        }
    }
    let mut model = Predictor {
        version: VERSION,
        name: name.to_owned(),
        samples: base.samples + lessons.list.len() as u64,
        families: base.families + families.len() as u64,
        inputs: INPUTS.map(str::to_owned).to_vec(),
        center: lessons.center.clone(),
        spread: lessons.spread.clone(),
        chains: base.chains.clone(),
        covariance: Vec::new(),
    };
    for (chain, weights) in everything {
        let known = model.chains.entry(chain).or_insert_with(Weights::nothing);
        for (known, learnt) in known.lists().into_iter().zip([weights.ratio, weights.encode, weights.decode]) {
            known.iter_mut().zip(learnt).for_each(|(known, learnt)| *known = significant(*known + learnt));
        }
    }
    model.covariance = covariance(&model, base, &lessons, &left);
    Ok(model)
}

/// Families that are left out together.
fn folds<'a>(families: &BTreeSet<&'a str>) -> Vec<BTreeSet<&'a str>> {
    let count = families.len().clamp(1, FOLDS);
    let mut folds = vec![BTreeSet::new(); count];
    for (at, family) in families.iter().enumerate() {
        folds[at % count].insert(*family);
    }
    folds
}

/// What is off in what `base` expects of the records.
struct Lessons<'a> {
    list: Vec<Lesson<'a>>,
    center: Vec<f64>,
    spread: Vec<f64>,
    base: &'a Predictor,
}

/// What is off for one record.
struct Lesson<'a> {
    family: &'a str,
    /// Standardised inputs behind a 1.
    inputs: Vec<f64>,
    /// A small family counts more than its samples, a large one less.
    weight: f64,
    /// Logarithms of ratio, time to encode and time to decode over what is expected, by chain.
    off: BTreeMap<String, [f64; 3]>,
}

impl<'a> Lessons<'a> {
    fn of(records: &'a [Record], base: &'a Predictor, profile: &Profile, codecs: &CodecList) -> Self {
        let usable: Vec<(&Record, Vec<f64>)> =
            records.iter().filter_map(|record| Some((record, inputs(&record.features)?.to_vec()))).collect();
        let mut sizes = BTreeMap::new();
        for (record, _) in &usable {
            *sizes.entry(record.family.as_str()).or_insert(0.0) += 1.0;
        }
        let weight = |record: &Record| 1.0 / f64::sqrt(sizes.get(record.family.as_str()).copied().unwrap_or(1.0));
        let (center, spread) = if base.chains.is_empty() {
            scales(&usable.iter().map(|(record, inputs)| (weight(record), inputs.as_slice())).collect::<Vec<_>>())
        } else {
            (base.center.clone(), base.spread.clone())
        };
        let mut list: Vec<Lesson<'_>> = usable
            .iter()
            .map(|(record, inputs)| {
                let scales = center.iter().zip(&spread);
                let z = inputs.iter().zip(scales).map(|(x, (c, s))| ((x - c) / s).clamp(-FARTHEST, FARTHEST));
                Lesson {
                    family: &record.family,
                    inputs: std::iter::once(1.0).chain(z).collect(),
                    weight: weight(record),
                    off: off(record, base, profile, codecs),
                }
            })
            .collect();
        // How fast the machine is, is the profile's business: what is common to all times is taken away.
        let times = || list.iter().flat_map(|lesson| lesson.off.values().map(|[_, encode, decode]| encode + decode));
        #[expect(clippy::cast_precision_loss, reason = "some thousands of measurements")]
        let common = times().sum::<f64>() / (2 * times().count()).max(1) as f64;
        for [_, encode, decode] in list.iter_mut().flat_map(|lesson| lesson.off.values_mut()) {
            let limit = PACES.1.ln();
            (*encode, *decode) = ((*encode - common).clamp(-limit, limit), (*decode - common).clamp(-limit, limit));
        }
        Self { list, center, spread, base }
    }

    /// Chains that enough samples tell of.
    fn chains(&self) -> Vec<String> {
        let mut counts = BTreeMap::new();
        for chain in self.list.iter().flat_map(|lesson| lesson.off.keys()) {
            *counts.entry(chain).or_insert(0usize) += 1;
        }
        counts.into_iter().filter(|(_, count)| *count >= LEAST_SAMPLES).map(|(chain, _)| chain.clone()).collect()
    }

    /// Weights of each chain that explain best what is off for the families that `takes` names.
    fn weights(&self, chains: &[String], takes: impl Fn(&str) -> bool) -> Result<BTreeMap<String, Weights>> {
        let size = INPUTS.len() + 1;
        let solve = |chain: &String| -> Result<Weights> {
            let constant = if self.base.chains.contains_key(chain) { RIDGE_CONSTANT } else { 1e-6 };
            let mut squares = DMatrix::from_diagonal_element(size, size, RIDGE);
            squares[(0, 0)] = constant;
            let mut products: [DVector<f64>; 3] = std::array::from_fn(|_| DVector::zeros(size));
            for lesson in self.list.iter().filter(|lesson| takes(lesson.family)) {
                let Some(off) = lesson.off.get(chain) else { continue };
                let x = DVector::from_column_slice(&lesson.inputs);
                squares.ger(lesson.weight, &x, &x, 1.0);
                for (products, off) in products.iter_mut().zip(off) {
                    products.axpy(lesson.weight * off, &x, 1.0);
                }
            }
            let solver = Cholesky::new(squares).ok_or_else(|| Error::internal("the regression has no solution"))?;
            let [ratio, encode, decode] = products.map(|products| solver.solve(&products).as_slice().to_vec());
            Ok(Weights { ratio, encode, decode })
        };
        chains.iter().map(|chain| Ok((chain.clone(), solve(chain)?))).collect()
    }
}

impl Lesson<'_> {
    /// What is left of the logarithms of the ratios.
    fn unexplained(&self, weights: &BTreeMap<String, Weights>) -> BTreeMap<String, f64> {
        let known = self.off.iter().filter_map(|(chain, off)| Some((chain, off, weights.get(chain)?)));
        known.map(|(chain, [ratio, ..], weights)| (chain.clone(), ratio - dot(&weights.ratio, &self.inputs))).collect()
    }
}

impl Weights {
    fn nothing() -> Self {
        let zeros = vec![0.0; INPUTS.len() + 1];
        Self { ratio: zeros.clone(), encode: zeros.clone(), decode: zeros }
    }

    fn lists(&mut self) -> [&mut Vec<f64>; 3] {
        [&mut self.ratio, &mut self.encode, &mut self.decode]
    }
}

/// Weighted means and standard deviations of inputs.
fn scales(weighted: &[(f64, &[f64])]) -> (Vec<f64>, Vec<f64>) {
    let total = weighted.iter().map(|(weight, _)| weight).sum::<f64>().max(1e-9);
    let mean = |of: &dyn Fn(&[f64]) -> f64| weighted.iter().map(|(weight, x)| weight * of(x)).sum::<f64>() / total;
    let scale = |at: usize| {
        let center = mean(&|x| x[at]);
        let variance = mean(&|x| (x[at] - center).powi(2));
        // An input that never varied tells nothing wherever it is.
        (significant(center), significant(variance.sqrt().max(1e-3)))
    };
    (0..INPUTS.len()).map(scale).unzip()
}

/// Logarithms of what `base` and the profile are off by.
fn off(record: &Record, base: &Predictor, profile: &Profile, codecs: &CodecList) -> BTreeMap<String, [f64; 3]> {
    let chains: Vec<ChainSpec> = record.chains.iter().map(|measured| measured.chain.clone()).collect();
    let subject = Subject { features: record.features.clone(), rounded: None };
    let Outlook { beliefs, paces } = base.outlook(&chains, &subject);
    let measured = record.chains.iter().zip(paces);
    let positive = measured.filter(|(measured, _)| [measured.ratio, measured.encode, measured.decode] > [0.0; 3]);
    positive
        .map(|(measured, SpeedFactors { encode, decode })| {
            let merits = profile.merits(codecs, &measured.chain, measured.ratio);
            let ratio = measured.ratio.clamp(RATIOS.0, RATIOS.1) / beliefs.ratio(&measured.chain);
            let slower = [merits.encode / measured.encode / encode, merits.decode / measured.decode / decode];
            (measured.chain.to_string(), [ratio.ln(), slower[0].ln(), slower[1].ln()])
        })
        .collect()
}

/// Covariances of what is left, together with those of `base`.
fn covariance(
    model: &Predictor,
    base: &Predictor,
    lessons: &Lessons<'_>,
    left: &[BTreeMap<String, f64>],
) -> Vec<Vec<f64>> {
    let old: BTreeMap<&String, usize> = base.chains.keys().enumerate().map(|(at, chain)| (chain, at)).collect();
    let entry = |a: &String, b: &String| {
        let both = lessons.list.iter().zip(left).filter_map(|(lesson, left)| {
            let (a, b) = (left.get(a)?, left.get(b)?);
            Some((lesson.weight, lesson.weight * a * b))
        });
        let (mut weight, mut sum) = both.fold((0.0, 0.0), |(weight, sum), (w, product)| (weight + w, sum + product));
        if let (Some(&i), Some(&j)) = (old.get(a), old.get(b))
            && let Some(known) = base.covariance.get(i.max(j)).and_then(|row| row.get(i.min(j)))
        {
            sum += WORTH * known;
            weight += WORTH;
        }
        let chance = if a == b { 1.0 } else { 1.0 - CHANCE };
        significant(chance * sum / weight.max(1.0))
    };
    let names: Vec<&String> = model.chains.keys().collect();
    names.iter().enumerate().map(|(at, a)| names.iter().take(at + 1).map(|b| entry(a, b)).collect()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Four significant digits: what a regression is worth, and what keeps files small.
fn significant(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::super::{Measured, hold_out, judge};
    use super::*;
    use crate::features::Features;
    use knarr_array::array::{ArraySpec, DType};

    const CHAINS: [&str; 3] = ["shuffle | brotli:5", "brotli:5", "snappy"];

    /// Waves with noise of different strength; ratios and times to encode follow a law of their entropy.
    fn records(families: usize) -> Vec<Record> {
        let spec = ArraySpec::new(DType::F32, [40, 50]);
        (0..families * 3)
            .map(|number| {
                let mut noise = u32::try_from(number).unwrap() * 977 + 1;
                let bytes: Vec<u8> = (0..2000u16)
                    .flat_map(|i| {
                        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        let grain = f32::from((noise >> 16) as u16) * (number as f32 * 0.4 - 22.0).exp();
                        ((f32::from(i) * 0.02).sin() + grain).to_le_bytes()
                    })
                    .collect();
                let features = Features::of(&spec, &bytes);
                let entropy: f64 = features.delta_entropy.iter().sum();
                let measured = |(at, chain): (usize, &&str)| {
                    let chain: ChainSpec = chain.parse().unwrap();
                    let ratio = 60.0 / entropy / (1.0 + at as f64 / 4.0);
                    let merits = Profile::built_in().merits(&CodecList::pure(), &chain, ratio);
                    Measured { chain, ratio, encode: merits.encode * entropy / 16.0, decode: merits.decode }
                };
                Record {
                    family: format!("f{}", number / 3),
                    variable: format!("v{number}"),
                    features,
                    bytes: 8000,
                    chains: CHAINS.iter().enumerate().map(measured).collect(),
                }
            })
            .collect()
    }

    #[test]
    fn a_law_of_the_data_is_found_and_holds_for_families_that_were_kept_out() {
        let (records, codecs, profile) = (records(10), CodecList::pure(), Profile::built_in());
        let rule = Predictor::rule_of_thumb();
        let models = hold_out(&records, &rule, &profile, &codecs).unwrap();
        let before = judge(&records, |_| &rule, &profile, &codecs);
        let after = judge(&records, |family| &models[family], &profile, &codecs);
        assert!(after.ratio.r2 > 0.8 && after.ratio.r2 > before.ratio.r2, "{before:?} {after:?}");
        assert!(
            after.encode.r2 > before.encode.r2 && after.encode.factor < before.encode.factor,
            "{before:?} {after:?}"
        );
    }

    #[test]
    fn training_is_repeatable_and_its_model_is_read_again() {
        let (records, codecs, profile) = (records(6), CodecList::pure(), Profile::built_in());
        let train = |base: &Predictor| fit(&records, base, "test", &profile, &codecs).unwrap();
        let model = train(&Predictor::rule_of_thumb());
        assert_eq!(model, train(&Predictor::rule_of_thumb()));
        let text = serde_json::to_string(&model).unwrap();
        assert_eq!(Predictor::parse(&text).unwrap(), model);
        // What was learnt leaves little to learn from the same again.
        let more = train(&model);
        assert_eq!((more.samples, more.families), (36, 12));
        let moved = |a: &Predictor, b: &Predictor| {
            let lists = |model: &Predictor| model.chains["brotli:5"].ratio.clone();
            lists(a).iter().zip(lists(b)).map(|(a, b)| (a - b).abs()).sum::<f64>()
        };
        let nothing = Predictor { chains: BTreeMap::from([("brotli:5".into(), Weights::nothing())]), ..model.clone() };
        assert!(moved(&more, &model) < 0.5 * moved(&model, &nothing));
    }

    #[test]
    fn too_little_to_learn_from_is_an_error_with_advice() {
        let (codecs, profile) = (CodecList::pure(), Profile::built_in());
        for records in [Vec::new(), records(2)] {
            let error = fit(&records, &Predictor::rule_of_thumb(), "test", &profile, &codecs).unwrap_err();
            assert!(error.kind() == ErrorKind::Usage && error.advice().is_some(), "{error}");
        }
    }
}
