//! Goals: what to optimise, given the quality.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Names of the goals that need no weights.
pub const NAMED: [&str; 5] = ["speed", "balanced", "ratio", "archive", "energy"];

/// Measure of a candidate that goals weigh or limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Raw bytes over encoded bytes.
    Ratio,
    /// Encoding speed of one core, MB/s of raw bytes.
    Encode,
    /// Decoding speed of one core, MB/s of raw bytes.
    Decode,
    /// Energy to encode, store and decode once, J per GB of raw bytes.
    Energy,
}

/// A lower limit (upper for energy) on a measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// What is limited.
    pub measure: Measure,
    /// Smallest value that is good enough; for energy the largest.
    pub value: f64,
}

impl Measure {
    /// How many of this measure's own units one of `unit` is; no unit is its own.
    fn scale(self, unit: &str) -> Option<f64> {
        match (self, unit) {
            (_, "") | (Self::Ratio, "x") | (Self::Encode | Self::Decode, "MB/s") | (Self::Energy, "J/GB") => Some(1.0),
            (Self::Encode | Self::Decode, "kB/s" | "KB/s") | (Self::Energy, "mJ/GB") => Some(1e-3),
            (Self::Encode | Self::Decode, "GB/s") | (Self::Energy, "kJ/GB") => Some(1e3),
            (Self::Encode | Self::Decode, "MiB/s") => Some(1.048_576),
            (Self::Encode | Self::Decode, "GiB/s") => Some(1_073.741_824),
            _ => None,
        }
    }

    fn units(self) -> &'static str {
        match self {
            Self::Ratio => "a ratio has no unit, a weight neither",
            Self::Encode | Self::Decode => "limits of speed are in MB/s or GB/s, weights have no unit",
            Self::Energy => "limits of energy are in J/GB or kJ/GB, weights have no unit",
        }
    }

    /// Less energy is better, and more of anything else.
    fn sign(self) -> f64 {
        if self == Self::Energy { -1.0 } else { 1.0 }
    }
}

fn log(value: f64) -> f64 {
    value.max(1e-9).ln()
}

impl Limit {
    /// The logarithm of the factor by which `merits` miss it; 0 if they do not.
    fn missed_by(&self, merits: &Merits) -> f64 {
        (self.measure.sign() * (log(self.value) - log(merits.get(self.measure)))).max(0.0)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.measure {
            Measure::Ratio => write!(f, "ratio>={}", self.value),
            Measure::Encode => write!(f, "encode>={} MB/s", self.value),
            Measure::Decode => write!(f, "decode>={} MB/s", self.value),
            Measure::Energy => write!(f, "energy<={} J/GB", self.value),
        }
    }
}

/// Expected or measured merits of one chain on one variable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Merits {
    /// Raw bytes over encoded bytes.
    pub ratio: f64,
    /// MB/s of raw bytes, one core.
    pub encode: f64,
    /// MB/s of raw bytes, one core.
    pub decode: f64,
    /// J per GB of raw bytes.
    pub energy: f64,
}

impl Merits {
    fn get(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Ratio => self.ratio,
            Measure::Encode => self.encode,
            Measure::Decode => self.decode,
            Measure::Energy => self.energy,
        }
    }
}

/// What to optimise: weights on the logarithms of the measures, and limits.
///
/// The score is `Σ weight · ln(measure)` with energy counted negatively, so that a weight says how many
/// per cent of one measure a per cent of another is worth. A limit that is missed costs more than any
/// weighted gain can bring, in proportion to how far it is missed: the nearest miss wins if nothing meets it.
///
/// Speeds beyond 1000 MB/s gain nothing: no storage takes more from one core, so a chain that leaves the data larger to
/// be faster than that makes writing slower.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// As the user wrote it.
    pub text: String,
    /// Weight of each measure, not negative.
    pub weights: Vec<(Measure, f64)>,
    /// Limits that must hold if any candidate can hold them.
    pub limits: Vec<Limit>,
}

/// MB/s of raw bytes beyond which speed gains nothing.
const FAST_ENOUGH: f64 = 1000.0;

/// Penalty per unit of logarithm by which a limit is missed; larger than any weighted gain.
const MISS: f64 = 1e3;

impl Goal {
    /// Score of a candidate; larger is better.
    pub fn score(&self, merits: &Merits) -> f64 {
        let useful = |measure| match measure {
            Measure::Encode | Measure::Decode => merits.get(measure).min(FAST_ENOUGH),
            Measure::Ratio | Measure::Energy => merits.get(measure),
        };
        let gain: f64 =
            self.weights.iter().map(|&(measure, weight)| measure.sign() * weight * log(useful(measure))).sum();
        gain - MISS * self.missed_by(merits)
    }

