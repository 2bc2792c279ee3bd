//! What each node keeps so that no step is lost with another one: a copy of what the node before it has packed, or parity of what
//! the nodes of its group have.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::copying::Copied;
use super::node_sets::{self, At};
use super::nodes::{Nodes, Reached};
use super::options::Protection;
use super::parity::coding::encode;
use super::parity::file::{self as parity_file, Head};
use super::parity::group::{ParityGroup, Source};
use super::parity::groups::groups;
use crate::disk::parts::Parts;
use crate::disk::set::Set;
use crate::disk::sets;
use knarr_array::comm::{self, Comm};
use knarr_array::error::{Error, Result};
use knarr_flow::engine::Engine;
use knarr_handover::Delivery;

/// What a rank does so that a step survives the loss of a node.
pub(super) struct Protect {
    engine: Engine,
    /// This node's part.
    part: PathBuf,
    work: Work,
}

enum Work {
    /// Another rank does it for the node.
    Nothing,
    /// Copies of these files are made, of the node before.
    Copies(Vec<Copied>, Reached),
    /// Parity of these files is computed.
    Parity(Head, BTreeMap<String, Reached>),
}

impl Protect {
    /// What this rank does for a step of which each node has its part in `place`.
    ///
    /// # Errors
    /// Those of reading this node's part.
    pub(super) fn begin(engine: &Engine, nodes: &Nodes, protection: Protection, place: &Path, at: At) -> Result<Self> {
        let part = sets::of_step(place, at.step);
        let work = match (nodes.own(), protection) {
            (None, _) | (_, Protection::None) => Work::Nothing,
            (Some(own), Protection::Partner) => copies(engine, nodes, own, &part, at)?,
            (Some(own), Protection::Parity { nodes: most, losses }) => {
                parity(engine, nodes, (own, most, losses), &part, at)?
            }
        };
        Ok(Self { engine: engine.clone(), part, work })
    }
}

/// Files that the node before this one uses, and this one has not. The nodes are a ring.
fn copies(engine: &Engine, nodes: &Nodes, own: usize, part: &Path, at: At) -> Result<Work> {
    let unknown = || Error::internal("a node that is not known");
    let count = nodes.makers.len();
    let before = *nodes.makers.get((own + count - 1) % count).ok_or_else(unknown)?;
    let (set, parts) = (Set::open(part, &engine.codecs)?, Parts::read(part)?);
    let theirs = set.manifest().stores.iter().filter(|store| parts.has(before, &store.name));
    let wanted = theirs.filter(|store| !set.has_file(store)).map(|store| Copied::of(store, &parts));
    Ok(Work::Copies(wanted.collect::<Result<_>>()?, nodes.part(before, at).ok_or_else(unknown)?))
}

/// The parity that this node keeps of what its group has.
fn parity(
    engine: &Engine,
    nodes: &Nodes,
    (own, most, losses): (usize, usize, usize),
    part: &Path,
    at: At,
) -> Result<Work> {
    let unknown = || Error::internal("a node that is not known");
    let range = groups(nodes.makers.len(), most, losses).into_iter().find(|group| group.contains(&own));
    let members = range.and_then(|range| nodes.makers.get(range)).ok_or_else(unknown)?;
    let node = *nodes.makers.get(own).ok_or_else(unknown)?;
    let (set, parts) = (Set::open(part, &engine.codecs)?, Parts::read(part)?);
    let group = ParityGroup::new(node_sets::id(&set)?, set.manifest(), &parts, members, losses);
    let mut files = BTreeMap::new();
    for member in &group.nodes {
        let reached = nodes.part(member.node, at).ok_or_else(unknown)?;
        files.extend(member.files.iter().map(|(name, _)| (name.clone(), reached.clone())));
    }
    Ok(Work::Parity(Head { node, group }, files))
}

impl Delivery for Protect {
    type Delivered = ();
    /// On rank 0 what failed.
    type Outcome = Option<Error>;

    fn deliver(&self) -> Result<()> {
        match &self.work {
            Work::Nothing => return Ok(()),
            Work::Copies(wanted, from) => wanted.iter().try_for_each(|wanted| {
                let read = |at, length| from.piece(&wanted.store.name, at, length);
                wanted.make(&self.engine, &self.part, read)
            })?,
            Work::Parity(head, files) => {
                let unknown = || Error::internal("parity of what is no file of the group");
                let read = |source: Source<'_>, at, length| match source {
                    Source::File(name) => files.get(name).ok_or_else(unknown)?.piece(name, at, length),
                    Source::Parity(_) => Err(unknown()),
                };
                let number = head.group.number(head.node).ok_or_else(unknown)?;
                parity_file::write(&self.part, head, |put| encode(&self.engine, &head.group, number, &read, put))?;
            }
        }
        let synced = File::open(&self.part).and_then(|directory| directory.sync_all());
        synced.map_err(|error| Error::write(&self.part, &error))
    }

    /// A step that is not protected is a checkpoint still.
    fn finish(self, comm: &dyn Comm, delivered: Result<()>) -> Result<Option<Error>> {
        Ok(comm::collect(comm, &delivered.err())?.into_iter().flatten().flatten().next())
    }
}
