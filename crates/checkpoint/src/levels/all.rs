//! What the ranks of a program do together so that steps go through levels. Everything here is collective.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::flush::{Flush, Flushed};
use super::node_sets::{self, Held, held};
use super::nodes::{Nodes, gathered, is_maker};
use super::options::{LevelOptions, Protection};
use super::parity::file as parity_file;
use super::parity::rebuild::rebuild;
use super::protect::Protect;
use super::scattered::Reading;
use super::schedule::Schedule;
use crate::disk::sets;
use crate::packing::together::Before;
use knarr_array::comm::{self, Comm, ROOT, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::engine::Engine;
use knarr_flow::output::temporary_name;
use knarr_handover::Background;

/// The levels that the steps of a session go through.
pub(crate) struct Levels {
    pub(super) engine: Engine,
    /// Where this node has its parts.
    pub(super) place: PathBuf,
    /// The directory of sets.
    pub(super) directory: PathBuf,
    /// Sets that stay on the nodes.
    keep: usize,
    pub(super) schedule: Schedule,
    pub(super) begun: Instant,
    protecting: Background<Protect>,
    pub(super) flushing: Background<Flush>,
    pub(super) protection: Protection,
    /// Answers what others ask of this node. `None` if there is one node.
    pub(super) nodes: Option<Nodes>,
    /// The step that was completed last on the nodes.
    pub(super) newest: Option<u64>,
    /// The last one that survives the loss of a node.
    covered: Option<u64>,
    /// The last one that came to the directory of sets.
    pub(super) flushed: Option<u64>,
    /// The step from which the program goes on, if that is read on the nodes.
    pub(super) reading: Option<Reading>,
    /// No set of this session has an earlier date than those before it.
    dated: Option<SystemTime>,
    /// Files that could not be read: the step, the rank of the node, the name.
    unreadable: BTreeSet<(u64, usize, String)>,
    /// Of one rank of each node.
    _lock: Option<File>,
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
            self.flushing.forget();
            self.nodes.iter_mut().for_each(Nodes::forget);
        }
    }
}

