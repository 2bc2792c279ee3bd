//! The predictor: features of data → expected ratio and times of each chain, and how far they may be off.
//!
//! A rule of thumb (`rule`) gives a ratio for any chain, the profile its times at that ratio. A model, trained on what
//! chains made of samples of real data ([`fit`]), corrects both: for each chain, the logarithms of what the rule and
//! the profile are off by are linear in the inputs (`inputs`). What stays unexplained is kept as covariances between
//! chains, so that a trial of one corrects what is expected of the others ([`Beliefs`]).
//!
//! A model is a small JSON file: `built-in.json` comes with the program, `knarr train` writes others.

mod belief;
mod fit;
mod inputs;
mod judge;
mod measured;
mod rule;

pub use belief::Beliefs;
pub use fit::fit;
pub use judge::{Judged, Quality, hold_out, judge};
pub use measured::{Measured, Record};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

use crate::features::Features;
use crate::profile::SpeedFactors;
use inputs::{INPUTS, inputs};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_codec::chain::ChainSpec;
use rule::{family, rule_ratio};

/// Version of the model format that this program writes and reads.
pub const VERSION: u32 = 1;

/// Ratios that are told apart: more shrinks nothing worth mentioning, less is stored.
const RATIOS: (f64, f64) = (0.9, 100.0);
/// Factors by which data may make a chain slower or faster than the profile says.
const PACES: (f64, f64) = (0.2, 5.0);
/// Inputs are taken as no farther from the middle than this many standard deviations: beyond, nothing was learnt.
const FARTHEST: f64 = 4.0;
/// Standard deviations of the logarithm of the ratio of a chain that no model knows: common to all such chains, common
/// to those that differ in their levels only, and its own; its own where a chain of its family is known.
const COMMON: f64 = 0.45;
const OF_FAMILY: f64 = 0.4;
const ALONE: f64 = 0.25;
const BESIDE_KNOWN: f64 = 0.1;
/// Correlation of what a chain makes of rounded and of unrounded values.
const ACROSS_ROUNDING: f64 = 0.5;

/// A trained model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predictor {
    /// Format version of this file.
    pub version: u32,
    /// `built-in`, or what it was trained on.
    pub name: String,
    /// Samples and families of samples that it was trained on.
    pub samples: u64,
    /// See [`Predictor::samples`].
    pub families: u64,
    /// Names of the inputs, in order.
    inputs: Vec<String>,
    /// Means and standard deviations of the inputs in training.
    center: Vec<f64>,
    spread: Vec<f64>,
    /// What is known of each chain.
    chains: BTreeMap<String, Weights>,
    /// Covariances of what is unexplained of the logarithms of the ratios: a row up to the diagonal for each of
    /// `chains`, in order.
    covariance: Vec<Vec<f64>>,
}

/// Weights of one chain: a constant, then one for each input.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Weights {
    /// Logarithm of the ratio over that of the rule.
    ratio: Vec<f64>,
    /// Logarithms of the times over those of the profile.
    encode: Vec<f64>,
    decode: Vec<f64>,
}

/// What is expected of some chains.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// Their ratios.
    pub beliefs: Beliefs,
    /// Factors on the times of the profile, in their order.
    pub paces: Vec<SpeedFactors>,
}

/// Data that something is expected of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Subject {
    /// Features of the values as they are.
    pub features: Features,
    /// Features of the values after rounding, where a bound allows it.
    pub rounded: Option<Features>,
}

impl Predictor {
    /// The model that comes with the program.
    pub fn built_in() -> Self {
        Self::parse(include_str!("built-in.json")).unwrap_or_else(|_| Self::rule_of_thumb())
    }

    /// A model that knows no chain: the rule of thumb and the profile alone.
    pub fn rule_of_thumb() -> Self {
        Self {
            version: VERSION,
            name: "rule of thumb".to_owned(),
            samples: 0,
            families: 0,
            inputs: INPUTS.map(str::to_owned).to_vec(),
            center: vec![0.0; INPUTS.len()],
            spread: vec![1.0; INPUTS.len()],
            chains: BTreeMap::new(),
            covariance: Vec::new(),
        }
    }

