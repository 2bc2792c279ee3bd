//! The text form of chains.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

use crate::codec::{CodecList, OptionDoc, OptionValue, Options};
use knarr_array::error::{Error, Result};

/// One step of a chain: codec name and the options that were written down.
#[derive(Debug, Clone, PartialEq)]
pub struct StepSpec {
    /// Name of the codec.
    pub name: String,
    /// First option's value, as in `zstd:3`.
    pub bare: Option<OptionValue>,
    /// Options given by name.
    pub options: Options,
}

impl StepSpec {
    /// A step without options.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), bare: None, options: Options::default() }
    }

    /// A step with its first option given, as in `zstd:3`.
    pub fn with_bare(name: &str, value: OptionValue) -> Self {
        Self { name: name.to_owned(), bare: Some(value), options: Options::default() }
    }

    /// The step that `text` describes; what is wrong with it otherwise.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (name, arguments) = match text.split_once(':') {
            Some((name, arguments)) => (name.trim(), Some(arguments)),
            None => (text.trim(), None),
        };
        if name.is_empty() {
            return Err("a name is missing");
        }
        if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_') {
            return Err("names are lower-case letters, digits, '-' and '_'");
        }
        let mut step = Self::new(name);
        for (position, item) in arguments.into_iter().flat_map(|text| text.split(',')).enumerate() {
            match item.split_once('=') {
                Some((name, value)) => {
                    step.options = std::mem::take(&mut step.options).with(name.trim(), parse_value(value)?);
                }
                None if position == 0 => step.bare = Some(parse_value(item)?),
                None => return Err("only the first option may stand without its name"),
            }
        }
        Ok(step)
    }

    /// The options, checked against `docs` and with defaults filled in. `owner` says whose they are: `codec 'zstd'`.
    ///
    /// # Errors
    /// `Usage` that names the owner and what is allowed.
    pub fn complete(&self, owner: &str, docs: &[OptionDoc]) -> Result<Options> {
        let mut options = self.options.clone();
        if let Some(value) = &self.bare {
            let Some(first) = docs.first() else {
                return Err(Error::usage(format!("{owner} takes no options, '{value}' given")));
            };
            options = options.with(first.name, value.clone());
        }
        options.complete(owner, docs)
    }

    /// A step with its first option a whole number.
    pub fn with_level(name: &str, level: i64) -> Self {
        Self::with_bare(name, OptionValue::Int(level))
    }
}

/// An ordered list of steps; empty means stored as it is.
///
/// Grammar: `step ('|' step)*`, `step = name [':' item (',' item)*]`, `item = value | name '=' value`,
/// where only the first item may be a bare value. `raw` stands for the empty chain.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChainSpec(pub Vec<StepSpec>);

impl ChainSpec {
    /// The chain that stores bytes as they are.
    pub fn raw() -> Self {
        Self(Vec::new())
    }

    /// True if nothing is done to the bytes.
    pub fn is_raw(&self) -> bool {
        self.0.is_empty()
    }

    /// A step that puts bytes in order for a compressor, and the step in front of it that leaves no order to be found.
    pub fn idle_step(&self, codecs: &CodecList) -> Option<(&str, &str)> {
        let shuffles = |step: &&StepSpec| ["shuffle", "bitshuffle"].contains(&step.name.as_str());
        let leaves_none = |step: &&StepSpec| {
            let codec = codecs.named(&step.name).ok();
            codec.is_some_and(|codec| !codec.leaves_order(&step.options))
        };
        let idle = self.0.iter().rposition(|step| shuffles(&step))?;
        let before = self.0.get(..idle)?.iter().rfind(leaves_none)?;
        Some((&self.0.get(idle)?.name, &before.name))
    }

    /// Checks every name and option against the codec list and returns the chain with all options spelled out.
    ///
    /// # Errors
    /// `Usage` that names the step and what is allowed.
    pub fn complete(&self, codecs: &CodecList) -> Result<Vec<(String, Options)>> {
        self.0
            .iter()
            .map(|step| {
                let codec = codecs.named(&step.name)?;
                Ok((step.name.clone(), step.complete(&owner(&step.name), codec.options())?))
            })
            .collect()
    }
}

/// Whose options those of a step are, for errors.
pub(crate) fn owner(codec: &str) -> String {
    format!("codec '{codec}'")
}

impl fmt::Display for StepSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let named = self.options.iter().map(|(name, value)| format!("{name}={value}"));
        let items: Vec<String> = self.bare.iter().map(ToString::to_string).chain(named).collect();
        if items.is_empty() { Ok(()) } else { write!(f, ":{}", items.join(",")) }
    }
}

impl fmt::Display for ChainSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_raw() {
            return f.write_str("raw");
        }
        let steps: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&steps.join(" | "))
    }
}

impl FromStr for ChainSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Error::usage(format!("chain '{text}': {why}")).hint("write it like 'shuffle | zstd:3' or 'raw'")
        };
        if text.trim() == "raw" {
            return Ok(Self::raw());
        }
        let steps = text.split('|').map(|step| StepSpec::parse(step).map_err(refuse)).collect::<Result<_>>()?;
        Ok(Self(steps))
    }
}

fn parse_value(text: &str) -> Result<OptionValue, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err("an option has no value");
    }
    if let Ok(value) = text.parse::<i64>() {
        return Ok(OptionValue::Int(value));
    }
    if let Ok(value) = text.parse::<f64>() {
        return Ok(OptionValue::Float(value));
    }
    Ok(OptionValue::Word(text.to_owned()))
}

impl Serialize for ChainSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChainSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in
            ["raw", "zstd", "shuffle | zstd:3", "quantize:abs=0.001 | bitshuffle:zstd,level=3", "zfp:accuracy=1e-5"]
        {
            let chain: ChainSpec = text.parse().unwrap();
            assert_eq!(chain.to_string().parse::<ChainSpec>().unwrap(), chain, "{text}");
        }
        assert_eq!("shuffle|deflate:5".parse::<ChainSpec>().unwrap().to_string(), "shuffle | deflate:5");
    }

    #[test]
    fn a_shuffle_behind_a_compressor_is_idle() {
        let codecs = CodecList::pure();
        let idle = |text: &str| {
            let chain: ChainSpec = text.parse().unwrap();
            chain.idle_step(&codecs).map(|(step, before)| format!("{step} behind {before}"))
        };
        assert_eq!(idle("snappy | shuffle").as_deref(), Some("shuffle behind snappy"));
        assert_eq!(idle("brotli:5 | bitshuffle | fletcher32").as_deref(), Some("bitshuffle behind brotli"));
        for text in ["raw", "shuffle | snappy", "lorenzo | shuffle", "fletcher32 | shuffle", "runs | shuffle", "signs"]
        {
            assert_eq!(idle(text), None, "{text}");
        }
    }

    #[test]
    fn bad_text_is_refused_with_advice() {
        for text in ["", "|", "shuffle | ", "Shuffle", "zstd:", "zstd:level=", "zstd:3,4", "a b"] {
            let error = text.parse::<ChainSpec>().unwrap_err();
            assert!(error.advice().is_some(), "{text}");
        }
    }
}
