//! Files of sets that lie on other nodes: who needs them asks, and each node answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::copying::{PIECE, piece};
use super::node_sets::At;
use super::parity::file::ParityFile;
use crate::disk::set::{is_group, is_parity};
use crate::disk::sets;
use knarr_array::comm::{self, Comm};
use knarr_array::error::{Error, Result};
use knarr_link::{Answers, Link, Peer, Reach, Server, link_to, network};

/// A piece of a file of frames, or of parity, that lies on another node.
#[derive(Serialize, Deserialize)]
struct Question {
    at: At,
    name: String,
    /// Where it begins.
    begin: u64,
    length: usize,
}

/// What lies on this node.
struct NodeFiles {
    /// Of each level.
    places: Vec<PathBuf>,
}

impl Answers for NodeFiles {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        let unclear = |error: serde_json::Error| Error::usage(format!("a question that makes no sense: {error}"));
        let Question { at, name, begin, length } = serde_json::from_slice(question).map_err(unclear)?;
        if name.contains('/') || !(is_group(&name) || is_parity(&name)) || length > PIECE {
            return Err(Error::usage("a question for what is no piece of a file of frames or of parity"));
        }
        let place =
            self.places.get(at.level).ok_or_else(|| Error::usage("a question for a level that is not there"))?;
        any_piece(&sets::of_step(place, at.step), &name, begin, length)
    }
}

/// Reads a piece of a file of frames in `part`, or of the parity in a file of it.
fn any_piece(part: &Path, name: &str, at: u64, length: usize) -> Result<Vec<u8>> {
    match is_parity(name) {
        true => ParityFile::open(part, name)?.piece(at, length),
        false => piece(part, name, at, length),
    }
}

/// Where a part of a set can be read.
#[derive(Clone)]
pub(super) enum Reached {
    /// In this directory.
    Here(PathBuf),
    /// On another node, of this step there.
    There(Arc<dyn Link>, At),
}

impl Reached {
    /// Reads a piece of a file of frames, or of parity.
    ///
    /// # Errors
    /// `Read`, and those of the link.
    pub(super) fn piece(&self, name: &str, at: u64, length: usize) -> Result<Vec<u8>> {
        match self {
            Self::Here(part) => any_piece(part, name, at, length),
            Self::There(link, step) => {
                let question = Question { at: *step, name: name.to_owned(), begin: at, length };
                link.ask(&comm::written(&question)?)
            }
        }
    }
}

/// The nodes of a program, each of which answers for its places.
pub(super) struct Nodes {
    /// Of each level.
    places: Vec<PathBuf>,
    /// This rank.
    rank: usize,
    /// The lowest rank of each node.
    pub(super) makers: Vec<usize>,
    /// How these are asked.
    peers: BTreeMap<usize, Peer>,
    /// Answers for this node: of its lowest rank.
    server: Option<Server>,
}

impl Nodes {
    /// The nodes, each of which has its sets in its `places`, one for each level; `None` if there is one node. Collective.
    ///
    /// # Errors
    /// On all ranks that of one: no port, or no random numbers.
    pub(super) fn open(comm: &dyn Comm, places: &[PathBuf]) -> Result<Option<Self>> {
        let (rank, is_maker) = (comm.rank(), comm.node() == comm.rank());
        let makers: Vec<usize> = comm::nodes(comm)?.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        if makers.len() == 1 {
            return Ok(None);
        }
        let networks = gathered(comm, &network())?;
        let is_one = networks.iter().all(|other| other.is_some() && *other == networks[0]);
        let reach = if is_one { Reach::Here } else { Reach::Everywhere };
        let start = || {
            let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
            Server::start(&node, Arc::new(NodeFiles { places: places.to_owned() }), &reach)
        };
        let server = comm::agree(comm, is_maker.then(start).transpose())?;
        let peers: Vec<Option<Peer>> = gathered(comm, &server.as_ref().map(Server::peer))?;
        let peers = peers.into_iter().enumerate().filter_map(|(rank, peer)| Some((rank, peer?))).collect();
        Ok(Some(Self { places: places.to_owned(), rank, makers, peers, server }))
    }

    /// Leaves the connections to the process that has opened them.
    pub(super) fn forget(&mut self) {
        std::mem::forget(self.server.take());
    }

    /// The number of this rank's node among all; `None` for a rank that does nothing for its node.
    pub(super) fn own(&self) -> Option<usize> {
        self.makers.iter().position(|&maker| maker == self.rank)
    }

    /// The part of a step on the node with this lowest rank.
    pub(super) fn part(&self, node: usize, at: At) -> Option<Reached> {
        if node == self.rank {
            return Some(Reached::Here(sets::of_step(self.places.get(at.level)?, at.step)));
        }
        Some(Reached::There(link_to(self.peers.get(&node)?.clone()), at))
    }
}

/// True for the rank of a node that does for it what one has to do.
pub(super) fn is_maker(comm: &dyn Comm) -> bool {
    comm.rank() == comm.node()
}

/// The value of each rank, on all ranks. Collective.
pub(super) fn gathered<T: Serialize + serde::de::DeserializeOwned>(comm: &dyn Comm, mine: &T) -> Result<Vec<T>> {
    comm::all_gather(comm, &comm::written(mine)?)?.iter().map(|bytes| comm::read(bytes)).collect()
}