    /// Reads the model at `path`.
    ///
    /// # Errors
    /// `NotFound` or `Read`; as for [`Predictor::parse`], with the path.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| Error::read(path, &error))?;
        // Bytes that are no text are no JSON either.
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| error.at(path.display().to_string()))
    }

    /// Parses the text of a model.
    ///
    /// # Errors
    /// `Config` with the place of the mistake, for another version, other inputs, and numbers that do not belong
    /// together.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse =
            |what: String| Error::new(ErrorKind::Config, what).hint("write it anew with: knarr train FILES -o MODEL");
        /// What stays the same in every version.
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let head: Head = serde_json::from_str(text)
            .map_err(|error| refuse(format!("is no model written by 'knarr train': {error}")))?;
        if head.version != VERSION {
            return Err(refuse(format!("model version {} is not {VERSION}", head.version)));
        }
        let model: Self = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
        model.check().map_err(refuse)?;
        Ok(model)
    }

    /// What does not fit together, if something does not.
    fn check(&self) -> Result<(), String> {
        if self.inputs != INPUTS {
            return Err("the model has other inputs than this program".to_owned());
        }
        let sizes = [("center", self.center.len()), ("spread", self.spread.len())];
        if let Some((name, size)) = sizes.into_iter().find(|(_, size)| *size != INPUTS.len()) {
            return Err(format!("'{name}' has {size} numbers, not {}", INPUTS.len()));
        }
        if self.spread.iter().any(|spread| *spread <= 0.0) {
            return Err("'spread' holds a number that is not above 0".to_owned());
        }
        for (chain, weights) in &self.chains {
            chain.parse::<ChainSpec>().map_err(|error| error.to_string())?;
            for (name, list) in [("ratio", &weights.ratio), ("encode", &weights.encode), ("decode", &weights.decode)] {
                if list.len() != INPUTS.len() + 1 {
                    return Err(format!("'{name}' of '{chain}' has {} numbers, not {}", list.len(), INPUTS.len() + 1));
                }
            }
        }
        let rows = self.covariance.iter().enumerate();
        if self.covariance.len() != self.chains.len() || rows.clone().any(|(at, row)| row.len() != at + 1) {
            return Err("'covariance' is not a triangle with a row for each chain".to_owned());
        }
        match rows.clone().find(|(at, row)| row.get(*at).is_none_or(|variance| *variance < 0.0)) {
            Some((at, _)) => Err(format!("row {} of 'covariance' ends with a number below 0", at + 1)),
            None => Ok(()),
        }
    }

    /// What is expected of `chains`.
    pub fn outlook(&self, chains: &[ChainSpec], subject: &Subject) -> Outlook {
        let of = |features: &Features| inputs(features).map(|inputs| self.standardized(&inputs));
        let (plain, rounded) = (of(&subject.features), subject.rounded.as_ref().and_then(of));
        let known: Vec<Known> = chains.iter().map(|chain| self.known(chain, subject.rounded.is_some())).collect();
        let outlook: Vec<(f64, SpeedFactors)> = known
            .iter()
            .map(|known| {
                let features = if known.rounds { subject.rounded.as_ref() } else { None };
                let rule = rule_ratio(&known.chain, features.unwrap_or(&subject.features)).ln();
                let inputs = if known.rounds { &rounded } else { &plain };
                let (Some(weights), Some(inputs)) = (known.weights, inputs) else {
                    return (rule, SpeedFactors::default());
                };
                let ratio = rule + weighed(&weights.ratio, inputs);
                let factor = |weights: &[f64]| weighed(weights, inputs).exp().clamp(PACES.0, PACES.1);
                (ratio, SpeedFactors { encode: factor(&weights.encode), decode: factor(&weights.decode) })
            })
            .collect();
        let predicted = outlook.iter().map(|(ratio, _)| ratio.clamp(RATIOS.0.ln(), RATIOS.1.ln())).collect();
        let covariance = known.iter().flat_map(|a| known.iter().map(|b| self.covariance_of(a, b))).collect();
        let beliefs = Beliefs::new(chains.to_vec(), predicted, covariance);
        Outlook { beliefs, paces: outlook.into_iter().map(|(_, pace)| pace).collect() }
    }

    fn standardized(&self, inputs: &[f64]) -> Vec<f64> {
        let scales = self.center.iter().zip(&self.spread);
        inputs.iter().zip(scales).map(|(x, (c, s))| ((x - c) / s).clamp(-FARTHEST, FARTHEST)).collect()
    }

    /// What the model knows of `chain`. A rounding step in front is left out where features of rounded values exist.
    fn known(&self, chain: &ChainSpec, rounded: bool) -> Known<'_> {
        let rounds = rounded && chain.0.first().is_some_and(|step| step.name == "round");
        let chain = ChainSpec(chain.0.iter().skip(usize::from(rounds)).cloned().collect());
        let text = chain.to_string();
        let family = family(&chain);
        let of_family = |text: &str| text.parse().is_ok_and(|chain| rule::family(&chain) == family);
        let found = self.chains.iter().enumerate();
        let (place, is_itself) = match found.clone().find(|(_, (known, _))| **known == text) {
            Some(found) => (Some(found), true),
            None => (found.clone().find(|(_, (known, _))| of_family(known)), false),
        };
        let (at, weights) = place.map_or((None, None), |(at, (_, weights))| (Some(at), Some(weights)));
        Known { chain, rounds, at, is_itself, weights, family }
    }

    fn covariance_of(&self, a: &Known<'_>, b: &Known<'_>) -> f64 {
        let is_same = std::ptr::eq(a, b);
        let own = |sd: f64| if is_same { sd * sd } else { 0.0 };
        let across = if a.rounds == b.rounds { 1.0 } else { ACROSS_ROUNDING };
        match (a.at, b.at) {
            (Some(i), Some(j)) => {
                let entry = self.covariance.get(i.max(j)).and_then(|row| row.get(i.min(j)));
                let beside = if a.is_itself { 0.0 } else { own(BESIDE_KNOWN) };
                across * entry.copied().unwrap_or(0.0) + beside
            }
            (None, None) => {
                let of_family = if a.family == b.family { OF_FAMILY * OF_FAMILY } else { 0.0 };
                across * (COMMON * COMMON + of_family) + own(ALONE)
            }
            _ => 0.0,
        }
    }
}

