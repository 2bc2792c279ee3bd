//! Files that are compressed as they are written: what can be promised for them, and what was learnt of them.
//!
//! What one run learns is kept for the next in `.knarr/learned.json` beside the configuration.

use std::path::{Path, PathBuf};

use knarr_array::array::{ArraySpec, DType};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::Prescription;
use knarr_codec::chain::{Chain, ChainSpec};
use knarr_codec::client_data::{ClientData, Wishes};
use knarr_codec::codec::{CodecList, FilterSet, Loss, REGISTERED, ReaderLevel};
use knarr_config::{Config, FileRule};
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;
/// Elements of the chunks that chains are tried for before it is known what programs write.
const ANY_CHUNK: usize = 4096;

/// What the user asked for, as prescriptions.
///
/// # Errors
/// `Unsupported` or `Quality` for what cannot be done while a program writes.
pub(in crate::launch) fn asked(config: &Config, codecs: &CodecList) -> Result<Vec<Prescription>> {
    let mut asked = Vec::new();
    for (number, rule) in config.file.iter().enumerate() {
        if rule.compresses_writes() {
            check(rule, number, codecs, &mut asked)
                .map_err(|error| error.at(format!("[[file]] pattern '{}'", rule.pattern)))?;
        }
    }
    Ok(asked)
}

/// The filters that may be chosen here: programs are asked which of them they have.
pub(in crate::launch) fn filters(codecs: &CodecList) -> FilterSet {
    REGISTERED.iter().map(|filter| filter.id).filter(|&id| codecs.for_hdf5(id).next().is_some()).collect()
}

/// Adds what one rule asks for.
fn check(rule: &FileRule, number: usize, codecs: &CodecList, asked: &mut Vec<Prescription>) -> Result<()> {
    let settings = rule.settings()?;
    let own = settings.portable == Some(ReaderLevel::Knarr);
    for wanted in &settings.rules {
        let lossless = wanted.quality.is_none_or(|quality| quality.is_lossless());
        if !lossless && !own {
            return Err(Error::new(
                ErrorKind::Quality,
                "standard filters cannot hold a bound while the program writes",
            )
            .hint(
                "set portable to \"knarr\" (readers then need Knarr's plugin), when to \"close\", or the quality \
                     to \"lossless\"",
            )
            .at_variable(&wanted.pattern));
        }
        if !lossless && wanted.chain.is_some() {
            return Err(Error::new(
                ErrorKind::Quality,
                "a chain of standard filters cannot hold a bound while the program writes",
            )
            .hint("leave the chain to Knarr's filter, or set when to \"close\"")
            .at_variable(&wanted.pattern));
        }
        if let Some(chain) = &wanted.chain {
            prescribe(chain, codecs, |dtype, filters| {
                let (variable, chain) = (wanted.pattern.clone(), chain.to_string());
                asked.push(Prescription { rule: number, variable, dtype, chain, filters, asked: true });
            })
            .map_err(|error| error.at_variable(&wanted.pattern))?;
        }
    }
    if own {
        // What the filter is told must fit into its client data.
        ClientData { wishes: Wishes { goal: settings.goal, ..Wishes::default() }, chunks: None }.words()?;
    }
    Ok(())
}

/// The chain as filters, for each element type that it serves.
fn prescribe(
    chain: &ChainSpec,
    codecs: &CodecList,
    mut add: impl FnMut(DType, Vec<knarr_array::filter::Hdf5Filter>),
) -> Result<()> {
    let mut refused = None;
    let mut serves = false;
    for dtype in DType::NUMBERS {
        match Chain::prepare(codecs, chain, &ArraySpec::new(dtype, vec![ANY_CHUNK])) {
            Err(error) => refused = Some(error),
            Ok(prepared) => {
                let filters = prepared.hdf5_pipeline().filter(|_| prepared.loss() == Loss::Lossless);
                let filters = filters.ok_or_else(|| {
                    Error::unsupported(format!("the chain '{chain}' is no lossless pipeline of standard HDF5 filters"))
                        .hint("choose another chain, or set when to \"close\"")
                })?;
                serves = true;
                add(dtype, filters);
            }
        }
    }
    if serves { Ok(()) } else { Err(refused.unwrap_or_else(|| Error::internal("no element types"))) }
}

/// What earlier runs learnt.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::launch) struct Learnt {
    version: u32,
    variables: Vec<Known>,
}

/// One prescription, and the rule it was learnt under.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    pattern: String,
    goal: Option<String>,
    portable: Option<String>,
    #[serde(flatten)]
    prescription: Prescription,
}

impl Known {
    fn is_for(&self, rule: &FileRule) -> bool {
        let FileRule { pattern, compress, .. } = rule;
        (self.pattern.as_str(), &self.goal, &self.portable) == (pattern.as_str(), &compress.goal, &compress.portable)
    }
}

/// Where Knarr keeps what it needs between runs and while it packs: beside the configuration.
pub(in crate::launch) fn directory(config: &Path) -> PathBuf {
    let config = std::path::absolute(config).unwrap_or_else(|_| config.to_owned());
    config.parent().unwrap_or(Path::new("/")).join(crate::launch::spools::scratch::NAME)
}

