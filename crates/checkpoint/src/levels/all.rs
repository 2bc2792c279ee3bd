//! What the ranks of a program do together so that steps go through levels. Everything here is collective.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::flush::{Flush, Flushed};
use super::level::Level;
use super::node_sets::{self, At, Held};
use super::nodes::{Nodes, gathered, is_maker};
use super::options::{LevelOptions, Protection};
use super::parity::file as parity_file;
use super::parity::rebuild::rebuild;
use super::protect::Protect;
use super::scattered::Reading;
use super::schedule::Schedule;
use super::storing::Store;
use crate::disk::sets;
use crate::packing::together::Before;
use knarr_array::comm::{self, Comm, ROOT, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::engine::Engine;
use knarr_handover::Background;

/// The levels that the steps of a session go through.
pub(crate) struct Levels {
    pub(super) engine: Engine,
    /// Those on the nodes, the fastest first. At least one.
    pub(super) levels: Vec<Level>,
    /// The directory of sets.
    pub(super) directory: PathBuf,
    /// When a step comes to the directory of sets.
    pub(super) schedule: Schedule,
    /// When one that is in memory comes to a disk of the node.
    pub(super) stores: Schedule,
    pub(super) begun: Instant,
    pub(super) protecting: Background<Protect>,
    pub(super) storing: Background<Store>,
    pub(super) flushing: Background<Flush>,
    /// Number of the level from which that comes.
    flushing_from: usize,
    pub(super) protection: Protection,
    /// Answers what others ask of this node. `None` if there is one node.
    pub(super) nodes: Option<Nodes>,
    /// The step that was completed last on the nodes.
    pub(super) newest: Option<At>,
    /// The step that comes from memory to a disk of the node as soon as it has its copies or parity.
    pub(super) due: Option<u64>,
    /// The last one that came to the directory of sets.
    pub(super) flushed: Option<u64>,
    /// There was no room in memory for the last step.
    pub(super) is_full: bool,
    /// The step from which the program goes on, if that is read on the nodes.
    pub(super) reading: Option<Reading>,
    /// No set of this session has an earlier date than those before it.
    dated: Option<SystemTime>,
    /// Files that could not be read: the step, the rank of the node, the name.
    unreadable: BTreeSet<(At, usize, String)>,
    /// Of rank 0.
    pub(super) warnings: Vec<Error>,
    /// The process that has opened it.
    process: u32,
}

impl Drop for Levels {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Threads and connections are those of the parent.
            self.protecting.forget();
            self.storing.forget();
            self.flushing.forget();
            self.nodes.iter_mut().for_each(Nodes::forget);
        }
    }
}

