//! A file whose ranks are on several nodes: each node holds a part, the values and logs of its own ranks.

use std::path::{Path, PathBuf};

use knarr_link::Peer;
use serde::{Deserialize, Serialize};

use knarr_array::path_bytes;

/// What one node holds of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePart {
    /// Its aggregator, which the others ask for its values.
    pub peer: Peer,
    /// Its spool.
    #[serde(with = "path_bytes")]
    pub spool: PathBuf,
    /// No other spool has this, on whatever node.
    pub token: String,
    /// Name of the directory in the spool.
    pub file: String,
    /// The ranks of the program that are on the node.
    pub ranks: Vec<usize>,
}

impl NodePart {
    /// The node, as users know it.
    pub fn node(&self) -> &str {
        &self.peer.node
    }

    /// The directory of the part.
    pub fn directory(&self) -> PathBuf {
        self.spool.join(&self.file)
    }

    /// True if a name can be that of a directory in a spool: names come from other nodes.
    pub fn is_name(name: &str) -> bool {
        !name.starts_with('.') && Path::new(name).file_name().is_some_and(|last| last == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_nowhere_else() {
        for name in ["", ".", "..", "/", "a/b", "../a", "a/..", ".hidden", "/etc"] {
            assert!(!NodePart::is_name(name), "{name}");
        }
        assert!(NodePart::is_name("123-0"));
    }
}
