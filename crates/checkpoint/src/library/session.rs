//! What a program calls, on all its ranks: hand over, go on computing, learn what became of it, restart.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::finding::{find, usable};
use super::need::{Known, left};
use super::options::Options;
use super::packing::Packing;
use super::restart::{Restart, files_of, image_of};
use crate::disk::sets;
use crate::levels::{At, Levels};
use crate::measured::{self, By, Measured, Typical};
use crate::packing::together::check_options;
use crate::{Group, Grouping, Input, Member, PackOptions, Packed, Set, Together, deal};
use knarr_array::array::ArrayView;
use knarr_array::comm::{self, Comm, ROOT, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::request::Share;
use knarr_array::wire::{Reader, put_bytes};
use knarr_flow::engine::Engine;
use knarr_flow::output::remove_abandoned;
use knarr_handover::{Blocked, Handover, Spool};

/// A set that was completed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// Its step.
    pub step: u64,
    /// Its directory.
    pub path: PathBuf,
    /// Bytes that were handed over by all ranks.
    pub raw_bytes: u64,
    /// Bytes that were written.
    pub packed_bytes: u64,
    /// From the commit until it was complete, in seconds.
    pub seconds: f64,
}

/// The checkpoints of a program in a directory of sets.
///
/// All functions but [`Session::put`] and [`Session::add_file`] are collective. Only the thread that calls them calls its
/// [`Comm`]; packing runs in a thread of its own, on one rank of each group of a node. At most one step is under way: its
/// arrays lie in memory once more, and the next step waits for it.
pub struct Session<C: Comm> {
    engine: Engine,
    directory: PathBuf,
    options: Options,
    handover: Handover<C, Packing>,
    /// Files of this rank that belong to the step which is open.
    files: Vec<Input>,
    /// Held by rank 0 from the first step on.
    lock: Option<File>,
    /// If steps are complete on the nodes first.
    levels: Option<Levels>,
    /// The step that is packed, if it goes through levels.
    packed: Option<PackedStep>,
    last: Option<Committed>,
    warnings: Vec<Error>,
    /// The restart that goes on until a step is begun.
    restarting: Option<Restarting>,
    pace: Pace,
}

/// What [`Session::need`] goes by, on rank 0.
struct Pace {
    /// When the session was opened.
    begun: Instant,
    /// When the last step was handed over, and the last one of which there is a set.
    committed: Option<Instant>,
    completed: Option<Instant>,
    /// When the program asked last, unless it has done something else since than compute.
    asked: Option<Instant>,
    /// The last time between two questions, and the longest one.
    step: Duration,
    longest: Duration,
    /// For how long the last checkpoint stopped the program, and how long it was packed.
    cost: Option<Duration>,
    packing: Duration,
}

impl Pace {
    /// Of a program that has written `earlier` checkpoints.
    fn after(earlier: &[Measured]) -> Self {
        let longest = |seconds: fn(&Measured) -> Option<f64>| Typical::of(earlier, seconds).map(|times| times.most);
        let (cost, packing) = (longest(|one| one.stopped_s), longest(|one| one.packed_s));
        let packing = packing.unwrap_or_default();
        let (begun, committed, completed, asked) = (Instant::now(), None, None, None);
        Self { begun, committed, completed, asked, step: Duration::ZERO, longest: Duration::ZERO, cost, packing }
    }
}

/// A step that is packed.
struct PackedStep {
    /// Where: `None` in the directory of sets.
    at: Option<At>,
    /// What this rank packs, in case that has to be done once more elsewhere.
    groups: Vec<Group>,
}

/// What a restart takes.
struct Restarting {
    set: PathBuf,
    opening: Duration,
    reading: Blocked,
}