impl Levels {
    /// The levels of a session for sets in `directory`, which is there.
    ///
    /// # Errors
    /// On all ranks that of one: `Usage` if ranks have other options, or if the place on a node is not this user's; `Write`; `Exists`
    /// if another program has its steps there.
    pub(crate) fn open(
        engine: &Engine,
        comm: &dyn Comm,
        directory: &Path,
        options: &LevelOptions,
    ) -> Result<Option<Self>> {
        let LevelOptions { memory, memory_keep, local, local_keep, local_every, flush, protection } = options;
        let alike = (memory.is_some(), *memory_keep, local.is_some(), *local_keep, *local_every, *flush, *protection);
        let same = match comm::share(comm, &alike)? == alike {
            true => Ok(()),
            false => {
                Err(Error::usage("options of levels are not those of rank 0").hint("give all ranks the same ones"))
            }
        };
        agree(comm, same)?;
        let places = agree(comm, options.places())?;
        if places.is_empty() {
            return Ok(None);
        }
        let open =
            |(name, path, keep): (&'static str, &PathBuf, usize)| Level::open(comm, (name, path, keep), directory);
        let mut levels = places.into_iter().map(open).collect::<Result<Vec<_>>>()?;
        let nodes = Nodes::open(comm, &levels.iter().map(|level| level.place.clone()).collect::<Vec<_>>())?;
        if nodes.is_some() {
            levels.iter_mut().try_for_each(|level| level.find_covered(engine, comm, *protection))?;
        }
        let cancel = || Arc::clone(&engine.cancel);
        Ok(Some(Self {
            engine: engine.clone(),
            levels,
            directory: directory.to_owned(),
            schedule: Schedule::new(*flush),
            stores: Schedule::new(*local_every),
            begun: Instant::now(),
            protecting: Background::new(cancel()),
            storing: Background::new(cancel()),
            flushing: Background::new(cancel()),
            flushing_from: 0,
            protection: *protection,
            nodes,
            newest: None,
            due: None,
            flushed: None,
            is_full: false,
            reading: None,
            dated: None,
            unreadable: BTreeSet::new(),
            warnings: Vec::new(),
            process: std::process::id(),
        }))
    }

    pub(super) fn level(&self, number: usize) -> Result<&Level> {
        self.levels.get(number).ok_or_else(|| Error::internal("no such level"))
    }

    /// Where this node has its part of a step on a level, and the sets that stay there.
    ///
    /// # Errors
    /// `Internal` if there is no such level.
    pub(crate) fn target(&self, at: At) -> Result<(PathBuf, usize)> {
        self.level(at.level).map(|level| (level.part(at.step), level.keep))
    }

    /// What went wrong without being an error of a call. Returned once.
    pub(crate) fn take_warnings(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.warnings)
    }

    /// The newest set on a level of which all nodes have their parts.
    ///
    /// # Errors
    /// As for [`comm::gather`].
    pub(crate) fn base(&self, comm: &dyn Comm, level: usize) -> Result<Option<PathBuf>> {
        let level = self.level(level)?;
        let newest = || node_sets::part(sets::completed(&level.place).ok()?.last()?, &self.engine.codecs).ok();
        let newest = if is_maker(comm) { newest().map(|held| (held.step, held.id)) } else { None };
        let first = comm::share(comm, &newest)?;
        let is_alike = !is_maker(comm) || newest == first;
        let are_alike = gathered(comm, &is_alike)?.iter().all(|&alike| alike);
        Ok(first.filter(|_| are_alike).map(|(step, _)| level.part(step)))
    }

    /// What is before the step that is made now: when the newest set was completed, on the nodes and in the directory of sets, by the
    /// clocks of those who completed them (each time a later one, also if a date cannot be read), and how long none has come there.
    ///
    /// # Errors
    /// As for [`comm::gather`].
    pub(crate) fn before(&mut self, comm: &dyn Comm) -> Result<Before> {
        let here = || self.levels.iter().filter_map(|level| sets::newest(&level.place)).max();
        let own = if is_maker(comm) { here() } else { None };
        let elsewhere = if comm.rank() == ROOT { sets::newest(&self.directory) } else { None };
        let found = gathered(comm, &own.max(elsewhere))?.into_iter().flatten().max();
        let newest = found.max(self.dated);
        self.dated = Some(sets::after(newest));
        Ok(Before { newest, waited: self.schedule.waited(self.begun.elapsed()) })
    }

