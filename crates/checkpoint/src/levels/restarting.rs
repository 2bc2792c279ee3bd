//! Restarts: which step is read, and where.
//!
//! A step that the nodes have is read there, and comes to the directory of sets when it is due. If a lost node has left some of its files without copies
//! or parity, it is brought at once; the program goes on meanwhile. Everything here is collective.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::all::{Levels, not_flushed, version};
use super::flush::Flushed;
use super::node_sets::{self, At, Held};
use super::nodes::gathered;
use super::options::Protection;
use super::scattered::{self, OtherNodes, Reading};
use crate::disk::set::Set;
use knarr_array::comm::{self, Comm, ROOT};
use knarr_array::error::{Error, ErrorKind, Result};

/// A step that nodes have, and the directory of sets has not.
pub(crate) type Candidate = (At, String);

impl Levels {
    /// Steps from which the program may go on, or `step` only, the newest first: those that the nodes have whole, or can rebuild, and
    /// that are newer than the newest one in the directory of sets.
    ///
    /// # Errors
    /// As for [`comm::gather`]. What went wrong before is a warning.
    pub(crate) fn candidates(&mut self, comm: &dyn Comm, step: Option<u64>) -> Result<Vec<Candidate>> {
        self.settle_copies(comm)?;
        self.settle_store(comm)?;
        self.settle_flush(comm)?;
        let mut all = Vec::new();
        for (number, level) in self.levels.iter().enumerate() {
            let held = level.held(&self.engine, comm)?;
            all.extend(node_sets::together(held.iter().flatten()).into_iter().map(|held| (number, held)));
        }
        let candidates = if comm.rank() == ROOT { self.newer(all, step) } else { Vec::new() };
        comm::share(comm, &candidates)
    }

    /// Of what the nodes have together of sets, each with the number of its level.
    fn newer(&mut self, mut all: Vec<(usize, Held)>, step: Option<u64>) -> Vec<Candidate> {
        let codecs = &self.engine.codecs;
        let newest = node_sets::newest_whole(&self.directory, step, codecs);
        all.retain(|(_, held)| step.is_none_or(|step| step == held.step));
        // The newest first, and what is on several levels where it is read the fastest.
        all.sort_by_key(|(level, held)| (std::cmp::Reverse(held.when), *level));
        // What is older than one that is there is not needed.
        let is_newer =
            |held: &Held| !held.is_in(&self.directory, codecs) && newest.is_none_or(|newest| held.when > newest);
        let count = all.iter().take_while(|(_, held)| is_newer(held)).count();
        all.truncate(count);
        let whole: Vec<String> =
            all.iter().filter(|(_, held)| held.is_recoverable()).map(|(_, held)| held.id.clone()).collect();
        let lost = all.iter().take_while(|(_, held)| whole.first() != Some(&held.id));
        let mut told = BTreeSet::new();
        for (_, held) in lost.filter(|(_, held)| !whole.contains(&held.id)) {
            if !told.insert(held.id.clone()) {
                continue;
            }
            let (all, missing) = (held.all.len(), held.all.len() - held.here.len());
            let what = format!("step {} lacks {missing} of {all} files on the nodes that are here", held.step);
            let error = Error::new(ErrorKind::NotFound, what);
            self.warnings.push(error.hint("run on the nodes of the last run, or 'knarr checkpoint scavenge' there"));
        }
        let found = all.iter().filter(|(_, held)| held.is_recoverable());
        found.map(|(level, held)| (At { level: *level, step: held.step }, held.id.clone())).collect()
    }

    /// Opens a step where it lies. What one node cannot read is taken from another one, or rebuilt. `None` if no node can: that is a
    /// warning.
    ///
    /// # Errors
    /// `Write` if what is rebuilt cannot be written.
    pub(crate) fn open_set(&mut self, comm: &dyn Comm, (at, id): &Candidate) -> Result<Option<Set>> {
        let At { level, step } = *at;
        match self.readable(comm, *at, id) {
            Ok((set, others)) => {
                self.reading = Some(Reading { step, by: Arc::downgrade(&others) });
                Ok(Some(set))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.warn(
                    comm,
                    error.at(format!(
                        "step {step} is on the nodes, and cannot be read in '{}'",
                        self.level(level)?.name
                    )),
                );
                Ok(None)
            }
            Err(error) => Err(error.at(format!("step {step} is on the nodes"))),
        }
    }

