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
    /// Directory on a disk of each node. The path may differ between nodes. `None`: steps go to the directory of sets at once.
    pub local: Option<PathBuf>,
    /// Sets that stay on the node, at least 1.
    pub keep: usize,
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
    /// Without a directory on the nodes. With one two sets stay there, and all are brought to the directory of sets.
    fn default() -> Self {
        Self { local: None, keep: 2, flush: Every::Sets(1), protection: Protection::default() }
    }
}

impl LevelOptions {
    /// The directory on the node, if there is one.
    ///
    /// # Errors
    /// `Usage` if something is said of levels without it.
    pub fn local(&self) -> Result<Option<&PathBuf>> {
        match self.local.is_none() && *self != Self::default() {
            true => Err(Error::usage("options 'local_keep', 'flush' and 'protect' are for sets on the nodes")
                .hint("name a directory on a disk of each node: local=/local/scratch")),
            false => Ok(self.local.as_ref()),
        }
    }

    /// Sets what `key` stands for: `local`, `local_keep`, `flush` or `protect`. False for another key.
    ///
    /// # Errors
    /// `Usage` for values that mean nothing.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool> {
        match key {
            "local" if value.is_empty() => return Err(Error::usage("it names no directory")),
            "local" => self.local = Some(value.into()),
            "local_keep" => self.keep = count(value)?,
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
}