impl<C: Comm> Session<C> {
    /// Makes checkpoints in `directory`, which is made if it is not there. `made` are its options and what does the work, if
    /// this rank has them. Collective.
    ///
    /// # Errors
    /// On all ranks: `Write` if the directory or the spool cannot be made; `Usage` for options that cannot be; as for
    /// [`comm::gather`].
    pub fn open(comm: C, directory: &Path, made: Result<(Engine, Options)>) -> Result<Self> {
        let made = made.and_then(|(engine, options)| {
            if options.keep == Some(0) {
                return Err(Error::usage("no set is to be kept").hint("keep at least 1"));
            }
            let engine = options.resources.engine(&engine);
            options.levels.check()?;
            // Rather now than when the first step is committed.
            check_options(&engine, &options.pack)?;
            std::fs::create_dir_all(directory).map_err(|error| Error::write(directory, &error))?;
            let spool = Spool::open(options.resources.spool.as_deref(), directory)?;
            Ok((engine, options, spool))
        });
        let (engine, options, spool) = agree(&comm, made)?;
        let levels = Levels::open(&engine, &comm, directory, &options.levels)?;
        let earlier = if comm.rank() == ROOT { measured::read(directory).unwrap_or_default() } else { Vec::new() };
        Ok(Self {
            handover: Handover::new(comm, spool, Arc::clone(&engine.cancel)),
            engine,
            directory: directory.to_owned(),
            options,
            files: Vec::new(),
            lock: None,
            levels,
            packed: None,
            last: None,
            warnings: Vec::new(),
            restarting: None,
            pace: Pace::after(&earlier),
        })
    }

    /// True if a checkpoint should be written now: because of what one costs and how often jobs fail, or because the job ends before
    /// the program asks again. To be asked after each step of the program. Does not wait for packing. Collective.
    ///
    /// # Errors
    /// As for [`Session::test`].
    pub fn need(&mut self) -> Result<bool> {
        self.handover.exchange("need", None, Ok(()))?;
        // Without a step under way it would take time for nothing.
        let is_packing = self.handover.pending().is_some() && !self.test()?;
        self.look()?;
        let now = Instant::now();
        if let Some(before) = self.pace.asked.replace(now) {
            self.pace.step = now - before;
            self.pace.longest = self.pace.longest.max(now - before);
        }
        let Pace { begun, committed, step, longest, cost, packing, .. } = self.pace;
        let known = Known {
            since: now - committed.unwrap_or(begun),
            has_one: committed.is_some(),
            step,
            longest,
            cost,
            packing,
            mtbf: self.options.mtbf,
            left: left(self.options.end),
            is_packing,
        };
        comm::share(self.handover.comm(), &known.is_due())
    }

    /// The rank of this process and how many there are.
    pub fn ranks(&self) -> (u64, u64) {
        (self.handover.comm().rank() as u64, self.handover.comm().size() as u64)
    }

    /// The set that was completed last in this session.
    pub fn last(&self) -> Option<&Committed> {
        self.last.as_ref()
    }

    /// What went wrong without being an error of a call, on rank 0: sets that were passed over, old ones that could not
    /// be removed. Returned once.
    pub fn take_warnings(&mut self) -> Vec<Error> {
        self.warnings.extend(self.levels.iter_mut().flat_map(Levels::take_warnings));
        std::mem::take(&mut self.warnings)
    }

    /// Begins a step, after waiting for the one before. What was handed over since a `begin` without `commit` is
    /// forgotten. Collective.
    ///
    /// # Errors
    /// What became of the step before, and then nothing is begun; `Exists` if there is a set of this step, unless sets may
    /// be replaced, or if another program makes sets there.
    pub fn begin(&mut self, step: u64) -> Result<()> {
        self.note_restart();
        // The next question comes later by what the checkpoint takes.
        self.pace.asked = None;
        let _inside = self.handover.enter();
        self.handover.forget();
        let allowed = if self.handover.comm().rank() == ROOT { self.may_begin(step) } else { Ok(()) };
        self.handover.exchange("begin", Some(step), allowed)?;
        self.settle()?;
        if let Some(levels) = &mut self.levels {
            levels.begin(self.handover.comm(), step, self.options.pack.force)?;
        }
        self.files.clear();
        self.handover.open(step);
        Ok(())
    }

    /// Makes this program the one that writes sets there.
    fn hold(&mut self) -> Result<()> {
        if self.lock.is_none() {
            self.lock = Some(sets::lock(&self.directory)?);
            remove_abandoned(&self.directory);
        }
        Ok(())
    }

