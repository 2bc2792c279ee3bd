//! A level on the nodes: a directory in memory, or on a disk of each node.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::node_sets::{self, Held, held};
use super::nodes::{gathered, is_maker};
use super::options::Protection;
use crate::disk::sets;
use knarr_array::comm::{Comm, agree};
use knarr_array::error::{Error, Result};
use knarr_flow::engine::Engine;
use knarr_flow::output::temporary_name;

/// A level on the nodes.
pub(super) struct Level {
    /// The option that names it.
    pub(super) name: &'static str,
    /// Where this node has its parts.
    pub(super) place: PathBuf,
    /// Sets that stay there.
    pub(super) keep: usize,
    /// The step that came last in this session.
    pub(super) newest: Option<u64>,
    /// The last one that survives the loss of a node.
    pub(super) covered: Option<u64>,
    /// Of one rank of each node.
    _lock: Option<File>,
}

/// Name of the file in the place of a node that says which rank has it.
const MARK: &str = ".node";

impl Level {
    /// Takes the directory that `name` names for the sets of `directory`. Collective.
    ///
    /// # Errors
    /// On all ranks that of one: `Usage` if the place on a node is not this user's, or not that of one node; `Write`; `Exists` if another
    /// program has its steps there.
    pub(super) fn open(
        comm: &dyn Comm,
        (name, path, keep): (&'static str, &Path, usize),
        directory: &Path,
    ) -> Result<Self> {
        let make = || {
            let place = node_sets::place(path, directory)?;
            if !is_maker(comm) {
                return Ok((place, None));
            }
            node_sets::make(&place, name)?;
            let lock = sets::lock(&place)?;
            node_sets::tidy(&place)?;
            Ok((place, Some(lock)))
        };
        let (place, lock) = agree(comm, make())?;
        let bytes = |place: &Path| place.as_os_str().as_encoded_bytes().to_vec();
        let same = match gathered(comm, &bytes(&place))?.get(comm.node()) == Some(&bytes(&place)) {
            true => Ok(()),
            false => Err(Error::usage(format!("ranks of one node have other directories as '{name}'"))
                .hint("give them the same one")),
        };
        agree(comm, same)?;
        // Each node would replace the parts of the others.
        let (mark, own) = (place.join(MARK), comm.rank().to_string());
        let write = || {
            let hidden = place.join(temporary_name(MARK.as_ref()));
            let written = fs::write(&hidden, &own).and_then(|()| fs::rename(&hidden, &mark));
            written.map_err(|error| Error::write(&mark, &error))
        };
        agree(comm, if is_maker(comm) { write() } else { Ok(()) })?;
        let is_own = !is_maker(comm) || fs::read(&mark).is_ok_and(|found| found == own.as_bytes());
        let alone = match is_own {
            true => Ok(()),
            false => Err(Error::usage(format!("several nodes have one directory as '{name}'"))
                .hint("name a directory on a disk of each node, or in its memory")
                .at(place.display().to_string())),
        };
        agree(comm, alone)?;
        Ok(Self { name, place, keep, newest: None, covered: None, _lock: lock })
    }

    /// The directory of a step on this node.
    pub(super) fn part(&self, step: u64) -> PathBuf {
        sets::of_step(&self.place, step)
    }

    /// What all nodes have there, by rank. Collective.
    ///
    /// # Errors
    /// As for [`knarr_array::comm::gather`].
    pub(super) fn held(&self, engine: &Engine, comm: &dyn Comm) -> Result<Vec<Vec<Held>>> {
        let own = if is_maker(comm) { held(&self.place, &engine.codecs) } else { Vec::new() };
        gathered(comm, &own)
    }

    /// Finds the newest step there that survives the loss of a node. Collective.
    ///
    /// # Errors
    /// As for [`knarr_array::comm::gather`].
    pub(super) fn find_covered(&mut self, engine: &Engine, comm: &dyn Comm, protection: Protection) -> Result<()> {
        self.covered = covered(&node_sets::together(self.held(engine, comm)?.iter().flatten()), protection);
        Ok(())
    }
}

/// The newest step that survives the loss of a node, of all that the nodes have. Nobody has written down who has copies: whatever is
/// whole may have them.
fn covered(all: &[Held], protection: Protection) -> Option<u64> {
    let newest = |is_one: fn(&Held) -> bool| all.iter().rev().find(|held| is_one(held)).map(|held| held.step);
    match protection {
        Protection::None => None,
        Protection::Partner => newest(Held::is_whole),
        Protection::Parity { .. } => newest(Held::has_all_parity).or_else(|| newest(Held::is_recoverable)),
    }
}
