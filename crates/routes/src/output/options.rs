//! How a program's file is made, as every door is told: by words.

use knarr_array::error::{Error, Result};
use knarr_array::quality::Quality;
use knarr_flow::settings::{Rule, Settings};
use knarr_handover::{Resources, yes};

/// How a program's file is made.
#[derive(Clone)]
pub struct Options {
    /// Goal, readers, and what holds for all variables.
    pub settings: Settings,
    /// Replace a file that is there.
    pub replace: bool,
    /// What making the file may take, on the rank that makes it. All ranks have to see the spool.
    pub resources: Resources,
    /// The call, for the `history` of lossy files.
    pub command: String,
}

impl Default for Options {
    /// Lossless and balanced.
    fn default() -> Self {
        let (settings, resources) = (Settings::default(), Resources::default());
        Self { settings, replace: false, resources, command: "knarr".to_owned() }
    }
}

/// What can be said besides what may change.
const WORDS: [&str; 9] = ["goal", "portable", "chain", "chunks", "verify", "replace", "spool", "jobs", "max_mem"];

impl Options {
    /// Sets what `key` stands for.
    ///
    /// # Errors
    /// `Usage` for words that mean nothing.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        self.set_one(key, value).map_err(|error| error.at(format!("option '{key}={value}'")))
    }

    fn set_one(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "goal" => self.settings.goal = value.parse()?,
            "portable" => self.settings.portable = Some(value.parse()?),
            "chain" => self.settings.chain = Some(value.parse()?),
            "chunks" => self.settings.chunks = value.parse()?,
            "verify" => self.settings.verify = yes(value)?,
            "replace" => self.replace = yes(value)?,
            _ if self.resources.set(key, value)? => {}
            _ if is_of_quality(key) => set_quality(&mut self.settings.quality, key, value)?,
            _ => {
                return Err(Error::usage("there is no such option")
                    .hint(format!("options are {}, and bounds such as max_abs_error", WORDS.join(", "))));
            }
        }
        Ok(())
    }
}

/// What is wished for a variable, in words of `knarr.toml`.
///
/// # Errors
/// `Usage` for words that mean nothing.
pub(super) fn rule(variable: &str, wishes: &[(String, String)]) -> Result<Rule> {
    let mut rule = Rule { pattern: variable.to_owned(), ..Rule::default() };
    for (key, value) in wishes {
        match key.as_str() {
            "chain" => value.parse().map(|chain| rule.chain = Some(chain)),
            "chunks" => value.parse().map(|chunks| rule.chunks = Some(chunks)),
            _ if is_of_quality(key) => set_quality(rule.quality.get_or_insert(Quality::LOSSLESS), key, value),
            _ => Err(Error::usage("there is no such wish")
                .hint("wishes are chain, chunks, quality and bounds such as max_abs_error")),
        }
        .map_err(|error| error.at(format!("wish '{key}={value}'")))?;
    }
    Ok(rule)
}

fn is_of_quality(key: &str) -> bool {
    let is_bound = |key: &str| key.starts_with("max_") || key.starts_with("exact_") || key.starts_with("significant_");
    key == "quality" || key == "finest_abs_error" || is_bound(key)
}

fn set_quality(quality: &mut Quality, key: &str, value: &str) -> Result<()> {
    match key {
        "quality" => value.parse().map(|whole| *quality = whole),
        _ => quality.set(key, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_taken_and_mistakes_are_explained() {
        let mut options = Options::default();
        let examples = ["ratio", "core", "shuffle | zstd:3", "1x20", "no", "yes", "/tmp", "2", "1G"];
        for (key, value) in WORDS.iter().zip(examples) {
            options.set(key, value).unwrap();
        }
        options.set("max_abs_error", "0.5").unwrap();
        assert_eq!((options.resources.jobs, options.resources.max_mem, options.replace), (2, 1 << 30, true));
        assert_eq!(options.settings.quality.max_abs_error, Some(0.5));
        for (key, value) in
            [("jobs", "0"), ("replace", "true"), ("goals", "ratio"), ("max_error", "1"), ("chunks", "a")]
        {
            let text = options.set(key, value).unwrap_err().to_string();
            assert!(text.contains(&format!("option '{key}={value}'")), "{text}");
        }
    }

    #[test]
    fn wishes_become_a_rule() {
        let wishes = |list: &[(&str, &str)]| {
            let list: Vec<_> = list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            rule("T", &list)
        };
        let found = wishes(&[("max_rel_error", "0.01"), ("chunks", "1x5"), ("chain", "zstd")]).unwrap();
        assert_eq!((found.quality.unwrap().max_rel_error, found.pattern.as_str()), (Some(0.01), "T"));
        assert!(wishes(&[("quality", "lossless")]).unwrap().quality.unwrap().is_lossless());
        for bad in [("goal", "ratio"), ("max_abs_error", "x"), ("chunk", "1")] {
            assert!(wishes(&[bad]).unwrap_err().to_string().contains(bad.0));
        }
    }
}