    /// Before a step is begun: nothing of an older version of it is under way. If the nodes have one and it may be replaced, it comes to the
    /// directory of sets, for nodes cannot replace it all at the same moment.
    ///
    /// # Errors
    /// `Exists` if the nodes have it and it may not be replaced; why it could not be brought.
    pub(crate) fn begin(&mut self, comm: &dyn Comm, step: u64, replaces: bool) -> Result<()> {
        if self.flushing.step() == Some(step) {
            self.settle_flush(comm)?;
        }
        if self.protecting.step() == Some(step) {
            self.settle_copies(comm)?;
        }
        if self.storing.step() == Some(step) {
            self.settle_store(comm)?;
        }
        for level in 0..self.levels.len() {
            // One that this program could not bring is no checkpoint.
            let parts = self.parts(comm, At { level, step })?;
            if !node_sets::together(parts.iter().flatten()).iter().any(Held::is_recoverable) {
                continue;
            }
            if replaces {
                return self.bring(comm, step);
            }
            let what = format!("there is a checkpoint of step {step} on the nodes");
            let names: Vec<String> = self.levels.iter().map(|level| format!("'{}'", level.name)).collect();
            let hint = format!(
                "allow it to be replaced (replace=yes), or remove the sets below {} on every node to begin anew",
                names.join(" and ")
            );
            let path = self.level(level)?.part(step);
            return Err(Error::new(ErrorKind::Exists, what).hint(hint).at(path.display().to_string()));
        }
        Ok(())
    }

    /// A step is complete on a level of the nodes: copies or parity of it are begun, and perhaps it is brought further.
    ///
    /// # Errors
    /// As for [`comm::gather`]. What goes wrong otherwise is a warning: the step is on the nodes.
    pub(crate) fn completed(&mut self, comm: &dyn Comm, at: At) -> Result<()> {
        self.settle_copies(comm)?;
        let step = at.step;
        self.is_new(step);
        self.newest = Some(at);
        let level = self.levels.get_mut(at.level).ok_or_else(|| Error::internal("no such level"))?;
        level.newest = Some(step);
        let place = level.place.clone();
        if let Some(nodes) = self.nodes.as_ref().filter(|_| self.protection != Protection::None) {
            let begun = agree(comm, Protect::begin(&self.engine, nodes, self.protection, &place, at));
            if let Err(error) = begun.and_then(|protect| self.protecting.start(comm, step, protect)) {
                self.warn(comm, not_covered(error, step));
            }
        }
        self.look(comm)?;
        let takes = self.schedule.takes(self.begun.elapsed(), self.flushing.step().is_some());
        if comm::share(comm, &takes)?
            && let Err(error) = self.start_flush(comm, at, None)
        {
            self.not_flushed(comm, error, step);
        }
        self.may_store(comm, at)?;
        self.prune(comm)
    }

    /// There was no room on the nodes for a step: it is complete in the directory of sets.
    ///
    /// # Errors
    /// As for [`comm::gather`].
    pub(crate) fn passed(&mut self, comm: &dyn Comm, step: u64) -> Result<()> {
        self.settle_copies(comm)?;
        self.is_new(step);
        self.newest = None;
        self.flushed = Some(step);
        self.schedule.was_there_first(self.begun.elapsed());
        Ok(())
    }

    /// What was known of an older version of a step does not hold.
    fn is_new(&mut self, step: u64) {
        self.flushed = self.flushed.filter(|&flushed| flushed != step);
        for level in &mut self.levels {
            level.covered = level.covered.filter(|&covered| covered != step);
        }
        self.unreadable.retain(|(of, ..)| of.step != step);
    }

    /// Removes old sets from the nodes, but not the newest one of a level, whatever its date seems to be, and not the newest one that
    /// survives the loss of a node.
    pub(super) fn prune(&mut self, comm: &dyn Comm) -> Result<()> {
        let used = [self.flushing.step(), self.storing.step(), self.due, self.read(comm)?];
        let prune = |level: &Level| {
            let spared = [&used[..], &[level.newest, level.covered]].concat();
            node_sets::prune(&level.place, level.keep, &spared)
        };
        let failed = if is_maker(comm) { self.levels.iter().flat_map(prune).collect() } else { Vec::new() };
        self.not_removed(comm, failed)
    }

    pub(super) fn not_removed(&mut self, comm: &dyn Comm, failed: Vec<Error>) -> Result<()> {
        let failed: Vec<Error> = comm::collect(comm, &failed)?.into_iter().flatten().flatten().collect();
        self.warnings.extend(failed.into_iter().map(|error| error.at("old checkpoints stay on a node")));
        Ok(())
    }

