//! Copies what a node has of a step in memory to its disk: its own files, and the copies or parity that it keeps for others.

use std::path::PathBuf;

use super::copying::{Copied, piece};
use super::flush::{New, link, mode_of, stage};
use super::node_sets;
use super::parity::file::{self as parity_file, ParityFile};
use crate::disk::parts::Parts;
use crate::disk::set::Set;
use crate::disk::sets;
use knarr_array::comm::{self, Comm, agree};
use knarr_array::error::{Error, Result};
use knarr_flow::engine::Engine;
use knarr_handover::Delivery;

/// A step on its way to the disks of the nodes.
pub(super) struct Store {
    pub(super) engine: Engine,
    /// Where it is on this node, and where it goes. `None` for a rank that does nothing for its node.
    pub(super) way: Option<(PathBuf, PathBuf)>,
}

impl Delivery for Store {
    type Delivered = Option<New>;
    type Outcome = ();

    fn deliver(&self) -> Result<Option<New>> {
        // A node that was replaced has no part.
        let Some((from, to)) = self.way.as_ref().filter(|(from, _)| from.exists()) else { return Ok(None) };
        let held = node_sets::part(from, &self.engine.codecs)?;
        let (set, parts) = (Set::open(from, &self.engine.codecs)?, Parts::read(from)?);
        let newest = sets::completed(sets::directory_of(to))?.pop();
        let newest = newest.and_then(|path| Set::open(&path, &self.engine.codecs).ok());
        let staging = stage(to)?;
        let own = set.manifest().stores.iter().filter(|store| held.here.contains(&store.name));
        for store in own.filter(|store| !link(store, set.manifest(), newest.as_ref(), staging.dir())) {
            let read = |at, length| piece(from, &store.name, at, length);
            Copied::of(store, &parts)?.make(&self.engine, staging.dir(), read)?;
        }
        for node in held.parity.keys() {
            ParityFile::open(from, &parity_file::name(*node))?.copy(&self.engine, staging.dir())?;
        }
        let (manifest, mode) = (set.manifest().clone(), mode_of(from));
        Ok(Some(New { staging, manifest, mode, when: held.when, part: Some((parts, held.here)) }))
    }

    /// All nodes have it there, or none.
    fn finish(self, comm: &dyn Comm, delivered: Result<Option<New>>) -> Result<()> {
        let new = agree(comm, delivered)?;
        let published = new.map(|new| new.publish(&self.engine)).transpose();
        let all = comm::collect(comm, &published.as_ref().err().cloned())?;
        let failed: Option<Error> = all.and_then(|all| all.into_iter().flatten().next());
        match comm::share(comm, &failed)? {
            None => Ok(()),
            Some(error) => {
                if let (Ok(Some(())), Some((_, to))) = (published, &self.way) {
                    let _ = sets::remove(to);
                }
                Err(error)
            }
        }
    }
}
