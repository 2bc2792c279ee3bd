//! Measured costs of codecs on a machine, and what follows for a chain: times and energy.
//!
//! Speeds come from the profile, never from the clock during a choice, so that equal inputs give equal
//! plans. `knarr profile` writes one; a built-in profile, labelled as such, serves until then.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::goal::Merits;
use knarr_codec::chain::{ChainSpec, StepSpec};
use knarr_codec::codec::{CodecList, OptionValue};

/// Seconds that the calling thread has been busy, from any origin. Processor time rather than wall time: other
/// programs on the machine then hardly change what is measured.
pub type Clock<'a> = &'a dyn Fn() -> f64;

/// Speed of one step on data that the chain shrinks by `ratio`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Raw bytes over encoded bytes of the step's own input.
    pub ratio: f64,
    /// MB (1e6 bytes) of the step's input per second of one core.
    pub encode: f64,
    /// MB of the step's input, restored, per second of one core.
    pub decode: f64,
}

/// Where energy figures come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// `counter` (RAPL) or `model`.
    pub source: String,
    /// Watts that one busy core adds.
    pub watts_per_core: f64,
    /// Joules to move one GB to or from storage.
    pub joules_per_gb: f64,
}

/// Factors on the times that the profile gives for a chain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpeedFactors {
    /// Factor on the time to encode.
    pub encode: f64,
    /// Factor on the time to decode.
    pub decode: f64,
}

impl Default for SpeedFactors {
    fn default() -> Self {
        Self { encode: 1.0, decode: 1.0 }
    }
}

/// Costs of a machine's codecs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Format version of this file.
    pub version: u32,
    /// `built-in` or the machine it was measured on.
    pub machine: String,
    /// Cost of each step in text form (`zstd:3`), on data of increasing compressibility.
    pub steps: BTreeMap<String, Vec<Cost>>,
    /// Energy model.
    pub power: Power,
}

impl Power {
    /// The model used where no counter can be read: a server core under load adds about 8 W; moving a GB through
    /// network and disks of a parallel file system takes about 15 J. Orders of magnitude, good for comparing chains.
    pub fn model() -> Self {
        Self { source: "model".to_owned(), watts_per_core: 8.0, joules_per_gb: 15.0 }
    }
}

/// Version of the profile format that this program writes and reads.
pub const VERSION: u32 = 1;

/// Speed assumed for a step of a codec that the profile does not know, MB/s: that of a slow encoder. Such a chain is chosen
/// where its ratio counts for more than its time, until somebody measures it.
const UNKNOWN: Cost = Cost { ratio: 2.0, encode: 50.0, decode: 200.0 };

impl Profile {
    /// The profile that comes with the program.
    pub fn built_in() -> Self {
        serde_json::from_str(include_str!("built-in.json")).unwrap_or_else(|_| Self {
            version: VERSION,
            machine: "built-in".to_owned(),
            steps: BTreeMap::new(),
            power: Power::model(),
        })
    }