    /// The logarithms of the factors by which `merits` miss limits, added up; 0 if they meet all.
    pub fn missed_by(&self, merits: &Merits) -> f64 {
        self.limits.iter().map(|limit| limit.missed_by(merits)).sum()
    }

    /// Limits that were asked for and that `merits` miss, in words. Those that a goal brings along hold where they can.
    pub fn missed(&self, merits: &Merits) -> Option<String> {
        let name = self.text.split(',').next().unwrap_or_default().trim();
        // They stand behind the others.
        let brought = Self::named(name).map_or(0, |named| named.limits.len());
        let asked = self.limits.len().saturating_sub(brought);
        let missed: Vec<String> = self
            .limits
            .iter()
            .take(asked)
            .filter(|limit| limit.missed_by(merits) > 0.0)
            .map(ToString::to_string)
            .collect();
        (!missed.is_empty()).then(|| missed.join(", "))
    }

    /// True if the time that encoding takes plays a part.
    pub fn weighs_encoding(&self) -> bool {
        let counts = |measure| matches!(measure, Measure::Encode | Measure::Energy);
        self.weights.iter().any(|&(measure, weight)| counts(measure) && weight > 0.0)
            || self.limits.iter().any(|limit| counts(limit.measure))
    }

    /// True if it matters how small the data become.
    pub fn weighs_size(&self) -> bool {
        self.weights.iter().any(|&(measure, weight)| measure == Measure::Ratio && weight > 0.0)
            || self.limits.iter().any(|limit| limit.measure == Measure::Ratio)
    }

    /// The goal called `balanced`, the default.
    pub fn balanced() -> Self {
        Self::named("balanced").unwrap_or(Self { text: String::new(), weights: Vec::new(), limits: Vec::new() })
    }