/// Where what was learnt lies.
pub(in crate::launch) fn path(config: &Path) -> PathBuf {
    directory(config).join("learned.json")
}

impl Learnt {
    /// What is there; nothing if there is nothing, or of another version.
    pub(in crate::launch) fn read(path: &Path) -> Self {
        let found = std::fs::read(path).ok().and_then(|text| serde_json::from_slice::<Self>(&text).ok());
        found.filter(|learnt| learnt.version == VERSION).unwrap_or_default()
    }

    /// What holds for the rules of `config`, with their numbers now.
    pub(in crate::launch) fn prescriptions(&self, config: &Config) -> Vec<Prescription> {
        let writing = |rule: &&(usize, &FileRule)| rule.1.compresses_writes();
        let rules: Vec<(usize, &FileRule)> = config.file.iter().enumerate().collect();
        self.variables
            .iter()
            .filter_map(|known| {
                let (rule, _) = rules.iter().filter(writing).find(|(_, rule)| known.is_for(rule))?;
                Some(Prescription { rule: *rule, ..known.prescription.clone() })
            })
            .collect()
    }

    /// Takes in what was learnt, in place of what was known of the same variables.
    pub(in crate::launch) fn take(&mut self, learnt: &[Prescription], config: &Config) {
        for prescription in learnt {
            let Some(rule) = config.file.get(prescription.rule) else { continue };
            self.variables.retain(|known| {
                !(known.is_for(rule)
                    && known.prescription.variable == prescription.variable
                    && known.prescription.dtype == prescription.dtype)
            });
            self.variables.push(Known {
                pattern: rule.pattern.as_str().to_owned(),
                goal: rule.compress.goal.clone(),
                portable: rule.compress.portable.clone(),
                prescription: prescription.clone(),
            });
        }
    }

    /// Keeps it for the next run.
    ///
    /// # Errors
    /// `Write`.
    pub(in crate::launch) fn save(&mut self, path: &Path) -> Result<()> {
        self.version = VERSION;
        let text = serde_json::to_vec_pretty(self).map_err(|error| Error::internal(error.to_string()))?;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|error| Error::write(directory, &error))?;
        }
        knarr_flow::output::replace(path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(&format!("[[file]]\npattern = \"a*\"\n[[file]]\npattern = \"*\"\nwhen = \"write\"\n{text}"))
            .unwrap()
    }

    fn codecs() -> CodecList {
        knarr_native::codecs().unwrap()
    }

    #[test]
    fn what_cannot_be_done_while_a_program_writes_is_refused() {
        for text in [
            "variables.T.max_abs_error = 0.1",
            "variables.\"*\".significant_digits = 3",
            "variables.T.chain = \"lorenzo:2 | shuffle | zstd:1\"",
            "variables.T.chain = \"grid\"",
            "portable = \"standard\"\nvariables.T.max_abs_error = 0.1",
            "portable = \"knarr\"\nvariables.T.chain = \"grid\"",
            "portable = \"knarr\"\nvariables.T = { chain = \"shuffle | zstd\", max_abs_error = 0.1 }",
        ] {
            assert!(asked(&config(text), &codecs()).is_err(), "{text}");
        }
        let bound = asked(&config("portable = \"knarr\"\nvariables.T.max_abs_error = 0.1"), &codecs());
        assert!(bound.unwrap().is_empty(), "Knarr's filter holds bounds and chooses chains by itself");
    }

    #[test]
    fn chains_become_filters() {
        let found =
            asked(&config("variables.T.chain = \"shuffle | zstd:3\"\nvariables.U.chain = \"raw\""), &codecs()).unwrap();
        let of = |name: &str| {
            let one = found.iter().find(|one| one.variable == name && one.dtype == DType::F32).unwrap();
            assert_eq!(one.rule, 1);
            one.filters.iter().map(|filter| filter.id).collect::<Vec<_>>()
        };
        assert_eq!(of("T"), [2, 32015]);
        assert_eq!(of("U"), [0; 0]);
    }

    #[test]
    fn what_was_learnt_holds_for_the_same_rule() {
        let directory = std::env::temp_dir().join(format!("knarr-learnt-{}", std::process::id()));
        let path = path(&directory.join("knarr.toml"));
        let mut learnt = Learnt::read(&path);
        let filters = vec![];
        let one = Prescription {
            rule: 1,
            variable: "/T".into(),
            dtype: DType::F32,
            chain: "x".into(),
            filters,
            asked: false,
        };
        learnt.take(&[one.clone(), Prescription { chain: "y".into(), ..one.clone() }], &config(""));
        learnt.save(&path).unwrap();
        let again = Learnt::read(&path).prescriptions(&config(""));
        assert_eq!(again, [Prescription { chain: "y".into(), ..one }]);
        assert!(Learnt::read(&path).prescriptions(&config("goal = \"ratio\"")).is_empty());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