    /// Reads a profile that `knarr profile` wrote.
    ///
    /// # Errors
    /// `NotFound` or `Read`; as for [`Profile::parse`].
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| Error::read(path, &error))?;
        // Bytes that are no text are no JSON either.
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| error.at(path.display().to_string()))
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// `Config` with the place of the mistake.
    pub fn parse(text: &str) -> Result<Self> {
        let profile: Self = serde_json::from_str(text).map_err(|error| {
            let what = format!("is no profile written by 'knarr profile': {error}");
            Error::new(ErrorKind::Config, what).hint("write it anew with: knarr profile")
        })?;
        if profile.version != VERSION {
            return Err(Error::new(ErrorKind::Config, format!("profile version {} is not {VERSION}", profile.version))
                .hint("write it anew with: knarr profile"));
        }
        Ok(profile)
    }

    /// Expected times and energy of `chain` on data that it shrinks by `ratio`.
    pub fn merits(&self, codecs: &CodecList, chain: &ChainSpec, ratio: f64) -> Merits {
        self.paced_merits(codecs, chain, ratio, SpeedFactors::default())
    }

    /// The same on data that needs `pace` times the usual time.
    pub fn paced_merits(&self, codecs: &CodecList, chain: &ChainSpec, ratio: f64, pace: SpeedFactors) -> Merits {
        let ratio = ratio.max(0.1);
        // Seconds per MB of raw bytes. A copy costs something even when nothing is encoded.
        let (mut encode, mut decode) = (1.0 / 6000.0, 1.0 / 6000.0);
        let mut fraction = 1.0;
        for step in &chain.0 {
            let cost = self.cost(step, ratio);
            encode += fraction / cost.encode.max(0.01);
            decode += fraction / cost.decode.max(0.01);
            if codecs.named(&step.name).is_ok_and(|codec| !codec.keeps_size(&step.options)) {
                fraction = 1.0 / ratio;
            }
        }
        self.merits_of_speeds(ratio, 1.0 / (encode * pace.encode), 1.0 / (decode * pace.decode))
    }

    /// Merits of a chain that shrinks data by `ratio` at these speeds in MB/s of raw bytes.
    pub fn merits_of_speeds(&self, ratio: f64, encode: f64, decode: f64) -> Merits {
        let stored = self.power.joules_per_gb / ratio;
        let energy = (1.0 / encode + 1.0 / decode) * 1000.0 * self.power.watts_per_core + 2.0 * stored;
        Merits { ratio, encode, decode, energy }
    }

    /// Cost of one step at `ratio`, interpolated in the logarithm of the ratio.
    fn cost(&self, step: &StepSpec, ratio: f64) -> Cost {
        let points = self.steps.get(&step.to_string()).or_else(|| self.nearest_level(step));
        let Some(points) = points else { return UNKNOWN };
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return UNKNOWN };
        if ratio <= first.ratio {
            return *first;
        }
        for pair in points.windows(2) {
            if let [a, b] = pair
                && ratio <= b.ratio
            {
                let t = (ratio / a.ratio).ln() / (b.ratio / a.ratio).ln();
                let mix = |x: f64, y: f64| (x.ln() * (1.0 - t) + y.ln() * t).exp();
                return Cost { ratio, encode: mix(a.encode, b.encode), decode: mix(a.decode, b.decode) };
            }
        }
        *last
    }

    /// The same codec at the nearest measured level.
    fn nearest_level(&self, step: &StepSpec) -> Option<&Vec<Cost>> {
        let level = |bare: &Option<OptionValue>| match bare {
            Some(OptionValue::Int(level)) => *level,
            _ => 0,
        };
        let wanted = level(&step.bare);
        self.steps
            .iter()
            .filter_map(|(text, points)| {
                let chain: ChainSpec = text.parse().ok()?;
                let known = chain.0.into_iter().next()?;
                (known.name == step.name).then(|| ((level(&known.bare) - wanted).abs(), points))
            })
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, points)| points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_profile_parses_and_says_what_it_is() {
        let profile = Profile::built_in();
        assert_eq!(profile.machine, "built-in");
        assert!(profile.steps.len() > 10);
        assert_eq!(Profile::parse(&serde_json::to_string(&profile).unwrap()).unwrap(), profile);
        assert!(Profile::parse("{}").is_err());
    }

    #[test]
    fn a_step_that_no_profile_knows_costs_what_is_documented() {
        let (profile, codecs) = (Profile::built_in(), CodecList::pure());
        assert!(!profile.steps.contains_key("trailing"));
        let merits = profile.merits(&codecs, &"trailing".parse().unwrap(), 2.0);
        // A copy of 6000 MB/s and the step.
        assert!((merits.encode - 1.0 / (1.0 / 6000.0 + 1.0 / 50.0)).abs() < 1e-6, "{merits:?}");
        assert!((merits.decode - 1.0 / (1.0 / 6000.0 + 1.0 / 200.0)).abs() < 1e-6, "{merits:?}");
    }

    #[test]
    fn merits_follow_the_steps() {
        let profile = Profile::built_in();
        let merits = |text: &str| profile.merits(&CodecList::pure(), &text.parse().unwrap(), 2.0);
        assert!(merits("shuffle | zstd:1").encode > merits("shuffle | zstd:19").encode);
        assert!(merits("shuffle | zstd:1").encode < merits("zstd:1").encode * 1.01);
        assert!(merits("raw").encode > merits("shuffle").encode);
        assert!(merits("shuffle | zstd:1").energy < merits("shuffle | deflate:9").energy);
    }
}
