//! What the ranks of a program do together so that steps go through levels. Everything here is collective.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::flush::{Flush, is_there};
use super::node_sets::{self, Held, held};
use super::options::{LevelOptions, Protection};
use super::protect::{Protect, Ring, gathered};
use super::schedule::Schedule;
use crate::disk::set::Set;
use crate::disk::sets;
use knarr_array::comm::{self, Comm, ROOT, agree};
use knarr_array::error::{Error, Result};
use knarr_flow::engine::Engine;
use knarr_flow::output::remove_abandoned;
use knarr_handover::Background;

/// The levels that the steps of a session go through.
pub(crate) struct Levels {
    engine: Engine,
    /// Where this node has its parts.
    place: PathBuf,
    /// The directory of sets.
    directory: PathBuf,
    /// Sets that stay on the nodes.
    keep: usize,
    schedule: Schedule,
    begun: Instant,
    ring: Option<Ring>,
    protecting: Background<Protect>,
    flushing: Background<Flush>,
    /// The step that was completed last on the nodes, and the last one that is in the directory of sets.
    newest: Option<u64>,
    flushed: Option<u64>,
    /// Of one rank of each node.
    _lock: Option<File>,
    /// Of rank 0.
    warnings: Vec<Error>,
}

impl Levels {
    /// The levels of a session for sets in `directory`, which is there.
    ///
    /// # Errors
    /// On all ranks that of one: `Usage` if ranks have other options, `Write`, `Exists` if another program has its steps there.
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
        let is_maker = comm.rank() == comm.node();
        let make = || {
            let place = node_sets::place(local, directory)?;
            fs::create_dir_all(&place).map_err(|error| Error::write(&place, &error))?;
            let lock = is_maker.then(|| sets::lock(&place)).transpose()?;
            if is_maker {
                remove_abandoned(&place);
                // Copies that were being made.
                for part in sets::completed(&place)? {
                    remove_abandoned(&part);
                }
            }
            Ok((place, lock))
        };
        let (place, lock) = agree(comm, make())?;
        let ring = match options.protection {
            Protection::None => None,
            Protection::Partner => Ring::open(comm, &place)?,
        };
        Ok(Some(Self {
            engine: engine.clone(),
            place,
            directory: directory.to_owned(),
            keep: options.keep,
            schedule: Schedule::new(options.flush),
            begun: Instant::now(),
            ring,
            protecting: Background::new(Arc::clone(&engine.cancel)),
            flushing: Background::new(Arc::clone(&engine.cancel)),
            newest: None,
            flushed: None,
            _lock: lock,
            warnings: Vec::new(),
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
        let newest = held(&self.place, &self.engine.codecs).pop().map(|held| (held.step, held.id));
        let first = comm::share(comm, &newest)?;
        let is_alike = gathered(comm, &(newest == first))?.iter().all(|&alike| alike);
        Ok(first.filter(|_| is_alike).map(|(step, _)| sets::of_step(&self.place, step)))
    }

    /// When the newest set in the directory of sets was completed.
    ///
    /// # Errors
    /// As for [`comm::share`].
    pub(crate) fn newest_elsewhere(&self, comm: &dyn Comm) -> Result<Option<SystemTime>> {
        comm::share(comm, &sets::newest(&self.directory).filter(|_| comm.rank() == ROOT))
    }

    /// A step is complete on the nodes: copies of it are begun, and perhaps it is brought to the directory of sets.
    ///
    /// # Errors
    /// As for [`comm::gather`]. What goes wrong otherwise is a warning: the step is on the nodes.
    pub(crate) fn completed(&mut self, comm: &dyn Comm, step: u64) -> Result<()> {
        self.newest = Some(step);
        self.settle_copies(comm)?;
        if let Some(ring) = &self.ring {
            match agree(comm, ring.protect(&self.engine, step)) {
                Ok(protect) => self.protecting.start(comm, step, protect)?,
                Err(error) => self.warn(error.at(format!("no other node keeps step {step}"))),
            }
        }
        self.look(comm)?;
        let takes = self.schedule.takes(self.begun.elapsed(), self.flushing.step().is_some());
        if comm::share(comm, &takes)?
            && let Err(error) = self.start_flush(comm, step)
        {
            self.warn(not_flushed(&error, step));
        }
        let failed = match comm.rank() == comm.node() {
            true => node_sets::prune(&self.place, self.keep, self.flushing.step()),
            false => Vec::new(),
        };
        let failed: Vec<Error> = comm::collect(comm, &failed)?.into_iter().flatten().flatten().collect();
        self.warnings.extend(failed.into_iter().map(|error| error.at("old checkpoints stay on a node")));
        Ok(())
    }

    fn warn(&mut self, error: Error) {
        self.warnings.push(error);
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

    fn settle_flush(&mut self, comm: &dyn Comm) -> Result<bool> {
        let Some(step) = self.flushing.step() else { return Ok(false) };
        match self.flushing.settle(comm) {
            Ok(flushed) => self.flushed = flushed.or(self.flushed),
            Err(error) => self.warn(not_flushed(&error, step)),
        }
        Ok(self.flushed == Some(step))
    }

    /// True if the other nodes have their copies of the newest step, or will not have them. Does not wait.
    ///
    /// # Errors
    /// As for [`comm::gather`].
    pub(crate) fn has_copies(&mut self, comm: &dyn Comm) -> Result<bool> {
        if self.protecting.step().is_some() && gathered(comm, &self.protecting.is_done())?.iter().all(|&done| done) {
            self.settle_copies(comm)?;
        }
        Ok(self.protecting.step().is_none())
    }

    /// Waits until the other nodes have their copies of the newest step.
    ///
    /// # Errors
    /// As for [`comm::gather`]. A step without copies is a warning.
    pub(crate) fn settle_copies(&mut self, comm: &dyn Comm) -> Result<()> {
        let Some(step) = self.protecting.step() else { return Ok(()) };
        let failed = self.protecting.settle(comm)?.flatten();
        self.warnings.extend(failed.map(|error| error.at(format!("no other node keeps step {step}"))));
        Ok(())
    }

    fn start_flush(&mut self, comm: &dyn Comm, step: u64) -> Result<()> {
        let own = node_sets::part(&sets::of_step(&self.place, step), &self.engine.codecs).ok();
        let parts = gathered(comm, &own)?;
        let wanted = parts.iter().flatten().next().cloned();
        let wanted = wanted.ok_or_else(|| Error::corrupt("no node has its part any more"))?;
        let flush = Flush::begin(&self.engine, comm, (&self.place, &self.directory), &wanted, &parts)?;
        self.flushing.start(comm, step, flush)
    }

    /// Brings the newest step to the directory of sets, if it is not there, and waits for it. True if steps have come there.
    ///
    /// # Errors
    /// Why it could not be brought; it is on the nodes.
    pub(crate) fn finish(&mut self, comm: &dyn Comm) -> Result<bool> {
        self.settle_copies(comm)?;
        let mut has_flushed = self.settle_flush(comm)?;
        if let Some(step) = self.newest
            && self.flushed != Some(step)
        {
            let flushed = self.start_flush(comm, step).and_then(|()| self.flushing.settle(comm));
            self.flushed = flushed.map_err(|error| not_flushed(&error, step))?;
            has_flushed = true;
        }
        Ok(has_flushed)
    }

    /// Before a restart: brings the newest step to the directory of sets of which the nodes have all parts, or `step`, if the
    /// directory has none that is newer.
    ///
    /// # Errors
    /// As for [`comm::gather`]. A step that cannot be brought is a warning.
    pub(crate) fn bring(&mut self, comm: &dyn Comm, step: Option<u64>) -> Result<()> {
        self.settle_flush(comm)?;
        let all = gathered(comm, &held(&self.place, &self.engine.codecs))?;
        let candidates = match comm.rank() {
            ROOT => self.candidates(&all, step),
            _ => Vec::new(),
        };
        for wanted in comm::share(comm, &candidates)? {
            let of = |held: &Vec<Held>| held.iter().find(|held| held.id == wanted.id).cloned();
            let parts: Vec<Option<Held>> = all.iter().map(of).collect();
            let begun = Flush::begin(&self.engine, comm, (&self.place, &self.directory), &wanted, &parts);
            let flushed = begun.and_then(|flush| {
                self.flushing.start(comm, wanted.step, flush)?;
                self.flushing.settle(comm)
            });
            match flushed {
                Ok(_) => break,
                Err(error) => self.warn(not_flushed(&error, wanted.step)),
            }
        }
        Ok(())
    }

    /// Sets that the nodes have whole and the directory of sets has not, the newest first.
    fn candidates(&self, all: &[Vec<Held>], step: Option<u64>) -> Vec<Held> {
        let mut found: BTreeMap<&str, Held> = BTreeMap::new();
        for held in all.iter().flatten() {
            let known = found.entry(&held.id).or_insert_with(|| held.clone());
            known.here.extend(held.here.iter().cloned());
            known.when = known.when.max(held.when);
        }
        let mut whole: Vec<Held> = found.into_values().filter(|held| held.here.is_superset(&held.all)).collect();
        whole.sort_by_key(|held| std::cmp::Reverse(held.when));
        whole.retain(|held| step.is_none_or(|step| step == held.step));
        let completed = sets::completed(&self.directory).unwrap_or_default();
        let usable = |path: &&PathBuf| {
            let is_wanted = sets::step(path).is_some_and(|found| step.is_none_or(|step| step == found));
            is_wanted && Set::open(path, &self.engine.codecs).is_ok_and(|set| set.check_files().is_ok())
        };
        let newest = completed.iter().rev().find(usable).and_then(|path| node_sets::when(path).ok());
        let is_newer = |held: &Held| {
            !is_there(&self.engine, &self.directory, held) && newest.is_none_or(|newest| held.when > newest)
        };
        // What is older than one that is there is not needed.
        whole.into_iter().take_while(is_newer).collect()
    }

    /// Nobody waits for what goes on: this is a forked process.
    pub(crate) fn forget(&mut self) {
        self.protecting.forget();
        self.flushing.forget();
    }
}

fn not_flushed(error: &Error, step: u64) -> Error {
    error.clone().at(format!("step {step} is on the nodes, and could not be brought to the directory of sets"))
}