    fn readable(&mut self, comm: &dyn Comm, at: At, id: &str) -> Result<(Set, Arc<OtherNodes>)> {
        let mut tried = BTreeSet::new();
        loop {
            self.rebuild(comm, at, Some(id), &mut tried)?;
            let parts = self.parts(comm, at)?;
            let wanted = version(&parts, Some(id)).ok_or_else(no_part)?;
            let place = &self.level(at.level)?.place;
            match scattered::open(&self.engine, comm, (self.nodes.as_ref(), at.level, place), &wanted, &parts)? {
                Ok(opened) => return Ok(opened),
                Err(unreadable) => {
                    for (rank, name, error) in unreadable {
                        self.note_unreadable(comm, (at, rank, name), error);
                    }
                }
            }
        }
    }

    /// The program goes on from a step that was opened. It comes to the directory of sets when it is due; at once, in the background, if it
    /// would not survive the loss of a node.
    ///
    /// # Errors
    /// As for [`comm::gather`]. If it cannot be brought, that is a warning.
    pub(crate) fn resumes(&mut self, comm: &dyn Comm, (at, id): &Candidate) -> Result<()> {
        let parts = self.parts(comm, *at)?;
        let wanted = version(&parts, Some(id)).ok_or_else(no_part)?;
        self.newest = Some(*at);
        if let Some(level) = self.levels.get_mut(at.level) {
            level.newest = Some(at.step);
        }
        self.flushed = self.flushed.filter(|flushed| *flushed != at.step);
        if !self.survives(&parts, &wanted) {
            self.schedule.failed();
        }
        let takes = self.schedule.resumes(wanted.waited, self.begun.elapsed(), self.flushing.step().is_some());
        if comm::share(comm, &takes)?
            && let Err(error) = self.start_flush(comm, *at, Some(id))
        {
            self.not_flushed(comm, error, at.step);
        }
        self.restored(comm, at, id)
    }

    /// True if each file is on two nodes, or all parity is there, as this session keeps steps.
    fn survives(&self, parts: &[Option<Held>], wanted: &Held) -> bool {
        let holders = |name: &String| {
            let of_set = parts.iter().flatten().filter(|held| held.id == wanted.id);
            of_set.filter(|held| held.here.contains(name)).count()
        };
        match self.protection {
            _ if self.nodes.is_none() => wanted.is_whole(),
            Protection::None => true,
            Protection::Partner => wanted.all.iter().all(|name| holders(name) > 1),
            Protection::Parity { .. } => wanted.has_all_parity(),
        }
    }

    /// The step that some rank still reads on the nodes, which stays there.
    pub(super) fn read(&mut self, comm: &dyn Comm) -> Result<Option<u64>> {
        let Some(Reading { step, by }) = &self.reading else { return Ok(None) };
        let step = *step;
        if gathered(comm, &(by.strong_count() > 0))?.contains(&true) {
            return Ok(Some(step));
        }
        self.reading = None;
        Ok(None)
    }

    /// Before a step is replaced that the nodes have: brings it to the directory of sets, unless that has a newer version.
    ///
    /// # Errors
    /// `Write` if it cannot be written there. A step that cannot be read is a warning.
    pub(super) fn bring(&mut self, comm: &dyn Comm, step: u64) -> Result<()> {
        for (at, id) in self.candidates(comm, Some(step))? {
            match self.bring_now(comm, at, Some(&id)) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::NotFound => self.warn(comm, not_flushed(error, step)),
                Err(error) => return Err(not_flushed(error, step)),
            }
        }
        Ok(())
    }

    /// Brings a step to the directory of sets and waits for it. Whatever one node cannot read is taken from another one, or rebuilt.
    ///
    /// # Errors
    /// `NotFound` if no node can read a file of it; `Write`.
    pub(super) fn bring_now(&mut self, comm: &dyn Comm, at: At, id: Option<&str>) -> Result<()> {
        let mut tried = BTreeSet::new();
        loop {
            self.rebuild(comm, at, id, &mut tried)?;
            self.start_flush(comm, at, id)?;
            match self.flushing.settle(comm)? {
                Some(Flushed::Unreadable(_, files)) => {
                    for (rank, name, error) in files {
                        self.note_unreadable(comm, (at, rank, name), error);
                    }
                }
                _ => {
                    self.flushed = Some(at.step);
                    return Ok(());
                }
            }
        }
    }
}

fn no_part() -> Error {
    Error::new(ErrorKind::NotFound, "no node has its part any more")
}
