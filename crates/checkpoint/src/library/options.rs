//! How a program's checkpoints are made, as every door of the library is told: by words.

use std::path::{Path, PathBuf};

use super::image::find;
use crate::layout::FileLayout;
use crate::{PackOptions, Similarity};
use knarr_array::error::{Error, Result};
use knarr_flow::engine::{Engine, parse_size};
use knarr_handover::{OpenMemory, write_calls};

/// How a program's checkpoints are made.
#[derive(Clone)]
pub struct Options {
    /// How sets are packed; `base` is the newest set of the directory, whatever is said here.
    pub pack: PackOptions,
    /// Where arrays lie until they are packed; if nothing is named, in memory (`/dev/shm`), or else in the directory of
    /// the sets. Ranks of one node have to see it alike.
    pub spool: Option<PathBuf>,
    /// Sets that stay, at least 1; older ones are removed after a new one is complete. `None`: all.
    pub keep: Option<usize>,
    /// Threads that a rank packs and restores with, at least 1. The program computes meanwhile.
    pub jobs: usize,
    /// Bytes that packing may take, besides the arrays that wait for it.
    pub max_mem: u64,
    /// Finds where values lie in files that are added.
    pub find: fn(&Path) -> Result<FileLayout>,
    /// How array files are written.
    pub memory: OpenMemory,
}

impl Default for Options {
    /// All sets stay; a quarter of the cores packs; files are carried as bytes; array files are written by calls.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            pack: PackOptions::default(),
            spool: None,
            keep: None,
            jobs: (cores / 4).max(1),
            max_mem: 1 << 30,
            find,
            memory: write_calls,
        }
    }
}

/// What can be said, with an example.
const WORDS: [(&str, &str); 11] = [
    ("keep", "3"),
    ("replace", "yes"),
    ("spool", "/dev/shm"),
    ("jobs", "2"),
    ("max_mem", "1G"),
    ("group_size", "32"),
    ("scheme", "auto"),
    ("block_size", "4096"),
    ("goal", "ratio"),
    ("bundle_below", "100"),
    ("verify", "no"),
];

impl Options {
    /// Sets what `key` stands for.
    ///
    /// # Errors
    /// `Usage` for words that mean nothing.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        self.set_one(key, value).map_err(|error| {
            let example = WORDS.iter().find(|(known, _)| *known == key).map(|(key, value)| format!("{key}={value}"));
            let error = error.at(format!("option '{key}={value}'"));
            match example {
                Some(example) => error.hint(format!("write it like {example}")),
                None => error.hint(format!("options are {}", WORDS.map(|(key, _)| key).join(", "))),
            }
        })
    }

    fn set_one(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "keep" => self.keep = Some(number(value)?),
            "replace" => self.pack.force = yes(value)?,
            "spool" => self.spool = Some(PathBuf::from(value)),
            "jobs" => self.jobs = number(value)?,
            "max_mem" => self.max_mem = parse_size(value)?,
            "group_size" => self.pack.group_size = number(value)?,
            "scheme" => self.pack.scheme = value.parse()?,
            "block_size" => self.pack.block_size = number(value)? as u64,
            "goal" => self.pack.goal = value.parse()?,
            "bundle_below" => self.pack.similarity = Similarity::new(&[], number(value)? as u64)?,
            "verify" => self.pack.verify = yes(value)?,
            _ => return Err(Error::usage("there is no such option")),
        }
        Ok(())
    }

    /// `engine` with the resources that are stated here, and a switch of its own: what ends here must not stop other work.
    pub(super) fn engine(&self, engine: &Engine) -> Engine {
        Engine { jobs: self.jobs.max(1), max_mem: self.max_mem, cancel: std::sync::Arc::default(), ..engine.clone() }
    }
}

fn number(text: &str) -> Result<usize> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| Error::usage("not a whole number of at least 1"))
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
        for (key, value) in WORDS {
            options.set(key, value).unwrap();
        }
        assert_eq!((options.keep, options.jobs, options.max_mem), (Some(3), 2, 1 << 30));
        assert!(options.pack.force && !options.pack.verify);
        for (key, value) in
            [("keep", "0"), ("keep", "-1"), ("replace", "true"), ("scheme", "best"), ("max_mem", "much")]
        {
            let text = options.set(key, value).unwrap_err().to_string();
            assert!(text.contains(&format!("option '{key}={value}'")) && text.contains("; "), "{text}");
        }
        let text = options.set("keeps", "3").unwrap_err().to_string();
        assert!(text.ends_with("options are keep, replace, spool, jobs, max_mem, group_size, scheme, block_size, goal, bundle_below, verify"), "{text}");
    }
}