    fn named(name: &str) -> Option<Self> {
        use Measure::{Decode, Encode, Energy, Ratio};
        type Table = &'static [(Measure, f64)];
        let (weights, limits): (Table, Table) = match name {
            "speed" => (&[(Ratio, 0.3), (Encode, 0.5), (Decode, 0.2)], &[]),
            // Small, but not at a price that slows a program down.
            "balanced" => (&[(Ratio, 0.92), (Encode, 0.06), (Decode, 0.02)], &[(Encode, 25.0)]),
            "ratio" => (&[(Ratio, 1.0)], &[]),
            // Written once, read for decades: any price to write, not any price to read.
            "archive" => (&[(Ratio, 0.95), (Decode, 0.05)], &[(Decode, 100.0)]),
            "energy" => (&[(Energy, 1.0)], &[]),
            _ => return None,
        };
        Some(Self {
            text: name.to_owned(),
            weights: weights.to_vec(),
            limits: limits.iter().map(|&(measure, value)| Limit { measure, value }).collect(),
        })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Goal {
    type Err = Error;

    /// A name, or comma-separated weights and limits: `ratio=0.4,encode=0.3,decode=0.3`, `encode>=300MB/s`. Limits may
    /// follow a name: `archive,encode>=50MB/s`.
    fn from_str(text: &str) -> Result<Self> {
        if let Some(goal) = Self::named(text) {
            return Ok(goal);
        }
        let refuse = |why: String| {
            Error::usage(format!("goal '{text}': {why}")).hint(format!(
                "use one of {}, weights such as 'ratio=0.4,encode=0.3,decode=0.3', or limits such as 'encode>=300MB/s'",
                NAMED.join(", ")
            ))
        };
        let mut goal = Self { text: text.to_owned(), weights: Vec::new(), limits: Vec::new() };
        let (first, rest) = text.split_once(',').unwrap_or((text, ""));
        let named = Self::named(first.trim());
        let items = if named.is_some() { rest } else { text };
        for item in items.split(',').map(str::trim) {
            let (name, value, is_limit) = if let Some((name, value)) = item.split_once(">=") {
                (name, value, true)
            } else if let Some((name, value)) = item.split_once("<=") {
                (name, value, true)
            } else if let Some((name, value)) = item.split_once('=') {
                (name, value, false)
            } else {
                return Err(refuse(format!("'{item}' is not a named goal, a weight or a limit")));
            };
            let measure = match name.trim() {
                "ratio" => Measure::Ratio,
                "encode" => Measure::Encode,
                "decode" => Measure::Decode,
                "energy" => Measure::Energy,
                other => return Err(refuse(format!("there is no measure '{other}'"))),
            };
            if is_limit && item.contains("<=") != (measure == Measure::Energy) {
                return Err(refuse(format!("'{item}': energy is limited with <=, the others with >=")));
            }
            let at = value.trim_end_matches(|c: char| c.is_alphabetic() || c == '/').len();
            let (number, unit) = value.split_at(at);
            let scale = measure.scale(unit.trim()).filter(|_| is_limit || unit.is_empty());
            let scale = scale.ok_or_else(|| refuse(format!("'{item}': {}", measure.units())))?;
            let value: f64 = number
                .trim()
                .parse()
                .ok()
                .map(|value: f64| value * scale)
                .filter(|value: &f64| value.is_finite() && *value > 0.0)
                .ok_or_else(|| refuse(format!("'{value}' is not a number above 0")))?;
            if is_limit {
                goal.limits.push(Limit { measure, value });
            } else if named.is_some() {
                return Err(refuse(format!("'{item}' is a weight, '{}' has its own", first.trim())));
            } else {
                goal.weights.push((measure, value));
            }
        }
        if let Some(named) = named {
            goal.weights = named.weights;
            goal.limits.extend(named.limits);
        } else if goal.weights.is_empty() {
            // A limit alone: the best ratio within it.
            goal.weights.push((Measure::Ratio, 1.0));
        }
        Ok(goal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merits(ratio: f64, encode: f64) -> Merits {
        Merits { ratio, encode, decode: 1000.0, energy: 10.0 }
    }

    #[test]
    fn goals_rank_as_their_names_say() {
        let (small, fast) = (merits(3.0, 5.0), merits(2.0, 800.0));
        let best = |goal: &str| {
            let goal: Goal = goal.parse().unwrap();
            if goal.score(&small) > goal.score(&fast) { "small" } else { "fast" }
        };
        assert_eq!(best("ratio"), "small");
        assert_eq!(best("archive"), "small");
        assert_eq!(best("speed"), "fast");
        assert_eq!(best("balanced"), "fast");
        assert_eq!(best("encode>=300MB/s"), "fast");
        assert_eq!(best("encode>=2"), "small");
        assert_eq!(best("ratio=0.5,encode=0.5"), "fast");
        assert_eq!(best("ratio, encode>=300MB/s"), "fast");
        assert_eq!(best("archive,encode>=2"), "small");
    }

    #[test]
    fn more_speed_than_storage_takes_is_worth_nothing() {
        let speed: Goal = "speed".parse().unwrap();
        assert!(speed.score(&merits(1.9, 1800.0)) > speed.score(&merits(1.1, 9000.0)));
        assert!(speed.score(&merits(1.9, 1800.0)) > speed.score(&merits(2.2, 800.0)));
        let limited: Goal = "ratio,encode>=5000".parse().unwrap();
        assert!(limited.score(&merits(1.1, 9000.0)) > limited.score(&merits(1.9, 1800.0)));
    }

    #[test]
    fn when_no_limit_can_be_met_the_nearest_wins() {
        let goal: Goal = "encode>=5000".parse().unwrap();
        assert!(goal.score(&merits(1.5, 800.0)) > goal.score(&merits(9.0, 300.0)));
    }

    #[test]
    fn limits_that_are_missed_are_named_unless_a_goal_brought_them() {
        let missed = |goal: &str| goal.parse::<Goal>().unwrap().missed(&merits(1.5, 20.0));
        assert_eq!(missed("balanced"), None);
        assert_eq!(missed("encode>=10"), None);
        assert_eq!(missed("balanced,ratio>=2"), Some("ratio>=2".to_owned()));
        assert_eq!(
            missed("ratio=1,encode>=0.3GB/s,energy<=0.0005 kJ/GB"),
            Some("encode>=300 MB/s, energy<=0.5 J/GB".to_owned())
        );
    }

    #[test]
    fn nonsense_is_refused_with_advice() {
        for text in [
            "",
            "fastest",
            "ratio=-1",
            "ratio=x",
            "speed=1",
            "encode<=300",
            "energy>=3",
            "ratio=0",
            "ratio,",
            "ratio,speed",
            "ratio,encode=1",
            "encode>=300 furlong",
            "encode>=3 J/GB",
            "energy<=3MB/s",
            "ratio>=2MB/s",
            "encode=1MB/s",
        ] {
            assert!(text.parse::<Goal>().unwrap_err().advice().is_some(), "{text}");
        }
    }
}
