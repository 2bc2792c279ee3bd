//! The other nodes that have values of a file.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use knarr_link::Link;

use crate::gather::rank_values::RankValues;

/// Other nodes, each once.
#[derive(Debug, Default)]
pub(crate) struct NodeList {
    nodes: Vec<Node>,
    /// By rank: the number of its node.
    of: Vec<Option<usize>>,
}

/// A node with values.
pub(crate) struct Node {
    pub(crate) link: Arc<dyn Link>,
    /// Name of the directory in the spool there.
    pub(crate) file: String,
    /// It does not encode chunks, or not in time. Nobody asks it again.
    declines: AtomicBool,
    /// It could not write chunks where they belong: their bytes come from it.
    sends: AtomicBool,
    /// It has written some.
    writes: AtomicBool,
    /// How often it was asked to keep chunks before.
    trials: AtomicUsize,
}

/// Chunks that a node is asked to keep before it has shown that it can write them: they are made again if it cannot.
const TRIALS: usize = 8;

impl fmt::Debug for Node {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Node").field("node", &self.link.node()).field("file", &self.file).finish_non_exhaustive()
    }
}

impl Node {
    /// True if it may be asked to encode.
    pub(crate) fn encodes(&self) -> bool {
        !self.declines.load(Ordering::Relaxed)
    }

    /// Nobody is to ask it again.
    pub(crate) fn decline(&self) {
        self.declines.store(true, Ordering::Relaxed);
    }

    /// True if it may be asked to keep what it has encoded.
    pub(crate) fn keeps(&self) -> bool {
        let may_try = || self.writes.load(Ordering::Relaxed) || self.trials.fetch_add(1, Ordering::Relaxed) < TRIALS;
        !self.sends.load(Ordering::Relaxed) && may_try()
    }

    /// It has written what it kept, or is to send what it encodes.
    pub(crate) fn has_written(&self, all: bool) {
        if all { &self.writes } else { &self.sends }.store(true, Ordering::Relaxed);
    }
}

impl NodeList {
    /// Those of the ranks.
    pub(crate) fn of(held: &[RankValues]) -> Self {
        let mut places = Self::default();
        for one in held {
            let number = match one {
                RankValues::Here { .. } => None,
                RankValues::There(remote) => {
                    let is_it = |node: &Node| Arc::ptr_eq(&node.link, &remote.link) && node.file == remote.file;
                    let known = places.nodes.iter().position(is_it);
                    Some(known.unwrap_or_else(|| {
                        let (link, file) = (Arc::clone(&remote.link), remote.file.clone());
                        places.nodes.push(Node {
                            link,
                            file,
                            declines: AtomicBool::new(false),
                            sends: AtomicBool::new(false),
                            writes: AtomicBool::new(false),
                            trials: AtomicUsize::new(0),
                        });
                        places.nodes.len() - 1
                    }))
                }
            };
            places.of.push(number);
        }
        places
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// One of them.
    pub(crate) fn node(&self, number: usize) -> Option<&Node> {
        self.nodes.get(number)
    }

    /// The node on which all of these ranks are, if there is one.
    pub(crate) fn common(&self, mut ranks: impl Iterator<Item = usize>) -> Option<usize> {
        let of = |rank: usize| self.of.get(rank).copied().flatten();
        let first = of(ranks.next()?)?;
        ranks.all(|rank| of(rank) == Some(first)).then_some(first)
    }
}
