//! How a program's checkpoints are made, as every door of the library is told: by words.

use std::path::Path;
use std::time::Duration;

use super::array_layout::find;
use super::need::MTBF;
use crate::files::layout::FileLayout;
use crate::levels::LevelOptions;
use crate::{PackOptions, Similarity};
use knarr_array::error::{Error, Result};
use knarr_handover::{Resources, count, yes};

/// How a program's checkpoints are made.
#[derive(Clone)]
pub struct Options {
    /// How sets are packed; `base` is the newest set of the directory, whatever is said here.
    pub pack: PackOptions,
    /// Sets that stay, at least 1; older ones are removed after a new one is complete. `None`: all.
    pub keep: Option<usize>,
    /// Mean time between failures that end the program, over all nodes that it runs on.
    pub mtbf: Duration,
    /// When the job ends, in seconds since 1970; `None` if only the batch system may know.
    pub end: Option<u64>,
    /// If steps are complete on the nodes first.
    pub levels: LevelOptions,
    /// What packing and restoring may take on each rank.
    pub resources: Resources,
    /// Finds where values lie in files that are added.
    pub find: fn(&Path) -> Result<FileLayout>,
}

impl Default for Options {
    /// All sets stay; files are carried as bytes.
    fn default() -> Self {
        let (pack, resources) = (PackOptions::default(), Resources::default());
        Self { pack, keep: None, mtbf: MTBF, end: None, levels: LevelOptions::default(), resources, find }
    }
}

/// What can be said, with an example.
const WORDS: [(&str, &str); 20] = [
    ("keep", "3"),
    ("mtbf", "8h"),
    ("end", "1790000000"),
    ("memory", "/dev/shm"),
    ("memory_keep", "1"),
    ("local", "/local/scratch"),
    ("local_keep", "2"),
    ("local_every", "5"),
    ("flush", "10"),
    ("protect", "partner"),
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
            "keep" => self.keep = Some(count(value)?),
            "mtbf" => self.mtbf = time(value)?,
            "end" => self.end = Some(count(value)? as u64),
            "replace" => self.pack.force = yes(value)?,
            "group_size" => self.pack.group_size = count(value)?,
            "scheme" => self.pack.scheme = value.parse()?,
            "block_size" => self.pack.block_size = count(value)? as u64,
            "goal" => self.pack.goal = value.parse()?,
            "bundle_below" => self.pack.similarity = Similarity::new(&[], count(value)? as u64)?,
            "verify" => self.pack.verify = yes(value)?,
            _ if self.levels.set(key, value)? || self.resources.set(key, value)? => {}
            _ => return Err(Error::usage("there is no such option")),
        }
        Ok(())
    }
}

fn time(text: &str) -> Result<Duration> {
    let time = humantime::parse_duration(text).map_err(|error| Error::usage(error.to_string()))?;
    if time.is_zero() { Err(Error::usage("it is no time")) } else { Ok(time) }
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
        assert_eq!((options.keep, options.resources.jobs, options.resources.max_mem), (Some(3), 2, 1 << 30));
        assert!(options.pack.force && !options.pack.verify);
        for (key, value) in [
            ("mtbf", "long"),
            ("end", "noon"),
            ("keep", "0"),
            ("keep", "-1"),
            ("flush", "0"),
            ("local_every", "0"),
            ("local_every", "seldom"),
            ("memory_keep", "0"),
            ("memory", ""),
            ("flush", "often"),
            ("protect", "mirror"),
            ("replace", "true"),
            ("scheme", "best"),
            ("max_mem", "much"),
        ] {
            let text = options.set(key, value).unwrap_err().to_string();
            assert!(text.contains(&format!("option '{key}={value}'")) && text.contains("; "), "{text}");
        }
        let text = options.set("keeps", "3").unwrap_err().to_string();
        assert!(text.ends_with("options are keep, mtbf, end, memory, memory_keep, local, local_keep, local_every, flush, protect, replace, spool, jobs, max_mem, group_size, scheme, block_size, goal, bundle_below, verify"), "{text}");
    }
}