    pub(super) fn warn(&mut self, comm: &dyn Comm, error: Error) {
        if comm.rank() == ROOT {
            self.warnings.push(error);
        }
    }

    pub(super) fn not_flushed(&mut self, comm: &dyn Comm, error: Error, step: u64) {
        self.schedule.failed();
        self.warn(comm, not_flushed(error, step));
    }

    /// Notes what has ended meanwhile. Does not wait. True if a step has come to the directory of sets.
    ///
    /// # Errors
    /// As for [`comm::gather`].
    pub(crate) fn look(&mut self, comm: &dyn Comm) -> Result<bool> {
        self.look_at_store(comm)?;
        if self.flushing.step().is_none() || !gathered(comm, &self.flushing.is_done())?.iter().all(|&done| done) {
            return Ok(false);
        }
        self.settle_flush(comm)
    }

    /// Waits for the step that is on its way to the directory of sets. True if it has come there.
    pub(super) fn settle_flush(&mut self, comm: &dyn Comm) -> Result<bool> {
        let Some(step) = self.flushing.step() else { return Ok(false) };
        let level = self.flushing_from;
        match self.flushing.settle(comm) {
            Ok(Some(Flushed::There(step))) => {
                self.flushed = Some(step);
                self.schedule.came();
                return Ok(true);
            }
            Ok(Some(Flushed::Unreadable(step, files))) => {
                for (rank, name, error) in files {
                    self.unreadable.insert((At { level, step }, rank, name));
                    self.not_flushed(comm, error, step);
                }
            }
            Ok(None) => {}
            Err(error) => self.not_flushed(comm, error, step),
        }
        Ok(false)
    }

    /// True if the other nodes have their copies or parity of the newest step, or will not have them. Does not wait.
    ///
    /// # Errors
    /// As for [`comm::gather`].
    pub(crate) fn has_copies(&mut self, comm: &dyn Comm) -> Result<bool> {
        if self.protecting.step().is_some() && gathered(comm, &self.protecting.is_done())?.iter().all(|&done| done) {
            self.settle_copies(comm)?;
        }
        Ok(self.protecting.step().is_none())
    }

    /// Waits until the other nodes have their copies or parity of the newest step.
    ///
    /// # Errors
    /// As for [`comm::gather`]. A step without them is a warning.
    pub(crate) fn settle_copies(&mut self, comm: &dyn Comm) -> Result<()> {
        let Some(step) = self.protecting.step() else { return Ok(()) };
        let failed = self.protecting.settle(comm)?.flatten();
        if let Some(error) = comm::share(comm, &failed)? {
            self.warn(comm, not_covered(error, step));
            return self.start_store(comm);
        }
        let newest = self.newest.filter(|newest| newest.step == step);
        if let Some(level) = newest.and_then(|newest| self.levels.get_mut(newest.level)) {
            level.covered = Some(step);
        }
        self.start_store(comm)?;
        self.prune(comm)
    }

    /// The parts of a step that the nodes can read, by rank.
    pub(super) fn parts(&self, comm: &dyn Comm, at: At) -> Result<Vec<Option<Held>>> {
        let path = self.level(at.level)?.part(at.step);
        let own = if is_maker(comm) { node_sets::part(&path, &self.engine.codecs).ok() } else { None };
        let mut parts = gathered(comm, &own)?;
        for (rank, held) in parts.iter_mut().enumerate() {
            let is_unreadable = |name: &String| self.unreadable.contains(&(at, rank, name.clone()));
            if let Some(held) = held {
                held.here.retain(|name| !is_unreadable(name));
                held.parity.retain(|node, _| !is_unreadable(&parity_file::name(*node)));
            }
        }
        Ok(parts)
    }

