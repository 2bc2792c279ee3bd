//! How steps go through levels, as every door of the library is told it: by words.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::schedule::Every;
use knarr_array::error::{Error, Result};
use knarr_handover::count;

/// How steps go through levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelOptions {
    /// Directory in the memory of each node, where steps are complete first. The path may differ between nodes. `None`: they are complete
    /// in `local` first.
    pub memory: Option<PathBuf>,
    /// Sets that stay in memory, at least 1.
    pub memory_keep: usize,
    /// Directory on a disk of each node. The path may differ between nodes. Without this and `memory`, steps go to the directory of sets
    /// at once.
    pub local: Option<PathBuf>,
    /// Sets that stay there, at least 1.
    pub local_keep: usize,
    /// Which of those in memory are copied there.
    pub local_every: Every,
    /// Which of them are brought to the directory of sets. The last one of a session always is.
    pub flush: Every,
    /// What keeps a step when a node is lost.
    pub protection: Protection,
}

/// What keeps a step when a node is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// Nothing: the steps that are in the directory of sets stay.
    None,
    /// The next node has a copy of each file.
    #[default]
    Partner,
    /// The nodes of a group keep parity of what they have.
    Parity {
        /// Nodes of a group. It may have a few more, so that each has more than may be lost.
        nodes: usize,
        /// Nodes of a group that may be lost together. It may be fewer if there are not more nodes in all.
        losses: usize,
    },
}

/// Nodes of a group that keeps parity, if nobody says how many.
const NODES: usize = 8;
/// At most so many: a node reads from all others of its group at a time.
const MOST_NODES: usize = 64;

impl std::str::FromStr for Protection {
    type Err = Error;

    /// What the words `none`, `partner`, `parity`, `parity:8` or `parity:8+2` stand for.
    fn from_str(text: &str) -> Result<Self> {
        let (word, rest) = text.split_once(':').map_or((text, None), |(word, rest)| (word, Some(rest)));
        match (word, rest) {
            ("none", None) => Ok(Self::None),
            ("partner", None) => Ok(Self::Partner),
            ("parity", rest) => {
                let (nodes, losses) = match rest.map(|rest| rest.split_once('+').unwrap_or((rest, "1"))) {
                    Some((nodes, losses)) => (count(nodes)?, count(losses)?),
                    None => (NODES, 1),
                };
                if !(2..=MOST_NODES).contains(&nodes) {
                    return Err(Error::usage(format!("groups of {nodes} nodes; they have 2 to {MOST_NODES}")));
                }
                if losses >= nodes {
                    let what = format!("a group of {nodes} nodes cannot lose {losses}: one has to stay");
                    return Err(Error::usage(what));
                }
                Ok(Self::Parity { nodes, losses })
            }
            _ => Err(Error::usage("neither none, partner nor parity, as in parity:8+2")),
        }
    }
}

impl Default for LevelOptions {
    /// Without a directory on the nodes. With `local` two sets stay there, with `memory` one, and all are brought further.
    fn default() -> Self {
        Self {
            memory: None,
            memory_keep: 1,
            local: None,
            local_keep: 2,
            local_every: Every::Sets(1),
            flush: Every::Sets(1),
            protection: Protection::default(),
        }
    }
}

impl LevelOptions {
    /// Directories on the node, the fastest first, each with the option that names it and the sets that stay there.
    ///
    /// # Errors
    /// `Usage` if something is said of levels that there are not.
    pub(super) fn places(&self) -> Result<Vec<(&'static str, &PathBuf, usize)>> {
        let default = Self::default();
        let needs = |what: &str, example: &str| Err(Error::usage(what).hint(format!("name it: {example}")));
        let (memory, local) = (self.memory.as_ref(), self.local.as_ref());
        if memory.is_none() && self.memory_keep != default.memory_keep {
            return needs("option 'memory_keep' is for sets in the memory of nodes", "memory=/dev/shm");
        }
        if local.is_none() && self.local_keep != default.local_keep {
            return needs("option 'local_keep' is for sets on a disk of each node", "local=/local/scratch");
        }
        if (memory.is_none() || local.is_none()) && self.local_every != default.local_every {
            let what = "option 'local_every' is for sets that are in memory before they are on a disk of the node";
            return needs(what, "memory=/dev/shm local=/local/scratch");
        }
        if memory.or(local).is_none() && (self.flush, self.protection) != (default.flush, default.protection) {
            let what = "options 'flush' and 'protect' are for sets on the nodes";
            return needs(what, "a directory on a disk of each node, local=/local/scratch");
        }
        if memory.is_some() && memory == local {
            return Err(Error::usage("options 'memory' and 'local' name one directory")
                .hint("name one in memory, such as /dev/shm, and one on a disk, or leave one of them out"));
        }
        let places = [
            memory.map(|place| ("memory", place, self.memory_keep)),
            local.map(|place| ("local", place, self.local_keep)),
        ];
        Ok(places.into_iter().flatten().collect())
    }