    fn may_begin(&mut self, step: u64) -> Result<()> {
        self.hold()?;
        let path = sets::of_step(&self.directory, step);
        let is_pending = self.handover.pending() == Some(step);
        if !self.options.pack.force && (is_pending || path.symlink_metadata().is_ok()) {
            return Err(Error::new(ErrorKind::Exists, format!("there is a checkpoint of step {step}"))
                .hint("remove it, or ask to replace those that are there (force)")
                .at(path.display().to_string()));
        }
        Ok(())
    }

    /// Copies an array of this rank; the program may change it at once. A global array has one name, type and shape on all
    /// ranks; each hands over as many regions of it as it has. Not collective.
    ///
    /// # Errors
    /// `Usage` if no step was begun, or for a name, a region or a type that cannot be; `Write` if there is no room. After
    /// an error the step cannot be committed: [`Session::commit`] then returns it on all ranks.
    pub fn put(&mut self, name: &str, array: &ArrayView<'_>, share: Share) -> Result<()> {
        let _inside = self.handover.enter();
        self.handover.put(name, array, share)
    }

    /// Notes that something which belongs to the step could not be handed over: [`Session::commit`] returns the first such
    /// error on all ranks.
    pub fn fail(&mut self, error: &Error) {
        self.handover.fail(error);
    }

    /// Adds a file of this rank, which a restart on as many ranks brings back under `name`, a path below a directory. It is
    /// read while it is packed: it must stay as it is until the step is complete. Not collective.
    ///
    /// # Errors
    /// `Usage` if no step was begun or for a name that cannot be; `NotFound` or `Read` for a file that cannot be read. After
    /// an error the step cannot be committed.
    pub fn add_file(&mut self, path: &Path, name: &str) -> Result<()> {
        let _inside = self.handover.enter();
        self.handover.check_open()?;
        let folder = files_of(self.ranks().0);
        let added = add(&mut self.files, path, &[&folder, name.as_bytes()].concat());
        added.inspect_err(|error| self.handover.fail(error))
    }

    /// Hands the step over: returns as soon as packing has begun. Collective.
    ///
    /// # Errors
    /// On all ranks that of one: what `put` or `add_file` returned, arrays of one name that are not alike, sets that cannot
    /// be written. The step is given up then, and the sets that are there stay.
    pub fn commit(&mut self) -> Result<()> {
        let _inside = self.handover.enter();
        let handed = self.handover.close();
        let files = std::mem::take(&mut self.files);
        // A rank without a step has an error, which says more than that its step is another one.
        let count = handed.as_ref().map(|_| files.len()).map_err(Clone::clone);
        let counts = self.handover.exchange("commit", None, count)?;
        let (step, index) = handed?;
        self.handover.check_alike(&index)?;
        let rank = self.ranks().0;
        let bytes = index.entries.iter().map(|entry| entry.request.byte_len());
        let bytes = bytes.chain(files.iter().map(|file| file.path.metadata().map_or(0, |found| found.len()))).sum();
        let image = Input { path: self.handover.spool().path(), name: image_of(rank), number: rank };
        let comm = self.handover.comm();
        let mine = comm.rank();
        let before: usize = comm.size() + counts.iter().take(mine).sum::<usize>();
        let files = files.into_iter().enumerate().map(|(number, input)| Member { rank: before + number, input });
        let members: Vec<Member> = std::iter::once(Member { rank: mine, input: image }).chain(files).collect();
        let groups = deal(comm, &members, Grouping::Node, self.options.pack.group_size)?;
        let at = self.levels.as_mut().map(|levels| levels.choose(comm, step, bytes)).transpose()?.flatten();
        self.pack(step, PackedStep { at, groups })
    }

    /// Begins to pack a step, in the next level if it cannot be written to memory. Collective.
    fn pack(&mut self, step: u64, mut packed: PackedStep) -> Result<()> {
        loop {
            let begun = self.begin_packing(step, &packed);
            match (begun, self.next_level(&packed)) {
                (Err(error), Some(next)) if error.kind() == ErrorKind::Write => self.leave_memory(step, next, error),
                (begun, _) => {
                    self.packed = begun.is_ok().then_some(packed);
                    return begun;
                }
            }
            packed.at = self.next_level(&packed).flatten();
        }
    }