/// Name of the file in the place of a node that says which rank has it.
const MARK: &str = ".node";

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
        let alike = (options.local.is_some(), options.keep, options.flush, options.protection);
        let same = match comm::share(comm, &alike)? == alike {
            true => Ok(()),
            false => {
                Err(Error::usage("options of levels are not those of rank 0").hint("give all ranks the same ones"))
            }
        };
        agree(comm, same)?;
        let Some(local) = &options.local else { return Ok(None) };
        let make = || {
            let place = node_sets::place(local, directory)?;
            if !is_maker(comm) {
                return Ok((place, None));
            }
            node_sets::make(&place)?;
            let lock = sets::lock(&place)?;
            node_sets::tidy(&place)?;
            Ok((place, Some(lock)))
        };
        let (place, lock) = agree(comm, make())?;
        let bytes = |place: &Path| place.as_os_str().as_encoded_bytes().to_vec();
        let same = match gathered(comm, &bytes(&place))?.get(comm.node()) == Some(&bytes(&place)) {
            true => Ok(()),
            false => {
                Err(Error::usage("ranks of one node have other directories as 'local'").hint("give them the same one"))
            }
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
            false => Err(Error::usage("several nodes have one directory as 'local'")
                .hint("name a directory on a disk of each node")
                .at(place.display().to_string())),
        };
        agree(comm, alone)?;
        let nodes = Nodes::open(comm, &place)?;
        let own = if is_maker(comm) { held(&place, &engine.codecs) } else { Vec::new() };
        let all = gathered(comm, &own)?;
        let covered =
            nodes.as_ref().and_then(|_| covered(&node_sets::together(all.iter().flatten()), options.protection));
        Ok(Some(Self {
            engine: engine.clone(),
            place,
            directory: directory.to_owned(),
            keep: options.keep,
            schedule: Schedule::new(options.flush),
            begun: Instant::now(),
            protecting: Background::new(Arc::clone(&engine.cancel)),
            flushing: Background::new(Arc::clone(&engine.cancel)),
            protection: options.protection,
            nodes,
            newest: None,
            covered,
            flushed: None,
            reading: None,
            dated: None,
            unreadable: BTreeSet::new(),
            _lock: lock,
            warnings: Vec::new(),
            process: std::process::id(),
        }))
    }

    /// Where this node has its parts of sets.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// What went wrong without being an error of a call. Returned once.
    pub(crate) fn take_warnings(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.warnings)
    }

    /// The newest set of which all nodes have their parts.
    ///
    /// # Errors
    /// As for [`comm::gather`].
    pub(crate) fn base(&self, comm: &dyn Comm) -> Result<Option<PathBuf>> {
        let newest = || node_sets::part(sets::completed(&self.place).ok()?.last()?, &self.engine.codecs).ok();
        let newest = if is_maker(comm) { newest().map(|held| (held.step, held.id)) } else { None };
        let first = comm::share(comm, &newest)?;
        let is_alike = !is_maker(comm) || newest == first;
        let are_alike = gathered(comm, &is_alike)?.iter().all(|&alike| alike);
        Ok(first.filter(|_| are_alike).map(|(step, _)| sets::of_step(&self.place, step)))
    }

    /// What is before the step that is made now: when the newest set was completed, on the nodes and in the directory of sets, by the
    /// clocks of those who completed them (each time a later one, also if a date cannot be read), and how long none has come there.
    ///
    /// # Errors
    /// As for [`comm::gather`].
    pub(crate) fn before(&mut self, comm: &dyn Comm) -> Result<Before> {
        let own = if is_maker(comm) { sets::newest(&self.place) } else { None };
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
        let path = sets::of_step(&self.place, step);
        // One that this program could not bring is no checkpoint.
        let is_there = node_sets::together(self.parts(comm, step)?.iter().flatten()).iter().any(Held::is_recoverable);
        match is_there {
            true if replaces => self.bring(comm, step),
            true => Err(Error::new(ErrorKind::Exists, format!("there is a checkpoint of step {step} on the nodes"))
                .hint("allow it to be replaced (replace=yes), or remove the sets below 'local' on every node to begin anew")
                .at(path.display().to_string())),
            false => Ok(()),
        }
    }

    /// A step is complete on the nodes: copies or parity of it are begun, and perhaps it is brought to the directory of sets.
    ///
    /// # Errors
    /// As for [`comm::gather`]. What goes wrong otherwise is a warning: the step is on the nodes.
    pub(crate) fn completed(&mut self, comm: &dyn Comm, step: u64) -> Result<()> {
        self.settle_copies(comm)?;
        self.newest = Some(step);
        self.flushed = self.flushed.filter(|&flushed| flushed != step);
        self.covered = self.covered.filter(|&covered| covered != step);
        self.unreadable.retain(|(of, ..)| *of != step);
        if let Some(nodes) = self.nodes.as_ref().filter(|_| self.protection != Protection::None) {
            let begun = agree(comm, Protect::begin(&self.engine, nodes, self.protection, &self.place, step));
            if let Err(error) = begun.and_then(|protect| self.protecting.start(comm, step, protect)) {
                self.warn(comm, not_covered(error, step));
            }
        }
        self.look(comm)?;
        let takes = self.schedule.takes(self.begun.elapsed(), self.flushing.step().is_some());
        if comm::share(comm, &takes)?
            && let Err(error) = self.start_flush(comm, step, None)
        {
            self.not_flushed(comm, error, step);
        }
        self.prune(comm)
    }

    /// Removes old sets from the nodes, but not the newest one, whatever its date seems to be, and not the newest one that survives the
    /// loss of a node.
    fn prune(&mut self, comm: &dyn Comm) -> Result<()> {
        let spared = [self.newest, self.flushing.step(), self.covered, self.read(comm)?];
        let failed = if is_maker(comm) { node_sets::prune(&self.place, self.keep, &spared) } else { Vec::new() };
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
        if self.flushing.step().is_none() || !gathered(comm, &self.flushing.is_done())?.iter().all(|&done| done) {
            return Ok(false);
        }
        self.settle_flush(comm)
    }

    /// Waits for the step that is on its way to the directory of sets. True if it has come there.
    pub(super) fn settle_flush(&mut self, comm: &dyn Comm) -> Result<bool> {
        let Some(step) = self.flushing.step() else { return Ok(false) };
        match self.flushing.settle(comm) {
            Ok(Some(Flushed::There(step))) => {
                self.flushed = Some(step);
                self.schedule.came();
                return Ok(true);
            }
            Ok(Some(Flushed::Unreadable(step, files))) => {
                for (rank, name, error) in files {
                    self.unreadable.insert((step, rank, name));
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
            return Ok(());
        }
        self.covered = Some(step);
        self.prune(comm)
    }

    /// The parts of a step that the nodes can read, by rank.
    pub(super) fn parts(&self, comm: &dyn Comm, step: u64) -> Result<Vec<Option<Held>>> {
        let path = sets::of_step(&self.place, step);
        let own = if is_maker(comm) { node_sets::part(&path, &self.engine.codecs).ok() } else { None };
        let mut parts = gathered(comm, &own)?;
        for (rank, held) in parts.iter_mut().enumerate() {
            let is_unreadable = |name: &String| self.unreadable.contains(&(step, rank, name.clone()));
            if let Some(held) = held {
                held.here.retain(|name| !is_unreadable(name));
                held.parity.retain(|node, _| !is_unreadable(&parity_file::name(*node)));
            }
        }
        Ok(parts)
    }

    /// Begins to bring a step: the version with this `id`, or the newest one.
    pub(super) fn start_flush(&mut self, comm: &dyn Comm, step: u64, id: Option<&str>) -> Result<()> {
        let parts = self.parts(comm, step)?;
        let wanted = version(&parts, id);
        let wanted = wanted.ok_or_else(|| Error::new(ErrorKind::NotFound, "no node has its part any more"))?;
        let flush = Flush::begin(&self.engine, comm, (&self.place, &self.directory), &wanted, &parts)?;
        self.flushing.start(comm, step, flush)
    }

    /// Rebuilds what no node can read of a step, if parity suffices: of the version with this `id`, or of the newest one. What was `tried`
    /// is not tried again.
    ///
    /// # Errors
    /// `Write`. What cannot be read is a warning.
    pub(super) fn rebuild(
        &mut self,
        comm: &dyn Comm,
        step: u64,
        id: Option<&str>,
        tried: &mut BTreeSet<String>,
    ) -> Result<()> {
        let parts = self.parts(comm, step)?;
        let Some(wanted) = version(&parts, id).filter(|held| !held.is_whole() && held.is_recoverable()) else {
            return Ok(());
        };
        if !wanted.missing().all(|name| tried.insert(name.to_owned())) {
            return Ok(());
        }
        let rebuilt = rebuild(&self.engine, comm, (self.nodes.as_ref(), &self.place), &wanted, &parts)?;
        for (rank, name, error) in rebuilt.damaged {
            self.note_unreadable(comm, (step, rank, name), error);
        }
        for (rank, name) in rebuilt.made {
            self.unreadable.remove(&(step, rank, name));
        }
        if !rebuilt.failed.is_empty() {
            // Parity that makes other bytes than were packed is none.
            for (rank, held) in parts.iter().enumerate() {
                let kept = held.iter().flat_map(|held| held.parity.keys());
                self.unreadable.extend(kept.map(|node| (step, rank, parity_file::name(*node))));
            }
        }
        for error in rebuilt.failed {
            self.warn(comm, error.at(format!("rebuilding step {step} of parity")));
        }
        Ok(())
    }

    /// Notes a file that cannot be read: the step, the rank of the node, the name.
    pub(super) fn note_unreadable(&mut self, comm: &dyn Comm, file: (u64, usize, String), error: Error) {
        let (step, rank, _) = file;
        self.unreadable.insert(file);
        self.warn(comm, error.at(format!("step {step} on the node of rank {rank}")));
    }

    /// Brings the newest step to the directory of sets, if it is not there, and waits for it. True if steps have come there.
    ///
    /// # Errors
    /// Why it could not be brought; it is on the nodes.
    pub(crate) fn finish(&mut self, comm: &dyn Comm) -> Result<bool> {
        self.settle_copies(comm)?;
        let has_flushed = self.settle_flush(comm)?;
        match self.newest.filter(|&newest| self.flushed != Some(newest)) {
            None => Ok(has_flushed),
            Some(step) => self.bring_now(comm, step, None).map(|()| true).map_err(|error| {
                not_flushed(error, step)
                    .hint("run 'knarr checkpoint scavenge' on each node, or start the program again there")
            }),
        }
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