/// A chain as the model sees it.
struct Known<'a> {
    /// Without a rounding step whose effect is in the features.
    chain: ChainSpec,
    rounds: bool,
    /// Position among the model's chains: of itself, or of one that differs in levels only.
    at: Option<usize>,
    is_itself: bool,
    weights: Option<&'a Weights>,
    family: String,
}

/// A constant and weighted inputs.
fn weighed(weights: &[f64], inputs: &[f64]) -> f64 {
    let Some((constant, weights)) = weights.split_first() else { return 0.0 };
    weights.iter().zip(inputs).fold(*constant, |sum, (weight, input)| sum + weight * input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::{ArraySpec, DType};

    fn subject() -> Subject {
        let bytes: Vec<u8> = (0..40_000u16).flat_map(|i| (f32::from(i) * 0.01).sin().to_le_bytes()).collect();
        Subject { features: Features::of(&ArraySpec::new(DType::F32, [200, 200]), &bytes), rounded: None }
    }

    fn chains(texts: &[&str]) -> Vec<ChainSpec> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_built_in_model_knows_the_lossless_candidates() {
        let model = Predictor::built_in();
        assert_eq!(model.name, "built-in");
        assert!(model.families >= 20 && model.samples >= 100);
        for chain in crate::choose::all_chains(None) {
            assert!(model.chains.contains_key(&chain.to_string()), "{chain}");
        }
        assert_eq!(Predictor::parse(&serde_json::to_string(&model).unwrap()).unwrap(), model);
    }

    #[test]
    fn models_that_do_not_fit_are_refused_with_the_reason() {
        let good = serde_json::to_value(Predictor::built_in()).unwrap();
        let refused = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut model = good.clone();
            change(&mut model);
            let error = Predictor::parse(&model.to_string()).unwrap_err();
            assert!(error.kind() == ErrorKind::Config && error.advice().is_some(), "{error}");
            error.to_string()
        };
        assert!(refused(&|model| model["version"] = 99.into()).contains("version 99"));
        assert!(refused(&|model| model["inputs"][0] = "noise".into()).contains("other inputs"));
        assert!(refused(&|model| model["center"] = serde_json::json!([1.0])).contains("'center'"));
        assert!(refused(&|model| model["spread"][3] = 0.0.into()).contains("'spread'"));
        assert!(refused(&|model| model["chains"]["zstd:1"]["encode"] = serde_json::json!([])).contains("'zstd:1'"));
        assert!(refused(&|model| model["covariance"][1] = serde_json::json!([0.1])).contains("triangle"));
        assert!(refused(&|model| model["covariance"][0] = serde_json::json!([-0.1])).contains("row 1"));
        assert!(refused(&|model| model["surplus"] = 1.into()).contains("surplus"));
        for text in ["", "{}", "[1]", "{\"version\": 1}"] {
            assert!(Predictor::parse(text).is_err(), "{text}");
        }
        assert_eq!(Predictor::read(Path::new("/nowhere/model.json")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_no_model_knows_is_left_to_the_rule_and_its_family() {
        let subject = subject();
        let list = chains(&["shuffle | zstd:3", "shuffle | zstd:4", "snappy", "grid"]);
        let outlook = Predictor::built_in().outlook(&list, &subject);
        let ratios: Vec<f64> = list.iter().map(|chain| outlook.beliefs.ratio(chain)).collect();
        assert!((ratios[0] / ratios[1] - 1.0).abs() < 0.2, "levels of one chain are alike: {ratios:?}");
        assert_eq!(ratios[2], rule_ratio(&list[2], &subject.features));
        assert_eq!(outlook.paces[2], SpeedFactors::default());
        let doubts: Vec<f64> = list.iter().map(|chain| outlook.beliefs.doubt(chain)).collect();
        assert!(doubts[2] > doubts[0] && doubts[1] > doubts[0], "{doubts:?}");
        let ruled = Predictor::rule_of_thumb().outlook(&list, &subject);
        assert_eq!(ruled.beliefs.ratio(&list[0]), rule_ratio(&list[0], &subject.features));
    }

    #[test]
    fn answers_stay_sane_for_data_like_none_before() {
        let list = crate::choose::all_chains(None);
        for (entropy, repeats) in [(0.0, 1.0), (8.0, 0.0), (1e9, -5.0), (f64::MIN_POSITIVE, 0.5)] {
            let features = Features {
                elements: 7,
                plane_entropy: vec![entropy; 4],
                delta_entropy: vec![entropy; 4],
                axis_bits: vec![entropy],
                plane_bits: entropy,
                element_entropy: entropy,
                repeats,
                pair_repeats: repeats,
                plane_matches: repeats,
                ..Features::default()
            };
            let outlook = Predictor::built_in().outlook(&list, &Subject { features, rounded: None });
            for (chain, pace) in list.iter().zip(&outlook.paces) {
                let ratio = outlook.beliefs.ratio(chain);
                assert!((0.89..=100.1).contains(&ratio), "{chain} {ratio}");
                assert!((0.19..=5.1).contains(&pace.encode) && (0.19..=5.1).contains(&pace.decode), "{chain} {pace:?}");
            }
        }
    }

    #[test]
    fn rounded_values_are_told_by_their_own_features() {
        let mut subject = subject();
        let rounding = chains(&["round:abs=0.01 | shuffle | zstd:1", "shuffle | zstd:1"]);
        let constant = Features::of(&ArraySpec::new(DType::F32, [100, 100]), &[1; 40_000]);
        subject.rounded = Some(constant);
        let outlook = Predictor::built_in().outlook(&rounding, &subject);
        assert!(outlook.beliefs.ratio(&rounding[0]) > 4.0 * outlook.beliefs.ratio(&rounding[1]));
    }
}