    /// If a step is packed in memory: the level after that, or the directory of sets.
    fn next_level(&self, packed: &PackedStep) -> Option<Option<At>> {
        self.levels.as_ref()?.after_memory(packed.at?)
    }

    fn leave_memory(&mut self, step: u64, next: Option<At>, error: Error) {
        if let Some(levels) = &mut self.levels {
            levels.leaves(self.handover.comm(), step, next, error);
        }
    }

    fn begin_packing(&mut self, step: u64, packed: &PackedStep) -> Result<()> {
        let base = self.base(packed.at)?;
        let is_open = self.handover.exchange("commit", Some(step), Ok(base.is_some()))?;
        let base = base.filter(|_| is_open.iter().all(|&all| all));
        self.pace.committed = Some(Instant::now());
        let (path, keep) = match (&self.levels, packed.at) {
            (Some(levels), Some(at)) => levels.target(at).map(|(path, keep)| (path, Some(keep)))?,
            _ => (sets::of_step(&self.directory, step), self.options.keep),
        };
        let options = PackOptions { base, keep, ..self.options.pack.clone() };
        let comm = self.handover.comm();
        let together = match &mut self.levels {
            None => Together::begin(&self.engine, comm, &path, &options)?,
            Some(levels) => {
                let before = levels.before(comm)?;
                match packed.at {
                    None => Together::begin_after(&self.engine, comm, &path, &options, before)?,
                    Some(_) => Together::begin_on_nodes(&self.engine, comm, &path, &options, before)?,
                }
            }
        };
        let groups = packed.groups.clone();
        self.handover.start(step, Packing { together, groups, find: self.options.find })
    }

    /// The earlier set whose bytes need not be stored again: the newest one where the step is made, if this rank can read it. Collective.
    fn base(&self, at: Option<At>) -> Result<Option<PathBuf>> {
        let comm = self.handover.comm();
        if let Some((levels, at)) = self.levels.as_ref().zip(at) {
            return levels.base(comm, at.level);
        }
        let base = match comm.rank() {
            ROOT => sets::whole(&self.directory, &self.engine.codecs)
                .map(|(mut sets, _)| sets.pop().map(|set| set.path().to_owned())),
            _ => Ok(None),
        };
        let base: Option<PathBuf> = comm::share(comm, &agree(comm, base)?)?;
        // An earlier set that cannot be read saves no bytes, and is no reason to go without a checkpoint.
        Ok(base.filter(|base| Set::open(base, &self.engine.codecs).is_ok()))
    }

    /// True if no step is under way: the one that was committed last is complete, with the copies that other nodes keep of it. Does
    /// not wait for packing. Collective.
    ///
    /// # Errors
    /// What became of the step, on all ranks that of one: it is given up, and the sets that are there stay.
    pub fn test(&mut self) -> Result<bool> {
        let _inside = self.handover.enter();
        match self.handover.test(Ok(()))? {
            true => {
                self.settle()?;
                self.levels.as_mut().map_or(Ok(true), |levels| levels.has_copies(self.handover.comm()))
            }
            false => Ok(false),
        }
    }

    /// Waits until no step is under way: as for [`Session::test`]. Collective.
    ///
    /// # Errors
    /// As for [`Session::test`].
    pub fn wait(&mut self) -> Result<()> {
        let _inside = self.handover.enter();
        self.waited()
    }

    fn waited(&mut self) -> Result<()> {
        self.handover.exchange("wait", None, Ok(()))?;
        self.settle()?;
        self.levels.as_mut().map_or(Ok(()), |levels| levels.settle_copies(self.handover.comm()))
    }