    /// Checks what cannot be.
    ///
    /// # Errors
    /// `Usage` if something is said of levels that there are not.
    pub fn check(&self) -> Result<()> {
        self.places().map(drop)
    }

    /// Sets what `key` stands for: `memory`, `memory_keep`, `local`, `local_keep`, `local_every`, `flush` or `protect`. False for another
    /// key.
    ///
    /// # Errors
    /// `Usage` for values that mean nothing.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool> {
        match key {
            "memory" | "local" if value.is_empty() => return Err(Error::usage("it names no directory")),
            "memory" => self.memory = Some(value.into()),
            "memory_keep" => self.memory_keep = count(value)?,
            "local" => self.local = Some(value.into()),
            "local_keep" => self.local_keep = count(value)?,
            "local_every" => self.local_every = every(value)?,
            "flush" => self.flush = every(value)?,
            "protect" => self.protection = value.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A number of sets, or a time.
fn every(value: &str) -> Result<Every> {
    if let Ok(sets) = count(value) {
        return Ok(Every::Sets(sets as u64));
    }
    let time = humantime::parse_duration(value).ok().filter(|&time| time > Duration::ZERO);
    time.map(Every::Time)
        .ok_or_else(|| Error::usage("neither a number of checkpoints, such as 10, nor a time, such as 30m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_keeps_a_step() {
        let parity = |nodes, losses| Protection::Parity { nodes, losses };
        let words = ["none", "partner", "parity", "parity:4", "parity:8+2"];
        let meant = [Protection::None, Protection::Partner, parity(8, 1), parity(4, 1), parity(8, 2)];
        for (word, meant) in words.iter().zip(meant) {
            assert_eq!(word.parse::<Protection>().unwrap(), meant);
        }
        for (word, why) in [
            ("mirror", "neither none, partner nor parity"),
            ("none:2", "neither none"),
            ("parity:", "number"),
            ("parity:1", "they have 2 to 64"),
            ("parity:65", "they have 2 to 64"),
            ("parity:4+4", "one has to stay"),
            ("parity:4+0", "number"),
            ("parity:4+1+1", "number"),
        ] {
            let text = word.parse::<Protection>().unwrap_err().to_string();
            assert!(text.contains(why), "{word}: {text}");
        }
    }

    #[test]
    fn what_is_said_of_a_level_needs_it() {
        let said = |words: &[(&str, &str)]| {
            let mut options = LevelOptions::default();
            words.iter().for_each(|(key, value)| assert!(options.set(key, value).unwrap()));
            options
        };
        let names = |options: &LevelOptions| {
            options.places().unwrap().iter().map(|(name, _, keep)| (*name, *keep)).collect::<Vec<_>>()
        };
        let (memory, local) = (("memory", "/dev/shm"), ("local", "/local/scratch"));
        assert_eq!(names(&said(&[])), []);
        assert_eq!(
            names(&said(&[local, memory, ("local_every", "5"), ("memory_keep", "3")])),
            [("memory", 3), ("local", 2)]
        );
        assert_eq!(names(&said(&[memory, ("flush", "10"), ("protect", "none")])), [("memory", 1)]);
        for (words, why) in [
            (&[("memory_keep", "2"), local][..], "'memory_keep' is for sets in the memory"),
            (&[("local_keep", "3"), memory], "'local_keep' is for sets on a disk"),
            (&[("local_every", "3"), memory], "'local_every' is for sets that are in memory before"),
            (&[("local_every", "1h"), local], "'local_every' is for sets that are in memory before"),
            (&[("flush", "2")], "'flush' and 'protect'"),
            (&[("protect", "none")], "'flush' and 'protect'"),
            (&[("memory", "/local/scratch"), local], "name one directory"),
        ] {
            let text = said(words).check().unwrap_err().to_string();
            assert!(text.contains(why), "{words:?}: {text}");
        }
    }
}
