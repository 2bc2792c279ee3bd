//! How a program's file is made, as every door is told: by words.

use std::path::PathBuf;

use knarr_array::error::{Error, Result};
use knarr_array::quality::Quality;
use knarr_flow::engine::{Engine, parse_size};
use knarr_flow::settings::{Rule, Settings};
use knarr_handover::{OpenMemory, write_calls};

/// How a program's file is made.
#[derive(Clone)]
pub struct Options {
    /// Goal, readers, and what holds for all variables.
    pub settings: Settings,
    /// Replace a file that is there.
    pub replace: bool,
    /// Where values lie until the file is made; memory (`/dev/shm`) if nothing is named. All ranks have to see it.
    pub spool: Option<PathBuf>,
    /// Threads that make the file, at least 1. The program may compute meanwhile.
    pub jobs: usize,
    /// Bytes that making it may take, besides the values.
    pub max_mem: u64,
    /// The call, for the `history` of lossy files.
    pub command: String,
    /// How values are copied.
    pub memory: OpenMemory,
}

impl Default for Options {
    /// Lossless and balanced, a quarter of the cores, values written by calls.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            settings: Settings::default(),
            replace: false,
            spool: None,
            jobs: (cores / 4).max(1),
            max_mem: 1 << 30,
            command: "knarr".to_owned(),
            memory: write_calls,
        }
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
        let at = |error: Error| error.at(format!("option '{key}={value}'"));
        match key {
            "goal" => value.parse().map(|goal| self.settings.goal = goal),
            "portable" => value.parse().map(|level| self.settings.portable = Some(level)),
            "chain" => value.parse().map(|chain| self.settings.chain = Some(chain)),
            "chunks" => value.parse().map(|chunks| self.settings.chunks = chunks),
            "verify" => yes(value).map(|verify| self.settings.verify = verify),
            "replace" => yes(value).map(|replace| self.replace = replace),
            "spool" => {
                self.spool = Some(PathBuf::from(value));
                Ok(())
            }
            "jobs" => {
                let jobs = value.parse().ok().filter(|&jobs| jobs > 0);
                jobs.ok_or_else(|| Error::usage("not a whole number of at least 1")).map(|jobs| self.jobs = jobs)
            }
            "max_mem" => parse_size(value).map(|size| self.max_mem = size),
            _ if is_of_quality(key) => set_quality(&mut self.settings.quality, key, value),
            _ => Err(Error::usage("there is no such option")
                .hint(format!("options are {}, and bounds such as max_abs_error", WORDS.join(", ")))),
        }
        .map_err(at)
    }

    /// `engine` with the resources that are stated here.
    pub(super) fn engine(&self, engine: &Engine) -> Engine {
        Engine { jobs: self.jobs.max(1), max_mem: self.max_mem, cancel: std::sync::Arc::default(), ..engine.clone() }
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

fn yes(text: &str) -> Result<bool> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(Error::usage("neither yes nor no")),
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
        assert_eq!((options.jobs, options.max_mem, options.replace), (2, 1 << 30, true));
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
