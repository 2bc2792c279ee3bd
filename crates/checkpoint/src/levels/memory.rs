//! The level in memory: which steps go there, and how they leave it. Everything here is collective.

use std::collections::BTreeMap;
use std::path::Path;

use super::all::{Levels, version};
use super::node_sets::{self, At};
use super::nodes::{gathered, is_maker};
use super::options::Protection;
use super::storing::Store;
use knarr_array::comm::{self, Comm};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_tier::{available_memory, is_in_memory, left_in};

/// The number of the level in memory, if there is one.
const MEMORY: usize = 0;
/// Of the level on disks of the nodes, if there is one in memory.
const LOCAL: usize = 1;

/// Bytes that a directory has room for. Memory may be limited by the batch system, whatever the directory has left.
fn room(place: &Path) -> u64 {
    let left = left_in(place).bytes;
    if is_in_memory(place) { left.min(available_memory().unwrap_or(u64::MAX)) } else { left }
}

impl Levels {
    fn has_memory(&self) -> bool {
        self.levels.first().is_some_and(|level| level.name == "memory")
    }

    /// The level after the one in memory, if a step is there: `None` for the directory of sets.
    pub(crate) fn after_memory(&self, at: At) -> Option<Option<At>> {
        let is_memory = self.has_memory() && at.level == MEMORY;
        is_memory.then(|| (self.levels.len() > LOCAL).then_some(At { level: LOCAL, ..at }))
    }

    /// The level where a step is made of which this rank has handed over so many bytes, or the directory of sets. Memory is the first one
    /// if all nodes have room there for what is handed over on them, and for the copies that they keep. That is more than packed files take.
    ///
    /// # Errors
    /// As for [`comm::gather`]. A level without room is a warning, once until it has some.
    pub(crate) fn choose(&mut self, comm: &dyn Comm, step: u64, bytes: u64) -> Result<Option<At>> {
        let first = At { level: MEMORY, step };
        let Some(next) = self.after_memory(first) else { return Ok(Some(first)) };
        let nodes = comm::nodes(comm)?;
        let mut handed = BTreeMap::<usize, u64>::new();
        for (node, bytes) in nodes.iter().zip(gathered(comm, &bytes)?) {
            *handed.entry(*node).or_default() += bytes;
        }
        let most = handed.values().copied().max().unwrap_or(0);
        let copies = if self.nodes.is_some() && self.protection != Protection::None { most } else { 0 };
        let needs = handed.get(&comm.node()).copied().unwrap_or(0).saturating_add(copies);
        let has = if is_maker(comm) { room(&self.level(MEMORY)?.place) } else { u64::MAX };
        let lacking = gathered(comm, &(has < needs).then_some((needs, has)))?.into_iter().enumerate();
        let Some((rank, (needs, has))) = lacking.into_iter().find_map(|(rank, lacks)| Some((rank, lacks?))) else {
            self.is_full = false;
            return Ok(Some(first));
        };
        if !std::mem::replace(&mut self.is_full, true) {
            let what = format!("it may take {needs} bytes on the node of rank {rank}, which has room for {has}");
            self.warn(comm, not_in_memory(Error::new(ErrorKind::Write, what), step, next));
        }
        Ok(next)
    }

    /// A step could not be written to memory for this reason, though there was room before: it goes to the next level.
    pub(crate) fn leaves(&mut self, comm: &dyn Comm, step: u64, next: Option<At>, error: Error) {
        self.is_full = true;
        self.warn(comm, not_in_memory(error, step, next));
    }

    /// A step is complete on a level of the nodes: if it is in memory and its time has come, it comes to the disks.
    pub(super) fn may_store(&mut self, comm: &dyn Comm, at: At) -> Result<()> {
        if self.levels.len() <= LOCAL {
            return Ok(());
        }
        let now = self.begun.elapsed();
        if at.level != MEMORY {
            self.stores.was_there_first(now);
            return Ok(());
        }
        let is_busy = self.storing.step().is_some() || self.due.is_some();
        let takes = self.stores.takes(now, is_busy);
        if comm::share(comm, &takes)? {
            self.due = Some(at.step);
        }
        if self.protecting.step().is_none() { self.start_store(comm) } else { Ok(()) }
    }

    /// The program goes on from a step on the nodes. If it is in memory and disks do not have it, it comes there at once: what has stopped
    /// the program may stop nodes, too.
    pub(super) fn restored(&mut self, comm: &dyn Comm, at: &At, id: &str) -> Result<()> {
        if self.levels.len() <= LOCAL || at.level != MEMORY {
            return Ok(());
        }
        let parts = self.parts(comm, At { level: LOCAL, ..*at })?;
        let is_there = version(&parts, Some(id)).is_some_and(|held| held.is_recoverable());
        self.due = (!is_there).then_some(at.step);
        self.start_store(comm)
    }

    /// Begins to copy the step that is due from memory to the disks, with the copies and parity that nodes keep of it.
    pub(super) fn start_store(&mut self, comm: &dyn Comm) -> Result<()> {
        let Some(step) = self.due.take() else { return Ok(()) };
        self.settle_store(comm)?;
        let (from, to) = (self.level(MEMORY)?.part(step), self.level(LOCAL)?.part(step));
        let store = Store { engine: self.engine.clone(), way: is_maker(comm).then_some((from, to)) };
        if let Err(error) = self.storing.start(comm, step, store) {
            self.not_stored(comm, error, step);
        }
        Ok(())
    }

    fn not_stored(&mut self, comm: &dyn Comm, error: Error, step: u64) {
        self.stores.failed();
        self.warn(comm, error.at(format!("step {step} is in memory, and could not be copied to 'local'")));
    }

    /// Notes whether a step has come to the disks. Does not wait.
    pub(super) fn look_at_store(&mut self, comm: &dyn Comm) -> Result<()> {
        if self.storing.step().is_none() || !gathered(comm, &self.storing.is_done())?.iter().all(|&done| done) {
            return Ok(());
        }
        self.settle_store(comm)
    }

    /// Waits for the step that is on its way to the disks.
    pub(super) fn settle_store(&mut self, comm: &dyn Comm) -> Result<()> {
        let Some(step) = self.storing.step() else { return Ok(()) };
        if let Err(error) = self.storing.settle(comm) {
            self.not_stored(comm, error, step);
            return Ok(());
        }
        self.stores.came();
        let is_covered = self.level(MEMORY)?.covered == Some(step);
        if let Some(local) = self.levels.get_mut(LOCAL) {
            local.newest = Some(step);
            local.covered = if is_covered { Some(step) } else { local.covered };
        }
        self.prune(comm)
    }

    /// When the program closes and the directory of sets has the step `newest`: nothing of it and of older ones stays in memory, which
    /// other programs need.
    pub(super) fn leave_memory(&mut self, comm: &dyn Comm, newest: At) -> Result<()> {
        if !self.has_memory() {
            return Ok(());
        }
        let spared = self.read(comm)?;
        let remove = || {
            let (memory, from) = (self.level(MEMORY)?, self.level(newest.level)?);
            Ok(node_sets::remove_until(&memory.place, (&from.place, newest.step), spared))
        };
        let failed = if is_maker(comm) { remove()? } else { Vec::new() };
        self.not_removed(comm, failed)
    }
}

fn not_in_memory(error: Error, step: u64, next: Option<At>) -> Error {
    let to = if next.is_some() { "to 'local'" } else { "to the directory of sets" };
    error.at(format!("step {step} and those that follow go {to} as long as 'memory' is full"))
}