    /// Opens the checkpoint of `step`, or the newest one that is whole as far as its index tells; those that are passed
    /// over are warnings. `None` if there is none. With `verify` every byte of it is read and checked first. Waits for the
    /// step that is under way. Collective.
    ///
    /// # Errors
    /// `NotFound` if there is no set of this step; `Corrupt` or `Read` if it cannot be used; what became of the step under
    /// way.
    pub fn restart(&mut self, step: Option<u64>, verify: bool) -> Result<Option<Restart>> {
        self.pace.asked = None;
        self.handover.exchange("restart", step, Ok(()))?;
        self.settle()?;
        let begin = Instant::now();
        if self.levels.is_some() {
            let held = if self.handover.comm().rank() == ROOT { self.hold() } else { Ok(()) };
            agree(self.handover.comm(), held)?;
        }
        let restart = match self.restart_on_nodes(step, verify)? {
            Some(restart) => Some(restart),
            None => self.restart_from_directory(step, verify)?,
        };
        self.restarting = restart.as_ref().map(|restart| {
            let set = sets::of_step(&self.directory, restart.step());
            Restarting { set, opening: begin.elapsed(), reading: restart.reading() }
        });
        Ok(restart)
    }

    /// From a step that the nodes have and the directory of sets has not: it is read where it lies.
    fn restart_on_nodes(&mut self, step: Option<u64>, verify: bool) -> Result<Option<Restart>> {
        let Some(levels) = &mut self.levels else { return Ok(None) };
        let comm = self.handover.comm();
        for candidate in levels.candidates(comm, step)? {
            let Some(set) = levels.open_set(comm, &candidate)? else { continue };
            let usable = if comm.rank() == ROOT { usable(&self.engine, &set, verify) } else { Ok(Vec::new()) };
            let indices = match agree(comm, usable) {
                Err(error) if step.is_none() => {
                    if comm.rank() == ROOT {
                        self.warnings.push(error.at("passed over"));
                    }
                    continue;
                }
                usable => comm::broadcast(comm, ROOT, usable?)?,
            };
            let restart = agree(comm, Restart::new(&self.engine, set, &indices))?;
            levels.resumes(comm, &candidate)?;
            return Ok(Some(restart));
        }
        Ok(None)
    }

    fn restart_from_directory(&mut self, step: Option<u64>, verify: bool) -> Result<Option<Restart>> {
        let found = if self.handover.comm().rank() == ROOT {
            find(&self.engine, &self.directory, (step, verify), &mut self.warnings)
        } else {
            Ok(None)
        };
        let comm = self.handover.comm();
        let found = agree(comm, found)?;
        let mut message = Vec::new();
        if let Some((path, indices)) = &found {
            put_bytes(&mut message, &comm::written(path)?);
            put_bytes(&mut message, indices);
        }
        let message = comm::broadcast(comm, ROOT, message)?;
        if message.is_empty() {
            return Ok(None);
        }
        let mut reader = Reader::new("message", &message);
        let path: PathBuf = comm::read(reader.bytes()?)?;
        let set = Set::open(&path, &self.engine.codecs);
        let bytes = reader.bytes()?;
        agree(comm, set.and_then(|set| Restart::new(&self.engine, set, bytes))).map(Some)
    }

    /// Completes the step that is under way and ends the session. Collective. In a process that was forked it does nothing.
    ///
    /// # Errors
    /// What became of the step; `Usage` if one was begun and not committed, which is not stored.
    pub fn close(mut self) -> Result<()> {
        if !self.handover.is_own() {
            return Ok(());
        }
        self.note_restart();
        // Nothing is computed after it, so nothing is kept waiting.
        self.handover.exchange("wait", None, Ok(()))?;
        let settled = self.settle();
        // Those before it are brought, whatever became of the last step.
        let finished = self.levels.as_mut().map_or(Ok(false), |levels| levels.finish(self.handover.comm()));
        if matches!(finished, Ok(true)) {
            self.prune();
        }
        settled?;
        finished?;
        match self.handover.opened() {
            None => Ok(()),
            Some(step) => Err(Error::usage(format!("step {step} was begun and not committed, so it is not stored"))
                .hint("commit it, or do not begin it")),
        }
    }

    /// Notes what has come to the directory of sets meanwhile.
    fn look(&mut self) -> Result<()> {
        if let Some(levels) = &mut self.levels
            && levels.look(self.handover.comm())?
        {
            self.prune();
        }
        Ok(())
    }

