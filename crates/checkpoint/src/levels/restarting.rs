//! Restarts: which step is read, and where.
//!
//! A step that the nodes have is read there, and comes to the directory of sets when it is due. If a lost node has left some of its files without copies
//! or parity, it is brought at once; the program goes on meanwhile. Everything here is collective.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::all::{Levels, not_flushed, version};
use super::flush::Flushed;
use super::node_sets::{self, Held, held};
use super::nodes::{gathered, is_maker};
use super::options::Protection;
use super::scattered::{self, OtherNodes, Reading};
use crate::disk::set::Set;
use knarr_array::comm::{self, Comm, ROOT};
use knarr_array::error::{Error, ErrorKind, Result};

/// A step that nodes have, and the directory of sets has not.
pub(crate) type Candidate = (u64, String);

impl Levels {
    /// Steps from which the program may go on, or `step` only, the newest first: those that the nodes have whole, or can rebuild, and
    /// that are newer than the newest one in the directory of sets.
    ///
    /// # Errors
    /// As for [`comm::gather`]. What went wrong before is a warning.
    pub(crate) fn candidates(&mut self, comm: &dyn Comm, step: Option<u64>) -> Result<Vec<Candidate>> {
        self.settle_copies(comm)?;
        self.settle_flush(comm)?;
        let own = if is_maker(comm) { held(&self.place, &self.engine.codecs) } else { Vec::new() };
        let all = gathered(comm, &own)?;
        let candidates = if comm.rank() == ROOT { self.newer(&all, step) } else { Vec::new() };
        comm::share(comm, &candidates)
    }

    fn newer(&mut self, all: &[Vec<Held>], step: Option<u64>) -> Vec<Candidate> {
        let codecs = &self.engine.codecs;
        let newest = node_sets::newest_whole(&self.directory, step, codecs);
        let mut found = node_sets::together(all.iter().flatten());
        found.retain(|held| step.is_none_or(|step| step == held.step));
        // What is older than one that is there is not needed.
        let is_newer =
            |held: &&Held| !held.is_in(&self.directory, codecs) && newest.is_none_or(|newest| held.when > newest);
        let newer: Vec<&Held> = found.iter().rev().take_while(is_newer).collect();
        for held in newer.iter().take_while(|held| !held.is_recoverable()) {
            let (all, missing) = (held.all.len(), held.all.len() - held.here.len());
            let what = format!("step {} lacks {missing} of {all} files on the nodes that are here", held.step);
            let error = Error::new(ErrorKind::NotFound, what);
            self.warnings.push(error.hint("run on the nodes of the last run, or 'knarr checkpoint scavenge' there"));
        }
        newer.iter().filter(|held| held.is_recoverable()).map(|held| (held.step, held.id.clone())).collect()
    }

    /// Opens a step where it lies. What one node cannot read is taken from another one, or rebuilt. `None` if no node can: that is a
    /// warning.
    ///
    /// # Errors
    /// `Write` if what is rebuilt cannot be written.
    pub(crate) fn open_set(&mut self, comm: &dyn Comm, (step, id): &Candidate) -> Result<Option<Set>> {
        match self.readable(comm, *step, id) {
            Ok((set, others)) => {
                self.reading = Some(Reading { step: *step, by: Arc::downgrade(&others) });
                Ok(Some(set))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.warn(comm, error.at(format!("step {step} is on the nodes, and cannot be read there")));
                Ok(None)
            }
            Err(error) => Err(error.at(format!("step {step} is on the nodes"))),
        }
    }

    fn readable(&mut self, comm: &dyn Comm, step: u64, id: &str) -> Result<(Set, Arc<OtherNodes>)> {
        let mut tried = BTreeSet::new();
        loop {
            self.rebuild(comm, step, Some(id), &mut tried)?;
            let parts = self.parts(comm, step)?;
            let wanted = version(&parts, Some(id)).ok_or_else(no_part)?;
            match scattered::open(&self.engine, comm, (self.nodes.as_ref(), &self.place), &wanted, &parts)? {
                Ok(opened) => return Ok(opened),
                Err(unreadable) => {
                    for (rank, name, error) in unreadable {
                        self.note_unreadable(comm, (step, rank, name), error);
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
    pub(crate) fn resumes(&mut self, comm: &dyn Comm, (step, id): &Candidate) -> Result<()> {
        let parts = self.parts(comm, *step)?;
        let wanted = version(&parts, Some(id)).ok_or_else(no_part)?;
        self.newest = Some(*step);
        self.flushed = self.flushed.filter(|flushed| flushed != step);
        if !self.survives(&parts, &wanted) {
            self.schedule.failed();
        }
        let takes = self.schedule.resumes(wanted.waited, self.begun.elapsed(), self.flushing.step().is_some());
        if comm::share(comm, &takes)?
            && let Err(error) = self.start_flush(comm, *step, Some(id))
        {
            self.not_flushed(comm, error, *step);
        }
        Ok(())
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
        for (step, id) in self.candidates(comm, Some(step))? {
            match self.bring_now(comm, step, Some(&id)) {
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
    pub(super) fn bring_now(&mut self, comm: &dyn Comm, step: u64, id: Option<&str>) -> Result<()> {
        let mut tried = BTreeSet::new();
        loop {
            self.rebuild(comm, step, id, &mut tried)?;
            self.start_flush(comm, step, id)?;
            match self.flushing.settle(comm)? {
                Some(Flushed::Unreadable(step, files)) => {
                    for (rank, name, error) in files {
                        self.note_unreadable(comm, (step, rank, name), error);
                    }
                }
                _ => {
                    self.flushed = Some(step);
                    return Ok(());
                }
            }
        }
    }
}

fn no_part() -> Error {
    Error::new(ErrorKind::NotFound, "no node has its part any more")
}
