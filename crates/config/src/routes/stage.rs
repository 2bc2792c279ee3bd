//! What the route `stage` can be asked for: `[file.stage]`.

use knarr_array::error::{Error, Result};
use knarr_choose::place::objective::Objective;
use serde::{Deserialize, Serialize};

use super::compress::{COMPRESS, CompressRule, Output};
use super::traits::{Traits, keys_of};
use crate::misread::refuse;
use crate::restart::Time;
use crate::tier::{Rate, TierRule};

pub(super) const STAGE: Traits = Traits {
    word: "stage",
    does: "makes one compressed file of each in a fast tier, and moves it to its place",
    // Nothing is said of what the program waits for.
    compress: || &["when", "goal", "portable", "low", "high", "output", "variables"],
    own: keys_of::<StageRule>,
    ..COMPRESS
};

/// `[file.stage]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct StageRule {
    /// What is to be least.
    pub objective: Option<Least>,
    /// Files move to their place no faster than that, so that they leave the network to the program.
    pub drain: Option<Rate>,
    /// So long after a file was closed, at most, it is to survive a restart of the node: encoded or as it was handed over.
    pub local_within: Option<Time>,
}

impl StageRule {
    /// What is to be least: what the program waits, if nothing is said.
    pub fn objective(&self) -> Objective {
        self.objective.map_or(Objective::Blocked, |Least(objective)| objective)
    }

    /// Refuses values that make no sense, alone or beside those of `compress`.
    pub(super) fn check(&self, compress: &CompressRule, tiers: &[TierRule]) -> Result<()> {
        if tiers.len() < 2 {
            return Err(refuse("route = \"stage\" needs two tiers or more: those in which files wait, and their place")
                .hint(
                "add a [[tier]] for each, the fastest first and the place of the files last; docs/run.md has an example",
            ));
        }
        if self.objective.is_some() && compress.goal.is_some() {
            return Err(refuse("'goal' says how each file is encoded, so there is nothing to choose by 'objective'")
                .hint("remove one of them"));
        }
        if matches!(compress.output(), Output::Zarr | Output::At(_)) {
            return Err(refuse("route = \"stage\" makes one file of each, and a Zarr store has many")
                .hint("write output = \"netcdf4\" or \"classic\", or route = \"compress\""));
        }
        compress.check()
    }
}

/// An objective as it is written: a name, or weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Least(pub Objective);

#[derive(Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "one of \"blocked\", \"durable\", \"size\", or weights such as { encode = 1.0, decode = 0.0, ratio = 1.0 }"
)]
enum Written {
    Named(String),
    Weights(Weights),
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Weights {
    #[serde(default)]
    encode: f64,
    #[serde(default)]
    decode: f64,
    #[serde(default)]
    ratio: f64,
}

impl TryFrom<Written> for Least {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self> {
        let refuse = |what: String| Err(refuse(&what));
        match written {
            Written::Named(name) => match name.as_str() {
                "blocked" => Ok(Self(Objective::Blocked)),
                "durable" => Ok(Self(Objective::Durable)),
                "size" => Ok(Self(Objective::Size)),
                _ => refuse(format!(
                    "there is no objective '{name}': write \"blocked\", \"durable\", \"size\" or weights"
                )),
            },
            Written::Weights(Weights { encode, decode, ratio }) => {
                let all = [encode, decode, ratio];
                if all.iter().any(|weight| !weight.is_finite() || *weight < 0.0) || all.iter().sum::<f64>() == 0.0 {
                    return refuse(
                        "the weights of 'objective' are numbers that are not negative, and one of them is above 0"
                            .to_owned(),
                    );
                }
                Ok(Self(Objective::Weighted { encode, decode, ratio }))
            }
        }
    }
}

impl From<Least> for Written {
    fn from(Least(objective): Least) -> Self {
        match objective {
            Objective::Blocked => Self::Named("blocked".to_owned()),
            Objective::Durable => Self::Named("durable".to_owned()),
            Objective::Size => Self::Named("size".to_owned()),
            Objective::Weighted { encode, decode, ratio } => Self::Weights(Weights { encode, decode, ratio }),
        }
    }
}

#[cfg(test)]
mod tests {
    use knarr_array::error::ErrorKind;

    use super::*;
    use crate::{Config, FileRule};

    fn objective(text: &str) -> Result<Objective> {
        let tiers = "[[tier]]\nname = \"a\"\npath = \"a\"\n[[tier]]\nname = \"b\"\npath = \".\"\n";
        let rule = "[[file]]\npattern = \"*\"\nroute = \"stage\"\n";
        let config = Config::parse(&format!("{tiers}{rule}{text}\n"))?;
        let written = serde_json::to_string(&config.file[0]).unwrap();
        let again: FileRule = serde_json::from_str(&written).unwrap();
        assert_eq!(again, config.file[0], "{written}");
        Ok(config.file[0].stage().unwrap().objective())
    }

    #[test]
    fn an_objective_is_a_name_or_weights() {
        assert_eq!(objective("").unwrap(), Objective::Blocked);
        assert_eq!(objective("objective = \"blocked\"").unwrap(), Objective::Blocked);
        assert_eq!(objective("objective = \"durable\"").unwrap(), Objective::Durable);
        assert_eq!(objective("[file.stage]\nobjective = \"size\"").unwrap(), Objective::Size);
        let weighted = Objective::Weighted { encode: 1.0, decode: 0.0, ratio: 0.5 };
        assert_eq!(objective("objective = { encode = 1.0, ratio = 0.5 }").unwrap(), weighted);
    }

    #[test]
    fn other_objectives_are_refused_with_the_line() {
        for (text, what) in [
            ("objective = \"fast\"", "there is no objective 'fast'"),
            ("objective = 3", "objective"),
            ("objective = { speed = 1.0 }", "objective"),
            ("objective = { encode = -1.0 }", "not negative"),
            ("objective = { encode = 0.0 }", "above 0"),
        ] {
            let error = objective(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            let whole = format!("{error}");
            assert!(whole.contains(what), "{text}: {whole}");
        }
    }
}