    /// Completes the step that is under way, if there is one. All ranks have it, or none.
    fn settle(&mut self) -> Result<()> {
        self.look()?;
        let Some(step) = self.handover.pending() else { return Ok(()) };
        let completed = self.complete(step);
        // What calls take from now on is for the next step.
        let stopped = self.handover.take_blocked();
        // What could not be packed is no checkpoint.
        match &completed {
            Ok(_) => self.pace.completed = self.pace.committed,
            Err(_) => self.pace.committed = self.pace.completed,
        }
        if let Some(committed) = completed? {
            self.pace.cost = Some(stopped);
            self.pace.packing = Duration::try_from_secs_f64(committed.seconds).unwrap_or_default();
            let set = sets::of_step(&self.directory, step);
            measured::note(&set, &Measured::checkpoint(By::Library, Some(stopped), committed.seconds));
        }
        Ok(())
    }

    /// What rank 0 has to tell of a step that was packed. If it could not be written to memory, it is packed once more for the next
    /// level, and waited for.
    fn complete(&mut self, step: u64) -> Result<Option<Committed>> {
        let (packed, at) = loop {
            let settled = self.handover.settle();
            let done = self.packed.take();
            let next = done.as_ref().and_then(|done| self.next_level(done));
            match (settled, next, done) {
                (Err(error), Some(next), Some(done)) if error.kind() == ErrorKind::Write => {
                    self.leave_memory(step, next, error);
                    self.pack(step, PackedStep { at: next, ..done })?;
                }
                (settled, _, done) => {
                    let packed = settled.map_err(|error| error.at(format!("checkpoint of step {step}")))?;
                    break (packed.flatten(), done.and_then(|done| done.at));
                }
            }
        };
        match (&mut self.levels, at) {
            (Some(levels), Some(at)) => levels.completed(self.handover.comm(), at)?,
            (levels, _) => {
                let comm = self.handover.comm();
                levels.iter_mut().try_for_each(|levels| levels.passed(comm, step))?;
                self.prune();
            }
        }
        let path = match (&self.levels, at) {
            (Some(levels), Some(at)) => levels.target(at)?.0,
            _ => sets::of_step(&self.directory, step),
        };
        let committed = packed.map(|Packed { raw_bytes, packed_bytes, seconds, .. }| Committed {
            step,
            path,
            raw_bytes,
            packed_bytes,
            seconds,
        });
        self.last = comm::share(self.handover.comm(), &committed)?;
        Ok(committed)
    }

    /// Notes what the restart took, unless nothing was read. The time of rank 0 stands for that of all.
    fn note_restart(&mut self) {
        let Some(Restarting { set, opening, reading }) = self.restarting.take() else { return };
        let reading = reading.take();
        if self.handover.comm().rank() == ROOT && !reading.is_zero() {
            measured::note(&set, &Measured::restart(By::Library, opening + reading));
        }
    }

    /// Removes what is old in the directory of sets, on rank 0.
    fn prune(&mut self) {
        let Some(keep) = self.options.keep.filter(|_| self.handover.comm().rank() == ROOT) else { return };
        match sets::prune(&self.directory, keep, &self.engine.codecs, false) {
            Ok(pruned) => {
                self.warnings.extend(pruned.damaged.into_iter().map(|error| error.at("left alone")));
                self.warnings.extend(pruned.failed.into_iter().map(|error| error.at("old checkpoints stay")));
            }
            Err(error) => self.warnings.push(error.at("old checkpoints stay")),
        }
    }
}

fn add(files: &mut Vec<Input>, path: &Path, name: &[u8]) -> Result<()> {
    crate::files::names::check(name).map_err(|error| Error::usage(error.message()))?;
    let metadata = std::fs::metadata(path).map_err(|error| Error::read(path, &error))?;
    if !metadata.is_file() {
        return Err(Error::unsupported("not a regular file").at(path.display().to_string()));
    }
    if files.iter().any(|file| file.name == name) {
        let name = name.escape_ascii();
        return Err(Error::usage(format!("two files are called '{name}'")).hint("give one of them another name"));
    }
    let number = files.len() as u64;
    files.push(Input { path: path.to_owned(), name: name.to_vec(), number });
    Ok(())
}
