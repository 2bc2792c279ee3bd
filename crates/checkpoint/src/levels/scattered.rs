//! A step that is read where it lies: each file of frames on one of the nodes that have it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use super::copying::{Copied, PIECE};
use super::flush::{Described, is_unreadable};
use super::node_sets::{At, Held};
use super::nodes::{Nodes, Reached, gathered};
use crate::disk::manifest::{Manifest, Store};
use crate::disk::parts::Parts;
use crate::disk::set::{Elsewhere, Set};
use crate::disk::sets;
use knarr_array::comm::{Comm, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::engine::Engine;

/// Files that cannot be read where they lie: the rank there, the name, and why.
pub(super) type Unreadable = Vec<(usize, String, Error)>;

/// Files of a set that this rank reads on other nodes.
pub(crate) struct OtherNodes {
    files: BTreeMap<String, Reached>,
}

/// A step that the program may still read on the nodes.
pub(super) struct Reading {
    pub(super) step: u64,
    /// Is gone when this rank does not read it any more.
    pub(super) by: Weak<OtherNodes>,
}

impl std::fmt::Debug for OtherNodes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.files.keys()).finish()
    }
}

impl Elsewhere for OtherNodes {
    fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    fn read(&self, name: &str, mut at: u64, out: &mut [u8]) -> Result<()> {
        let unknown = || Error::internal(format!("'{name}' is on no other node"));
        let from = self.files.get(name).ok_or_else(unknown)?;
        for out in out.chunks_mut(PIECE) {
            let piece = from
                .piece(name, at, out.len())
                .map_err(|error| error.hint("read what a restart needs before the checkpoints are closed"))?;
            if piece.len() != out.len() {
                return Err(Error::internal("a piece of another length than was asked for"));
            }
            out.copy_from_slice(&piece);
            at += piece.len() as u64;
        }
        Ok(())
    }
}

/// The set `wanted`, of which the nodes have parts in their `place`. All files are compared with their checksums, each on the node
/// where it will be read. `parts` are those of all ranks. Collective.
///
/// # Errors
/// On all ranks that of one of them: `NotFound` if a file is on no node.
pub(super) fn open(
    engine: &Engine,
    comm: &dyn Comm,
    (nodes, level, place): (Option<&Nodes>, usize, &Path),
    wanted: &Held,
    parts: &[Option<Held>],
) -> Result<Result<(Set, Arc<OtherNodes>), Unreadable>> {
    let part = sets::of_step(place, wanted.step);
    let Described { manifest, parts: described, mode } = Described::of(engine, comm, &part, wanted, parts)?;
    let holders = holders(&manifest, &described, parts, &wanted.id)?;
    let checked = check(engine, comm, &part, (&manifest, &described), &holders);
    let all = gathered(comm, &agree(comm, checked)?)?.into_iter().enumerate();
    let unreadable: Unreadable =
        all.flat_map(|(rank, own)| own.into_iter().map(move |(name, error)| (rank, name, error))).collect();
    if !unreadable.is_empty() {
        return Ok(Err(unreadable));
    }
    let unknown = || Error::internal("a node that is not known");
    let mut files = BTreeMap::new();
    for (name, rank) in holders.into_iter().filter(|(_, rank)| *rank != comm.node()) {
        files.insert(
            name,
            nodes.and_then(|nodes| nodes.part(rank, At { level, step: wanted.step })).ok_or_else(unknown)?,
        );
    }
    let others = Arc::new(OtherNodes { files });
    Ok(Ok((Set::on_nodes(part, manifest, mode, Arc::clone(&others) as Arc<dyn Elsewhere>), others)))
}

/// The node, by its lowest rank, on which each file is read: the one whose own ranks use it, if it has it. The others are dealt evenly.
fn holders(
    manifest: &Manifest,
    described: &Parts,
    parts: &[Option<Held>],
    id: &str,
) -> Result<BTreeMap<String, usize>> {
    let mut bytes: BTreeMap<usize, u64> = BTreeMap::new();
    let mut holders = BTreeMap::new();
    for store in &manifest.stores {
        let has =
            |held: &Option<Held>| held.as_ref().is_some_and(|held| held.id == id && held.here.contains(&store.name));
        let all = parts.iter().enumerate().filter(|(_, held)| has(held)).map(|(rank, _)| rank);
        let order = |rank: &usize| (!described.has(*rank, &store.name), bytes.get(rank).copied().unwrap_or(0));
        let rank = all.min_by_key(order).ok_or_else(|| {
            let what = format!("the file of frames '{}' is on none of the nodes", store.name);
            Error::new(ErrorKind::NotFound, what)
        })?;
        *bytes.entry(rank).or_default() += store.length;
        holders.insert(store.name.clone(), rank);
    }
    Ok(holders)
}

/// Reads what is on this node, and returns what is damaged.
fn check(
    engine: &Engine,
    comm: &dyn Comm,
    part: &Path,
    (manifest, described): (&Manifest, &Parts),
    holders: &BTreeMap<String, usize>,
) -> Result<Vec<(String, Error)>> {
    let own: Vec<&Store> =
        manifest.stores.iter().filter(|store| holders.get(&store.name) == Some(&comm.rank())).collect();
    let checked = engine.parallel(own.len(), |index| {
        let store = own.get(index).ok_or_else(|| Error::internal("no such file"))?;
        match Copied::of(store, described).and_then(|copied| copied.check(engine, part)) {
            Err(error) if is_unreadable(&error) => Ok(Some((store.name.clone(), error))),
            checked => checked.map(|()| None),
        }
    })?;
    Ok(checked.into_iter().flatten().collect())
}