    /// Begins to bring a step: the version with this `id`, or the newest one.
    pub(super) fn start_flush(&mut self, comm: &dyn Comm, at: At, id: Option<&str>) -> Result<()> {
        let parts = self.parts(comm, at)?;
        let wanted = version(&parts, id);
        let wanted = wanted.ok_or_else(|| Error::new(ErrorKind::NotFound, "no node has its part any more"))?;
        let place = &self.level(at.level)?.place;
        let flush = Flush::begin(&self.engine, comm, (place, &self.directory), &wanted, &parts)?;
        self.flushing_from = at.level;
        self.flushing.start(comm, at.step, flush)
    }

    /// Rebuilds what no node can read of a step, if parity suffices: of the version with this `id`, or of the newest one. What was `tried`
    /// is not tried again.
    ///
    /// # Errors
    /// `Write`. What cannot be read is a warning.
    pub(super) fn rebuild(
        &mut self,
        comm: &dyn Comm,
        at: At,
        id: Option<&str>,
        tried: &mut BTreeSet<String>,
    ) -> Result<()> {
        let parts = self.parts(comm, at)?;
        let Some(wanted) = version(&parts, id).filter(|held| !held.is_whole() && held.is_recoverable()) else {
            return Ok(());
        };
        if !wanted.missing().all(|name| tried.insert(name.to_owned())) {
            return Ok(());
        }
        let place = self.level(at.level)?.place.clone();
        let rebuilt = rebuild(&self.engine, comm, (self.nodes.as_ref(), at.level, &place), &wanted, &parts)?;
        for (rank, name, error) in rebuilt.damaged {
            self.note_unreadable(comm, (at, rank, name), error);
        }
        for (rank, name) in rebuilt.made {
            self.unreadable.remove(&(at, rank, name));
        }
        if !rebuilt.failed.is_empty() {
            // Parity that makes other bytes than were packed is none.
            for (rank, held) in parts.iter().enumerate() {
                let kept = held.iter().flat_map(|held| held.parity.keys());
                self.unreadable.extend(kept.map(|node| (at, rank, parity_file::name(*node))));
            }
        }
        for error in rebuilt.failed {
            self.warn(comm, error.at(format!("rebuilding step {} of parity", at.step)));
        }
        Ok(())
    }

    /// Notes a file that cannot be read: the step, the rank of the node, the name.
    pub(super) fn note_unreadable(&mut self, comm: &dyn Comm, file: (At, usize, String), error: Error) {
        let (at, rank, _) = file;
        self.unreadable.insert(file);
        self.warn(comm, error.at(format!("step {} on the node of rank {rank}", at.step)));
    }

    /// Brings the newest step to the directory of sets, if it is not there, and waits for it. True if steps may have come there.
    ///
    /// # Errors
    /// Why it could not be brought; it is on the nodes.
    pub(crate) fn finish(&mut self, comm: &dyn Comm) -> Result<bool> {
        self.settle_copies(comm)?;
        self.settle_store(comm)?;
        let has_flushed = self.settle_flush(comm)?;
        let Some(newest) = self.newest else { return Ok(has_flushed) };
        if self.flushed != Some(newest.step) {
            self.bring_now(comm, newest, None).map_err(|error| {
                not_flushed(error, newest.step)
                    .hint("run 'knarr checkpoint scavenge' on each node, or start the program again there")
            })?;
        }
        self.leave_memory(comm, newest)?;
        Ok(true)
    }
}

pub(super) fn not_flushed(error: Error, step: u64) -> Error {
    error.at(format!("step {step} is on the nodes, and could not be brought to the directory of sets"))
}

fn not_covered(error: Error, step: u64) -> Error {
    error.at(format!("step {step} does not survive the loss of a node"))
}

/// Of the parts of a step that the nodes have, what they have together of the version with this `id`, or of the newest one.
pub(super) fn version(parts: &[Option<Held>], id: Option<&str>) -> Option<Held> {
    let mut versions = node_sets::together(parts.iter().flatten()).into_iter().rev();
    versions.find(|held| id.is_none_or(|id| id == held.id))
}
