//! Each node keeps a copy of what the node before it has packed, so that no step is lost with a node.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::copying::{Copied, PIECE, piece};
use crate::disk::parts::Parts;
use crate::disk::set::{Set, is_group};
use crate::disk::sets;
use knarr_array::comm::{self, Comm};
use knarr_array::error::{Error, Result};
use knarr_flow::engine::Engine;
use knarr_handover::Delivery;
use knarr_link::{Answers, Link, Peer, Reach, Server, link_to, network};

/// A piece of a file of frames that lies on another node.
#[derive(Serialize, Deserialize)]
struct Question {
    step: u64,
    name: String,
    at: u64,
    length: usize,
}

/// What lies on this node, for who keeps copies of it.
struct NodeFiles {
    place: PathBuf,
}

impl Answers for NodeFiles {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        let unclear = |error: serde_json::Error| Error::usage(format!("a question that makes no sense: {error}"));
        let Question { step, name, at, length } = serde_json::from_slice(question).map_err(unclear)?;
        if name.contains('/') || !is_group(&name) || length > PIECE {
            return Err(Error::usage("a question for what is no piece of a file of frames"));
        }
        piece(&sets::of_step(&self.place, step), &name, at, length)
    }
}

/// The node before this one, whose files this one keeps copies of.
pub(super) struct Partner {
    /// The lowest rank there.
    node: usize,
    link: Arc<dyn Link>,
}

/// Who keeps copies of what. The nodes are a ring.
pub(super) struct Ring {
    place: PathBuf,
    /// Of one rank of each node.
    partner: Option<Partner>,
    /// Answers for this node.
    server: Option<Server>,
}

impl Ring {
    /// The ring of nodes, each of which has its sets in its `place`; `None` if there is one node. Collective.
    ///
    /// # Errors
    /// On all ranks that of one: no port, or no random numbers.
    pub(super) fn open(comm: &dyn Comm, place: &Path) -> Result<Option<Self>> {
        let is_maker = comm.node() == comm.rank();
        let makers: Vec<usize> = comm::nodes(comm)?.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        if makers.len() == 1 {
            return Ok(None);
        }
        let networks = gathered(comm, &network())?;
        let is_one = networks.iter().all(|other| other.is_some() && *other == networks[0]);
        let reach = if is_one { Reach::Here } else { Reach::Everywhere };
        let start = || {
            let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
            Server::start(&node, Arc::new(NodeFiles { place: place.to_owned() }), &reach)
        };
        let server = comm::agree(comm, is_maker.then(start).transpose())?;
        let peers: Vec<Option<Peer>> = gathered(comm, &server.as_ref().map(Server::peer))?;
        let before = |own: usize| makers.get((own + makers.len() - 1) % makers.len()).copied();
        let node = makers.iter().position(|&maker| maker == comm.rank()).and_then(before);
        let partner = node.and_then(|node| Some(Partner { node, link: link_to(peers.get(node)?.clone()?) }));
        Ok(Some(Self { place: place.to_owned(), partner, server }))
    }

    /// Leaves the connections to the process that has opened them.
    pub(super) fn forget(&mut self) {
        std::mem::forget(self.server.take());
    }

    /// What this rank does to keep copies of a step.
    ///
    /// # Errors
    /// Those of reading its part.
    pub(super) fn protect(&self, engine: &Engine, step: u64) -> Result<Protect> {
        let path = sets::of_step(&self.place, step);
        let mut wanted = Vec::new();
        let link = match &self.partner {
            Some(partner) => {
                let (set, parts) = (Set::open(&path, &engine.codecs)?, Parts::read(&path)?);
                let theirs = set.manifest().stores.iter().filter(|store| parts.has(partner.node, &store.name));
                for store in theirs.filter(|store| !set.has_file(store)) {
                    wanted.push(Copied::of(store, &parts)?);
                }
                Some(Arc::clone(&partner.link))
            }
            None => None,
        };
        Ok(Protect { engine: engine.clone(), step, path, wanted, link })
    }
}

/// The value of each rank, on all ranks. Collective.
pub(super) fn gathered<T: Serialize + serde::de::DeserializeOwned>(comm: &dyn Comm, mine: &T) -> Result<Vec<T>> {
    comm::all_gather(comm, &comm::written(mine)?)?.iter().map(|bytes| comm::read(bytes)).collect()
}

/// Copies of a step that are being made.
pub(super) struct Protect {
    engine: Engine,
    step: u64,
    path: PathBuf,
    wanted: Vec<Copied>,
    link: Option<Arc<dyn Link>>,
}

impl Delivery for Protect {
    type Delivered = ();
    /// On rank 0 what failed.
    type Outcome = Option<Error>;

    fn deliver(&self) -> Result<()> {
        let Some(link) = &self.link else { return Ok(()) };
        self.wanted.iter().try_for_each(|wanted| {
            let ask = |at, length| {
                let question = Question { step: self.step, name: wanted.store.name.clone(), at, length };
                link.ask(&comm::written(&question)?)
            };
            wanted.make(&self.engine, &self.path, ask)
        })?;
        let synced = File::open(&self.path).and_then(|directory| directory.sync_all());
        synced.map_err(|error| Error::write(&self.path, &error))
    }

    /// A step without copies is a checkpoint still.
    fn finish(self, comm: &dyn Comm, delivered: Result<()>) -> Result<Option<Error>> {
        Ok(comm::collect(comm, &delivered.err())?.into_iter().flatten().flatten().next())
    }
}
